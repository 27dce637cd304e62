"""What all workers do: say what they are, and answer requests until standard input ends.

This module imports only Python's own, so that any interpreter can run it.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

Answer = Callable[[Mapping[str, Any]], dict[str, Any]]


def serve(name: str, packages: tuple[str, ...], answer: Answer, *, batched: bool = True) -> None:
    """Write the name and the packages' versions, then answer.

    Args:
      name: what is measured.
      packages: whose versions count.
      answer: a row, or ``{"error": ...}``, of a request.
      batched: whether it steps many environments side by side; else it is asked once, for one.
    """
    versions = {package: metadata.version(package) for package in packages}
    print(json.dumps({"name": name, "versions": versions, "batched": batched}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


def time_alone(steps: Callable[[int], None], request: Mapping[str, Any]) -> dict[str, Any]:
    """Row of a simulator of one episode at a time, which ``steps(n)`` takes on by n steps."""
    num_steps = request["num_steps"]
    steps(num_steps)
    rates, cpu_s = [], []
    for _ in range(request["repeats"]):
        done, wall, cpu = 0, time.perf_counter(), time.process_time()
        while done == 0 or time.perf_counter() - wall < request["least_s"]:
            steps(num_steps)
            done += num_steps
        rates.append(done / (time.perf_counter() - wall))
        cpu_s.append((time.process_time() - cpu) / done)
    rates.sort()
    cpu_s.sort()
    return {
        "batch": 1,
        "steps_per_repeat": done,
        "repeats": len(rates),
        "steps_per_s": {
            "median": rates[len(rates) // 2],
            "min": rates[0],
            "max": rates[-1],
        },
        "cpu_ns_per_step": 1e9 * cpu_s[len(cpu_s) // 2],
        "compile_s": 0.0,
    }
