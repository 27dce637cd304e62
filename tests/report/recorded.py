"""Recorded schedules of a small golden case of every system, for tests of what is made of them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from jaxsched.jobs.schedule import Schedule
from jaxsched.results.recorded import record_case
from jaxsched.systems import registry

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = {
    "sched2": "04_simultaneous",
    "dl2": "crowded_fifo",
    "chic": "random_window_2",
    "das": "hash_actions_small",
    "mlfs": "05_overload_migration",
}
SYSTEMS = tuple(CASES)


def case_of(system: str, name: str | None = None) -> dict[str, Any]:
    """A golden case."""
    path = GOLDEN / system / f"{name or CASES[system]}.json"
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def recorded(system: str, name: str | None = None) -> Schedule:
    """The schedule of a golden case."""
    name = name or CASES[system]
    return record_case(registry.get(system), case_of(system, name), name)


def times_of(job: dict[str, Any] | None) -> tuple[float, float]:
    """Start and finish that a golden case expects of a job, -1 where there is none."""
    start, finish = ((job or {}).get(name) for name in ("start", "finish"))
    return tuple(-1.0 if time is None else float(time) for time in (start, finish))
