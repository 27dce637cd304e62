"""The static options of MLFS' dynamics."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from jaxsched.envs.mlfs.simulator.cluster import Cluster

Order = Literal["mlf", "fair", "slaq", "tiresias", "gandiva", "graphene", "hypersched", "fifo"]
MLF: Order = "mlf"
ORDERS: tuple[Order, ...] = get_args(Order)
"""Who is placed first: by MLF-H's priorities, or as a baseline orders (section 9)."""
WAVE_CLASSES = (800, 900, 1000, 1100, 1200)
"""Pm of the nominal demand that a task may be estimated to need; waiting tasks need 1000."""


class Rules(NamedTuple):
    """Static options (specification, sections 2, 3, 9).

    Attributes:
      cluster: servers and thresholds.
      window: A, jobs that can be active.
      max_offers: decisions of a slot.
      order: one of ``ORDERS``; all but ``mlf`` go by nominal demand.
      move_work: mmin that a task loses by moving to another server.
      move_mb: MB that it sends.
      migrant_share: per cent of the tasks of overloaded GPUs that may leave (p_s).
      use_urgency: urgency counts in priorities.
      use_deadline: deadlines count in priorities.
      use_bandwidth: communication counts in the choice of hosts and of migrants.
      use_migration: tasks leave overloaded servers.
      use_mlfc: jobs end early where the cluster is busy (MLF-C).
      tiresias_threshold: attained GPU-seconds after which a job yields.
      waiting_min: minutes of the unit of time of the waiting term in priorities.
      stop_achieved: MLF-C stops jobs by the accuracy that they have, not by a prediction.
      stop_hopeless: MLF-C also stops jobs that cannot reach their target any more.
    """

    cluster: Cluster = Cluster()
    window: int = 64
    max_offers: int = 32
    order: Order = MLF
    move_work: int = 250
    move_mb: int = 500
    migrant_share: int = 10
    use_urgency: bool = True
    use_deadline: bool = True
    use_bandwidth: bool = True
    use_migration: bool = True
    use_mlfc: bool = False
    tiresias_threshold: int = 30000
    waiting_min: int = 1440
    stop_achieved: bool = False
    stop_hopeless: bool = False

    @property
    def measures(self) -> bool:
        """Decisions go by measured demand, not by the nominal one."""
        return self.order == MLF

    @property
    def classes(self) -> tuple[int, ...]:
        """Estimates of demand that tasks on offer may have, pm."""
        return WAVE_CLASSES if self.measures and self.use_migration else (1000,)


OF_CLUSTER = ("cpus", "mem", "bandwidth", "flow_rate", "overload", "busy", "some_gpus")
OF_RULES = (
    *("max_offers", "move_work", "move_mb", "migrant_share", "use_urgency", "use_deadline"),
    *("use_bandwidth", "use_mlfc", "tiresias_threshold"),
    *("waiting_min", "stop_achieved", "stop_hopeless"),
)
"""Options from which no shape and no choice of a rule follows."""


def with_options(rules: Rules, options: Mapping[str, Any]) -> Rules:
    """Rules with ``options``, those of ``OF_CLUSTER`` and ``OF_RULES``, in place of their own."""
    cluster = rules.cluster._replace(**{name: options[name] for name in OF_CLUSTER})
    return rules._replace(cluster=cluster, **{name: options[name] for name in OF_RULES})
