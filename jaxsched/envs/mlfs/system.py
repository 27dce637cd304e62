"""MLFS as the rest of the library sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from jaxsched.core.evaluation import Recorder
from jaxsched.core.policies import Policy, uniform_legal
from jaxsched.envs.mlfs import cases, recording
from jaxsched.envs.mlfs import records as rec
from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.heuristics import heuristic
from jaxsched.envs.mlfs.learning.linear import linear_host
from jaxsched.envs.mlfs.learning.networks import PAIRS, policy_network, value_network
from jaxsched.envs.mlfs.learning.presets import DEPARTURES, FORMER_SETTINGS, NOTES, PRESETS, TUNED
from jaxsched.envs.mlfs.mapping import task_jobs
from jaxsched.envs.mlfs.paper import paper_rows
from jaxsched.envs.mlfs.recording import PLAY_PACE
from jaxsched.envs.mlfs.simulator.rules import MLF, ORDERS
from jaxsched.envs.mlfs.simulator.tables import SLOT_S, WEIGHTS, Params
from jaxsched.envs.mlfs.traces import WORKLOAD
from jaxsched.envs.mlfs.workload import SMALL_JOBS, SPAN_S
from jaxsched.errors import JaxschedError
from jaxsched.jobs import RIGID_JOBS, JobTable
from jaxsched.jobs.servers import Servers
from jaxsched.systems.base import (
    Heuristic,
    Network,
    Played,
    PolicyInfo,
    System,
    TraceSet,
)
from jaxsched.systems.recipe import Recipe
from jaxsched.systems.recording import Recording, Staged
from jaxsched.traces.mapping import MappingConfig
from jaxsched.types import PRNGKey, PyTree

HIGHEST_LOAD = 3  # times the jobs of load 1
LONGEST_S = 86400  # of a job on an idle cluster (section 11)
SHORTEST_S = 300
DEFAULT_KIND, PLAIN = "paper", "servers"  # of networks: what benchmarks ask for, and what they get
PAPER, OWN = "paper", "own"
LINEAR_TUNED = "linear_tuned"
TEACHERS = {"heuristic": heuristic, "linear": linear_host}
PLANNING_PACE = 4  # steps from the end of a slot to that of the next, see ``MLFS.slot_every``


class MLFSSystem(System[MLFS, Params, Recipe]):
    """Placement of tasks by priorities, by a policy network, and with load control."""

    name = "mlfs"
    title = "MLFS: tasks with deadlines, migration and load control"
    decides = "where each task of iterative jobs runs, which tasks migrate, when jobs end"
    source = "Wang, Liu, Shen: Job Scheduling for Large-Scale Machine Learning Clusters, CoNEXT '20"
    environment_type = MLFS
    best_rule = LINEAR_TUNED
    primary_metric = "avg_jct"
    metrics = (
        "avg_jct",
        "median_jct",
        "jct_under_100min",
        "makespan",
        "avg_wait",
        "deadline_ratio",
        "urgent_deadline_ratio",
        "avg_accuracy",
        "accuracy_ratio",
        "bandwidth_mb",
        "overloads",
        "migrations",
        "evictions",
        "iterations",
        "return",
        "steps",
        "slots",
        "finished",
    )
    own_metrics = rec.OWN_METRICS
    planning_horizon_s = 3_600.0  # an hour of slots
    plain_network = "servers"
    episode_steps = 0  # a hundred thousand and more
    workload = WORKLOAD
    policies: Mapping[str, PolicyInfo] = {
        "fair": PolicyInfo(
            "baseline", "least running GPU demand first (TensorFlow)", knows="GPUs in use"
        ),
        "slaq": PolicyInfo("baseline", "most loss reduction per minute first", knows="loss curves"),
        "tiresias": PolicyInfo(
            "baseline", "least attained service, two queues", knows="service attained"
        ),
        "gandiva": PolicyInfo(
            "baseline",
            "first in, first out; moves tasks off hot GPUs",
            knows="order of arrival, GPU load",
        ),
        "graphene": PolicyInfo(
            "baseline",
            "short, large and under-served jobs first",
            knows="predicted run times, requests",
        ),
        "hypersched": PolicyInfo(
            "baseline",
            "most accuracy gained until the deadline first",
            knows="accuracy curves, deadlines",
        ),
        "fifo": PolicyInfo("baseline", "first in, first out", knows="order of arrival"),
        "mlf_h": PolicyInfo(
            "baseline",
            "MLF-H: priorities, host choice, migration",
            knows="predicted run times, deadlines, loss curves",
        ),
        "mlf_hc": PolicyInfo(
            "reference",
            "MLF-H with MLF-C: jobs end early under load",
            apart=True,
            knows="predicted run times, deadlines, loss curves",
        ),
        "linear": PolicyInfo(
            "reference",
            "MLF-H's order, linear choice of servers",
            knows="predicted run times, deadlines, loss curves",
        ),
        LINEAR_TUNED: PolicyInfo(
            "reference",
            "linear, in an order of tasks by weights found by search",
            knows="predicted run times, deadlines, loss curves",
        ),
        "random": PolicyInfo(
            "reference",
            "MLF-H's order, uniformly random servers or queue",
            knows="predicted run times, deadlines, loss curves",
        ),
    }
    presets = PRESETS
    preset_notes = NOTES
    departures = DEPARTURES
    former_settings = FORMER_SETTINGS
    traces = TraceSet("mlfs-small-mixed", f"mlfs-small-x{HIGHEST_LOAD}", num_test=10)
    num_jobs = HIGHEST_LOAD * SMALL_JOBS
    unfinished_score = float(SLOT_S * MLFS.max_slots)  # s, the length of an episode that is cut
    heuristic_options: Mapping[str, Any] = {"mlfc": False, "weights": PAPER}

    def adapt(self, tables: Sequence[JobTable]) -> list[JobTable]:
        """Rigid jobs become jobs of tasks (section 11), each table with draws of its own."""
        return [
            task_jobs(table, seed=index) if table.schema == RIGID_JOBS else table
            for index, table in enumerate(tables)
        ]

    def heuristic(
        self, name: str, env: MLFS, num_jobs: int, options: Mapping[str, Any]
    ) -> Heuristic:
        """A baseline in its own order of tasks, MLF-H, or a reference policy.

        Only ``mlf_hc`` plays with MLF-C, unless the option ``mlfc`` has all of them do so. MLF's
        priorities have the paper's weights, or with ``weights`` "own" those of ``env``;
        ``linear_tuned`` always has those found by search.
        """
        del num_jobs
        chosen = self.checked_options(options)
        self.policy_info(name)
        return _heuristic(name, env, chosen["mlfc"], chosen["weights"])

    def checked_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The heuristics' options, defaults filled in.

        Raises:
          JaxschedError: an unknown option or a bad value.
        """
        chosen = super().checked_options(options)
        if not isinstance(chosen["mlfc"], bool):
            raise JaxschedError(f"mlfs: mlfc is {chosen['mlfc']!r}; accepted: True, False")
        if chosen["weights"] not in (PAPER, OWN):
            raise JaxschedError(f"mlfs: weights is {chosen['weights']!r}; accepted: {PAPER}, {OWN}")
        return chosen

    def option_facts(self, env: MLFS, chosen: Mapping[str, Any]) -> dict[str, str]:
        """Whether heuristics play with MLF-C."""
        del env
        who = "every heuristic" if chosen["mlfc"] else "mlf_hc only"
        return {"MLF-C (ends jobs early)": f"in force for {who}"}

    def network(self, env: MLFS, kind: str) -> Network:
        """The policy network, with all inputs or with those of the baseline RL, or weights.

        Raises:
          JaxschedError: no such kind.
        """
        plain = PAIRS if env.by_slot else PLAIN
        return policy_network(env, plain if kind == DEFAULT_KIND else kind)

    def value_network(self, env: MLFS, kind: str) -> Network:
        """That of the same make, with the same inputs.

        Raises:
          JaxschedError: no such kind.
        """
        return value_network(env, PLAIN if kind == DEFAULT_KIND else kind)

    def teacher(self, name: str, env: MLFS) -> Policy:
        """The rule of the environment's order (``heuristic``), or ``linear``.

        Both answer what the environment offers, in its own order with its own weights.

        Raises:
          JaxschedError: another name, or the action is the weights of a slot.
        """
        if env.by_slot:
            raise JaxschedError("mlfs: weights of slots are learned by search, nothing else is")
        if name not in TEACHERS:
            raise JaxschedError(f"mlfs: teacher is {name!r}; accepted: {', '.join(TEACHERS)}")
        return TEACHERS[name](env)

    def recorder(self, env: MLFS) -> Recorder:
        """Per-job records and counts."""
        return rec.recorder(env)

    def planning_environment(self, env: MLFS) -> MLFS:
        """With the backlog reward: its sum is the mean completion time, in slots. At a common pace.

        Of many plays side by side one nearly always ends its slot, which then costs all of them.
        """
        return replace(env, reward="backlog", slot_every=0 if env.by_slot else PLANNING_PACE)

    def play(
        self,
        env: MLFS,
        policy: Policy,
        params: Any,
        weights: PyTree = (),
        *,
        schedule: Sequence[int] = (),
        key: PRNGKey | None = None,
    ) -> Played:
        """One policy on every episode, slots of all ended at the same steps.

        The pace is ``PLAY_PACE`` whatever the number of episodes and the environment's own, so that
        policies that draw play alike alone and beside others.
        """
        paced = replace(env, slot_every=PLAY_PACE)
        return super().play(paced, policy, params, weights, schedule=schedule, key=key)

    def measured(
        self, env: MLFS, params: Any, episodes: np.ndarray, records: Any
    ) -> dict[str, np.ndarray]:
        """Metrics per episode."""
        return rec.summarise(env, params, episodes, records)

    def claims(
        self, env: MLFS, summary: Mapping[str, Mapping[str, float]], learned: str
    ) -> list[dict[str, Any]]:
        """Figure 4 at the highest load; with MLF-C the learned policy is MLFS, else MLF-RL."""
        return paper_rows(summary, learned, controls=env.use_mlfc)

    def simulate(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """Run a golden case."""
        return cases.simulate(case)

    def recording(self, env: MLFS) -> Recording:
        """How episodes become pictures."""
        return recording.recording(env)

    def staged(self, case: Mapping[str, Any]) -> Staged:
        """A golden case that is an episode, ready to be played."""
        return recording.staged(case)

    def cluster_gpus(self, env: MLFS) -> tuple[int, ...]:
        """GPUs of each server."""
        return env.gpus

    def server_options(self, servers: Servers) -> dict[str, Any]:
        """The option ``gpus``, which has a number for each server."""
        return {"gpus": (servers.gpus_per_server,) * servers.num_servers}

    def mapping(self, env: MLFS, *, mean_gap_s: float | None, load: float | None) -> MappingConfig:
        """The gaps of the highest load on 20 GPUs unless asked otherwise."""
        if mean_gap_s is None and load is None:
            mean_gap_s = SPAN_S / self.num_jobs
        return MappingConfig.on(
            self.cluster_gpus(env),
            min_duration_s=SHORTEST_S,
            max_duration_s=LONGEST_S,
            mean_gap_s=mean_gap_s,
            load=load,
        )


@cache
def _heuristic(name: str, env: MLFS, mlfc: bool, weights: str) -> Heuristic:
    order: Any = name if name in ORDERS else MLF
    changes: dict[str, Any] = dict(WEIGHTS) if weights == PAPER else {}
    changes |= TUNED if name == LINEAR_TUNED else {}
    changes |= {"order": order, "use_mlfc": mlfc or name == "mlf_hc", "decide": "offer"}
    env = replace(env, **changes)
    if name == "random":
        return Heuristic(env, uniform_legal(name))
    linear = name in ("linear", LINEAR_TUNED)
    return Heuristic(env, linear_host(env, name) if linear else heuristic(env, name))


SYSTEM = MLFSSystem()
