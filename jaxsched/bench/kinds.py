"""The benchmarks by name, and which settings each of them takes."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from jax.sharding import Mesh

from jaxsched.bench.budget import Budget
from jaxsched.bench.scaling import scaling_speed
from jaxsched.bench.throughput import FIGURES, QUICK, QUICK_S, REPEATS, ROW_S, throughput
from jaxsched.bench.time_to_score import time_to_score
from jaxsched.bench.training import training_speed
from jaxsched.errors import JaxschedError
from jaxsched.ops import target

SCORED = "training --score"
TAKES = {
    "throughput": (
        *("quick", "batch", "figure", "repeats", "budget", "set", "servers"),
        *("option", "peers", "peer_python", "devices", "lowering"),
    ),
    "training": ("set", "servers", "repeats", "updates", "warm_up", "devices"),
    SCORED: ("set", "servers", "score", "num_seeds", "devices"),
    "scaling": (
        *("set", "servers", "batch", "repeats", "updates"),
        *("devices", "coordinator", "num_processes", "process_id"),
    ),
}
"""Settings of each benchmark, beside system and preset."""
UPDATES = 20  # of a repeat of a training, and before the first
SCALED_BATCH = 4096


class Asked(NamedTuple):
    """Settings of a benchmark; what is absent has its own default.

    Attributes:
      quick: three batch sizes, within a minute.
      batch: numbers of environments.
      figure: what is measured: ``environment``, ``policy``.
      repeats: timed repeats of a row.
      budget: seconds that a row may take.
      option: old spelling of ``set``.
      set: changes of the recipe, ``path=value`` each.
      servers: the cluster as "40x8".
      updates: of each repeat of a training.
      warm_up: updates before the first repeat.
      score: a training goes on until this score: a number, or a rule whose own it is.
      num_seeds: trainings to that score, one after the other.
      devices: how many, or all.
      coordinator: of several processes.
      num_processes: how many.
      process_id: which of them this is.
      peers: whether other projects' environments are measured.
      peer_python: interpreter that has them.
      lowering: how steps of one environment become those of all (``ops.target.LOWERINGS``).
    """

    quick: bool | None = None
    batch: list[int] | None = None
    figure: list[str] | None = None
    repeats: int | None = None
    budget: float | None = None
    option: list[str] | None = None
    set: list[str] | None = None
    servers: str | None = None
    updates: int | None = None
    warm_up: int | None = None
    score: str | None = None
    num_seeds: int | None = None
    devices: str | None = None
    coordinator: str | None = None
    num_processes: int | None = None
    process_id: int | None = None
    peers: bool | None = None
    peer_python: str | None = None
    lowering: str | None = None

    def check(self, kind: str) -> None:
        """Refuse an unknown benchmark, and settings that this one would not look at.

        Raises:
          JaxschedError: one line that says which benchmark a setting is for.
        """
        kind = SCORED if kind == "training" and self.score is not None else kind
        if kind not in TAKES:
            known = ", ".join(name for name in TAKES if name != SCORED)
            raise JaxschedError(f"unknown benchmark {kind!r}; known are {known}")
        for name, value in self._asdict().items():
            if value not in (None, []) and name not in TAKES[kind]:
                others = " and ".join(other for other, names in TAKES.items() if name in names)
                option = f"--{name.replace('_', '-')}"
                raise JaxschedError(f"{option} is for bench {others}, not for bench {kind}")
        if kind == "scaling" and len(self.batch or []) > 1:
            raise JaxschedError("bench scaling measures one --batch")


def measured(
    kind: str,
    system: str,
    asked: Asked,
    *,
    preset: str | None = None,
    overrides: tuple[str, ...] = (),
    mesh: Mesh | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Run a benchmark.

    Args:
      kind: throughput, training or scaling.
      system: name of the system.
      asked: settings.
      preset: cluster and traces, or recipe; the benchmark's own if absent.
      overrides: changes of it, ``path=value`` each.
      mesh: devices that share the work; None: one.
      progress: called with a line about what comes next.

    Returns:
      The result, as ``jaxsched.bench.tables`` prints it.

    Raises:
      JaxschedError: a name, a size or a setting is refused.
    """
    given: dict[str, Any] = {"overrides": overrides, "progress": progress}
    repeats, updates = asked.repeats or REPEATS, asked.updates or UPDATES
    if kind == "scaling":
        batch, *_ = asked.batch or [SCALED_BATCH]
        return scaling_speed(
            system,
            preset=preset or "plain-ppo",
            mesh=mesh,
            batch=batch,
            repeats=repeats,
            updates_per_repeat=updates,
            **given,
        )
    if asked.score is not None:
        number = asked.num_seeds or 1
        return time_to_score(
            system, asked.score, preset=preset or "quick", num_seeds=number, mesh=mesh, **given
        )
    if kind == "training":
        return training_speed(
            system,
            preset=preset or "paper",
            mesh=mesh,
            repeats=repeats,
            updates_per_repeat=updates,
            warm_up_updates=UPDATES if asked.warm_up is None else asked.warm_up,
            **given,
        )
    sizes: dict[str, Any] = dict(QUICK) if asked.quick else {}
    sizes |= {"batches": asked.batch} if asked.batch else {}
    sizes |= {"repeats": asked.repeats} if asked.repeats else {}
    with target.lowered_by(asked.lowering):
        return throughput(
            system,
            preset=preset,
            figures=asked.figure or FIGURES,
            devices=1 if mesh is None else mesh.size,
            peers=bool(asked.peers or asked.peer_python),
            peer_python=asked.peer_python,
            budget=Budget(asked.budget or ROW_S, QUICK_S if asked.quick else math.inf),
            **sizes,
            **given,
        )
