"""What MLFS' text leaves open in Equations 2 to 6: every reading on the same workloads.

    python -m benchmarks.mlfs_readings [--draws 12] [--loads 3] [--seed 9100] [--json FILE]
    python -m benchmarks.mlfs_readings --players "mixed;graphene" --loads 1,2,3 --draws 100
    python -m benchmarks.mlfs_readings --players "mixed;slaq" --span 54,72    another load
    python -m benchmarks.mlfs_readings --players "mixed;slaq" --cluster real --window 1024

Players are readings, readings with MLF-C (``READING + mlfc`` and other words of ``CONTROLS``), and
baselines; all readings and all baselines by default. ``--span`` has the jobs come in other times
than 36 hours, ``--cluster`` real plays four times as many on 80 GPUs, ``--window`` has room for
more of them in the cluster than the environment has by default (others wait outside, first come
first served). With ``--json`` what the file has already is not played again.

The equations (specification, section 3.1) have printed weights (alpha .3, gamma .8, .3, .3 and
.35) and no units: importance is urgency x loss ratio x size / iteration, a number without a unit;
Equation 4 adds 1 / (d - t), 1 / r and w, that is 1 / time, 1 / time and time. MLF-H plays each
reading with these weights and nothing else changed. The list was written before any of it was run:

units       all of Equation 4 in one unit of time, the only reading without a constant of ours:
            ``seconds``, ``minutes``, ``hours``, ``days``. Or ``mixed``, what this project had:
            hours, tens of task-hours for r, hours; and ``mixed, wait in days``.
r           "remaining time": of the job, as work of all its tasks (``job's work``) or as the time
            that it takes on an idle cluster (``job's path``); or of the task, the work of this
            instance (``task's run``) or of all its runs to come (``task's runs``).
normalised  each term of Equation 4, and importance, over the largest among the waiting tasks
            (``over the queue``), so that no units are left.
d           of the task (the latest finish that allows the rest, as in the text) or
            ``job's deadline``; after it the term is 0, or negative as it is printed
            (``negative when late``).
size        the share of the model's parameters, or megabytes (``megabytes``: share x what a root
            sends the parameter server, 50 to 100 MB). Samples: every task of a job sees the same
            number of samples, so size in samples is 1 (``no size``).

All units meet all four r; d, size and late are changed one at a time in the reading of least
completion time. Asked for is Figure 4's order: MLF-H before Graphene, Tiresias, HyperSched and
Gandiva, these before fair (TensorFlow), that before SLAQ in completion time, and MLF-H before all
of them in deadlines met and in accuracy at the deadline. The order among baselines does not depend
on the reading. The chosen one is confirmed once, on draws of another seed.

Intervals are 95 % bootstraps over workloads. Axis: ``E`` workloads.
"""

import argparse
import json
import shlex
import sys
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.scripts import exit_status
from jaxsched.envs.mlfs import MLFS, Params
from jaxsched.envs.mlfs.environment import CLUSTERS
from jaxsched.envs.mlfs.heuristics.baselines import heuristic
from jaxsched.envs.mlfs.jobs import (
    MAX_PARTITIONS,
    MAX_TASKS,
    REAL_JOBS,
    SMALL_JOBS,
    task_tables,
)
from jaxsched.envs.mlfs.rules import FULL, div, dynamics
from jaxsched.envs.mlfs.rules.priority import over_children, progress_of, slots_left, spread
from jaxsched.envs.mlfs.rules.state import NONE, WAITING, Active, Tasks
from jaxsched.envs.mlfs.rules.tables import CAP, Job, as_columns
from jaxsched.errors import JaxschedError
from jaxsched.systems import functions, registry
from jaxsched.types import Array

SEED, DRAWS = 9100, 12
UNITS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
REMAINING = ("job's path", "job's work", "task's runs", "task's run")
BASELINES = ("graphene", "tiresias", "hypersched", "gandiva", "fair", "slaq", "fifo")
CONTROLS: dict[str, dict[str, Any]] = {
    "mlfc": {},
    "mlfc, accuracies off": {"prediction_error": 10},
    "achieved": {"early_stop": "achieved"},
    "hopeless": {"early_stop": "hopeless"},
}
"""MLF-C as it was, with the paper's errors, by achieved accuracy, with hopeless jobs stopped."""
FINE_S = 60_000
"""Unit of 1 / time where terms are over the largest of the queue: 1000 minutes."""
METRICS = (
    *("avg_jct", "median_jct", "jct_under_100min", "makespan", "avg_wait", "deadline_ratio"),
    *("urgent_deadline_ratio", "avg_accuracy", "accuracy_ratio", "bandwidth_mb", "finished"),
)
SHOWN = ("avg_jct", "deadline_ratio", "avg_accuracy", "accuracy_ratio", "jct_under_100min")


ROUNDS = 40  # communications of an iteration
MINUTE = 60  # s
MOST = 2_000_000
"""Of a term before it is divided by the largest of the queue."""


class Reading(NamedTuple):
    """Units and quantities of MLF-H's priorities.

    Attributes:
      deadline_s: unit of time (s) of the deadline term, 1 / (d - t).
      remaining_s: of the remaining-time term, 1 / r.
      waiting_s: of the waiting term, w.
      remaining: what r is, one of ``REMAINING``.
      least: minutes or task-minutes that r has at least.
      job_deadline: d is the job's deadline, not the task's.
      negative: the deadline term is negative after the deadline, not 0.
      size: of importance.
      normalised: terms are over the largest of the waiting tasks.
    """

    deadline_s: int = 3600
    remaining_s: int = 36_000
    waiting_s: int = 3600
    remaining: str = "job's work"
    least: int = 1
    job_deadline: bool = False
    negative: bool = False
    size: Literal["share", "megabytes", "none"] = "share"
    normalised: bool = False


MIXED = Reading(least=10)
"""What the environment has with ``waiting_unit`` "hour"; ``mixed, wait in days``: with "day"."""


def readings() -> dict[str, Reading]:
    """Those of the list above, by name."""
    found = {"mixed": MIXED, "mixed, wait in days": MIXED._replace(waiting_s=UNITS["days"])}
    for unit, seconds in UNITS.items():
        for remaining in REMAINING:
            name = f"{unit}, {remaining}"
            found[name] = Reading(seconds, seconds, seconds, remaining=remaining)
    for remaining in REMAINING:
        found[f"over the queue, {remaining}"] = Reading(
            FINE_S, FINE_S, UNITS["minutes"], remaining=remaining, normalised=True
        )
    changes: dict[str, dict[str, Any]] = {
        "job's deadline": {"job_deadline": True},
        "negative when late": {"negative": True},
        "megabytes": {"size": "megabytes"},
        "no size": {"size": "none"},
    }
    for name in LEAST:
        for words, change in changes.items():
            found[f"{name}, {words}"] = found[name]._replace(**change)
    return found


LEAST = ("mixed, wait in days",)
"""The reading of least completion time."""


@dataclass(frozen=True)
class Tried(MLFS):
    """MLFS under a reading that the package does not know.

    Attributes:
      tried: the reading.
    """

    tried: Reading = MIXED


def priority(
    reading: Reading,
    params: Params,
    jobs: Job,
    active: Active,
    tasks: Tasks,
    slot: Array,
    **switches: Any,
) -> Array:
    """``mlf_priority`` under a reading, all switches on; int32 ``[A, K]``."""
    del switches
    progress = progress_of(jobs, active.iterations, active.limit)
    waits = tasks.state == WAITING
    terms = [
        importance(reading, jobs, progress),
        deadline_term(reading, jobs, progress, slot),
        remaining_term(reading, jobs, progress),
    ]
    waited = waiting_term(reading, jnp.where(waits, slot - tasks.since, 0))
    if reading.normalised:
        queue = waits & (active.job != NONE)[:, None]
        terms = [over_largest(term, jnp.where(queue, spread(jobs, term), 0)) for term in terms]
        waited = over_largest(waited, jnp.where(queue, waited, 0))
    worth, pressing, short = terms
    weights = params.deadline_weight, params.remaining_weight, params.waiting_weight
    enough = [div(100 * CAP, jnp.maximum(weight, 1)) + 1 for weight in weights]
    by_partition = weights[0] * jnp.minimum(pressing, enough[0])
    by_partition += weights[1] * jnp.minimum(short, enough[1])
    own = spread(jobs, by_partition) + weights[2] * jnp.minimum(waited, enough[2])
    own = jnp.maximum(div(own, 100), 0).reshape(-1, MAX_TASKS // MAX_PARTITIONS, MAX_PARTITIONS)
    both = over_children(
        jnp.concatenate([worth[:, None], own], axis=1), jobs, params.children_share
    )
    worth, urgent = both[:, 0], both[:, 1:].reshape(-1, MAX_TASKS)
    share = params.importance_share
    return div(share * spread(jobs, worth) + (100 - share) * urgent, 100)


def importance(reading: Reading, jobs: Job, progress: Any) -> Array:
    """Equation 2, times 1000; int32 ``[A, P]``."""
    rate = (jobs.urgency * progress.ratio)[:, None]
    iteration = jnp.maximum(progress.iteration, 1)[:, None]
    if reading.size == "megabytes":
        megabytes = div(jobs.size * jobs.server_mb[:, None], ROUNDS)
        return div(div(rate, iteration) * megabytes, FULL)
    size = jnp.where(jobs.size > 0, FULL, 0) if reading.size == "none" else jobs.size
    return div(div(rate * size, iteration), FULL)


def deadline_term(reading: Reading, jobs: Job, progress: Any, slot: Array) -> Array:
    """1 / (d - t), times 1000; int32 ``[A, P]``."""
    after, tail = progress.after[:, None], jobs.tail
    if reading.job_deadline:
        after, tail = jnp.zeros_like(after), jnp.zeros_like(tail)
    left = slots_left(as_columns(jobs), after, tail, slot)
    most = reading.deadline_s * FULL // MINUTE
    pressing = jnp.where(left > 0, div(most, jnp.maximum(left, 1)), 0)
    if reading.negative:
        pressing -= jnp.where(left <= 0, div(most, jnp.maximum(-left, 1)), 0)
    return pressing


def remaining_term(reading: Reading, jobs: Job, progress: Any) -> Array:
    """1 / r, times 1000; int32 ``[A, P]``."""
    most = reading.remaining_s * FULL // MINUTE
    if reading.remaining == "task's run":  # the only one below a minute
        work = jnp.maximum(jobs.work, 1)
        return div(most, work) * FULL + div(most % work * FULL, work)
    rounds = (progress.after + 1)[:, None]
    minutes = {
        "job's work": progress.residual[:, None],
        "job's path": div(rounds * jobs.critical[:, None] + FULL - 1, FULL),
        "task's runs": div(rounds * jobs.work + FULL - 1, FULL),
    }[reading.remaining]
    short = div(most, jnp.maximum(minutes, reading.least))
    return jnp.broadcast_to(short, jobs.work.shape)


def waiting_term(reading: Reading, minutes: Array) -> Array:
    """w, times 1000; int32 ``[A, K]``."""
    if reading.waiting_s >= MINUTE:
        return div(minutes * FULL, reading.waiting_s // MINUTE)
    each = FULL * MINUTE // reading.waiting_s
    return jnp.minimum(minutes, 2**31 // each - 1) * each


def over_largest(term: Array, of_queue: Array) -> Array:
    """A term over the largest of the waiting tasks, times 1000, at most 1000."""
    most = jnp.minimum(jnp.max(of_queue), MOST)
    return div(jnp.clip(term, 0, most) * FULL, jnp.maximum(most, 1))


def main() -> None:
    """Play, print a line for each player, write all episodes as JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--players", help="semicolons between them; all if absent")
    parser.add_argument("--loads", default="3", help="commas between them")
    parser.add_argument("--span", default="36", help="hours in which jobs come, commas between")
    parser.add_argument("--cluster", choices=("small", "real"), default="small")
    parser.add_argument("--window", help="jobs in the cluster, commas between; the cluster's own")
    parser.add_argument("--draws", type=int, default=DRAWS, help="workloads of each load")
    parser.add_argument("--seed", type=int, default=SEED, help="of the workloads of load 0")
    parser.add_argument("--json", type=Path, help="where results are read and written")
    options = parser.parse_args()
    known = readings()
    names = options.players.split(";") if options.players else [*known, *BASELINES]
    for name in names:
        reading, _, control = name.partition(" + ")
        if name not in BASELINES and not (reading in known and control in ("", *CONTROLS)):
            raise JaxschedError(
                f"player is {name!r}; accepted: {'; '.join([*known, *BASELINES])}, and a reading "
                f"with ' + ' and one of {'; '.join(CONTROLS)} behind it"
            )
    from jaxsched.provenance import surroundings

    result: dict[str, Any] = {
        "system": "mlfs",
        "command": shlex.join(["python", "-m", "benchmarks.mlfs_readings", *sys.argv[1:]]),
        **surroundings(),
        "loads": {},
    }
    if options.json is not None and options.json.exists():
        result["loads"] = json.loads(options.json.read_text())["loads"]
    windows = options.window.split(",") if options.window else [""]
    parts = list(product(options.loads.split(","), options.span.split(","), windows))
    jobs = {"small": SMALL_JOBS, "real": REAL_JOBS}[options.cluster]
    for name in names:
        for load, hours, window in parts:
            seed = options.seed + int(load)
            key = load if hours == "36" else f"{load}, {hours} h"
            key += f", window {window}" * bool(window)
            part = result["loads"].setdefault(key, {"seed": seed, "metrics": {}})
            if name not in part["metrics"]:
                tables = task_tables(
                    seed, options.draws, num_jobs=jobs * int(load), span_s=3600 * float(hours)
                )
                cluster = CLUSTERS[options.cluster]
                if window:
                    cluster = {**cluster, "max_active": int(window)}
                part["metrics"][name] = played(name, known, tables, cluster)
            if options.json is not None:
                options.json.write_text(json.dumps(result, indent=1) + "\n")
            show(key, name, part["metrics"][name])


def played(
    name: str, known: dict[str, Reading], tables: Any, cluster: dict[str, Any]
) -> dict[str, list[list[float]]]:
    """Metrics of a player, ``[1, E]`` each; whole slots are placed by its rule."""
    system = registry.get("mlfs")
    if name in BASELINES:
        env: MLFS = MLFS(**cluster, order=name, decide="rule")  # type: ignore[arg-type]
    else:
        reading, _, control = name.partition(" + ")
        changes = CONTROLS.get(control, {})
        options = {**cluster, **changes, "use_mlfc": bool(control)}
        env = Tried(**options, tried=known[reading], decide="rule")
    told = partial(priority, env.tried) if isinstance(env, Tried) else None
    with mock.patch.object(dynamics, "mlf_priority", told):
        found = functions.play(system, env, heuristic(env, name), env.params(tables))
    jax.clear_caches()  # nobody else uses this player's program
    return {metric: [found.metrics[metric].tolist()] for metric in METRICS}


def show(load: str, name: str, metrics: dict[str, list[list[float]]]) -> None:
    """Print means of a player."""
    means = ", ".join(f"{metric} {np.mean(metrics[metric]):,.4g}" for metric in SHOWN)
    print(f"x={load} {name}: {means}", flush=True)


if __name__ == "__main__":
    sys.exit(exit_status(main))
