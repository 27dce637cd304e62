"""Where a device spends its time: kernels of the timed loops and of an update, from a profile.

    python -m benchmarks.profile_device [--systems sched2,das] [--programs environment,training]
        [--top 15] [--json FILE]

Runs what ``benchmarks.kernels --target h100`` compiles, on this machine's GPU, under JAX' profiler.
``kernels`` counts those of a step (of an update, for ``training``), ``busy_us`` their time,
``wall_us`` the clock's without the profiler; what lies between is launches and trips to the host.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks import kernels
from benchmarks.scripts import chosen, exit_status
from jaxsched.errors import JaxschedError

STEPS = 32
PROGRAMS = (kernels.ENVIRONMENT, kernels.POLICY, kernels.TRAINING)


def main() -> None:
    """Print a line for each program and its slowest kernels; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", default=",".join(kernels.BATCHES))
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument(
        "--batch", type=int, help="environments; as in benchmarks.kernels if absent"
    )
    parser.add_argument("--steps", type=int, default=STEPS, help="of each environment")
    parser.add_argument("--top", type=int, default=15, help="slowest kernels to list")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    import jax

    if jax.default_backend() != "gpu":
        raise JaxschedError(f"profile_device: needs a GPU; JAX has {jax.default_backend()} here")
    rows = []
    for system in chosen(options.systems, kernels.BATCHES, "--systems"):
        for program in chosen(options.programs, PROGRAMS, "--programs"):
            row = row_of(system, program, options.batch, options.steps)
            if row is None:
                continue
            rows.append(row)
            show(row, options.top)
    if options.json is not None:
        from jaxsched.provenance import surroundings

        document = {"kind": "profile", **surroundings(), "rows": rows}
        options.json.write_text(json.dumps(document, indent=1, default=str) + "\n")


def show(row: dict[str, Any], top: int) -> None:
    """Print a row and its slowest kernels."""
    told = {name: value for name, value in row.items() if name != "slowest"}
    print(", ".join(f"{name} {value}" for name, value in told.items()), flush=True)
    for name, each in list(row["slowest"].items())[:top]:
        print(f"  {each['us']:10.1f} us in {each['times']:8.1f}  {name}", flush=True)


def row_of(system: str, program: str, batch: int | None, steps: int) -> dict[str, Any] | None:
    """The profile of a program; None: there is no such program.

    Args:
      system: its name.
      program: one of ``PROGRAMS``.
      batch: environments, for the loops.
      steps: of each environment in a run, for the loops.
    """
    import jax

    from jaxsched.core import training
    from jaxsched.ops import target

    if program == kernels.TRAINING:
        begun = kernels.update_of(system)
        if begun is None:
            return None
        jitted, given, named, params = begun
        env, learner, loop = given[:3]
        carry = training.init(env, learner, loop, jax.random.key(0), params)
        batch, per, taken = loop.num_envs, 1, loop.num_envs * loop.rollout_length
        lowered = jitted.lower(env, learner, loop, carry=carry, params=params, **named)
    else:
        batch = batch or kernels.H100_BATCHES[system]
        per, taken = steps, batch * steps
        options = kernels.H100_OPTIONS.get(system, {})
        policy = program == kernels.POLICY
        jitted, begin, _ = kernels.loop_of(system, batch, steps, options, policy)
        carry = begin()
        lowered = jitted.lower(jax.random.key(0), carry)

    began = time.monotonic()
    compiled = lowered.compile(target.compiler_options())
    compile_s = time.monotonic() - began

    def once(carry: Any) -> Any:
        if program == kernels.TRAINING:
            return jax.block_until_ready(compiled(carry=carry, params=params)[0])
        return jax.block_until_ready(compiled(jax.random.key(0), carry)[0])

    walls = []
    for _ in range(5):
        began = time.monotonic()
        carry = once(carry)
        walls.append(time.monotonic() - began)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            carry = once(carry)
        found = times_of(Path(folder))
    wall = sorted(walls[2:])[1]
    slowest = {
        name: {"us": round(ns / per / 1e3, 2), "times": round(times / per, 2)}
        for name, (ns, times) in sorted(found.items(), key=lambda item: -item[1][0])
    }
    return {
        "system": system,
        "program": program,
        "device": jax.devices()[0].device_kind,
        "batch": batch,
        "kernels": round(sum(times for _, times in found.values()) / per, 1),
        "busy_us": round(sum(ns for ns, _ in found.values()) / per / 1e3, 1),
        "wall_us": round(wall / per * 1e6, 1),
        "million_steps_per_s": round(taken / wall / 1e6, 2),
        "compile_s": round(compile_s, 1),
        "slowest": slowest,
    }


def times_of(folder: Path) -> dict[str, tuple[float, int]]:
    """Nanoseconds and how often, of every kernel of a profile by its name."""
    from jax.profiler import ProfileData

    found: dict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for path in folder.rglob("*.xplane.pb"):
        for plane in ProfileData.from_file(str(path)).planes:
            if not plane.name.startswith("/device:GPU"):
                continue
            for line in plane.lines:
                if not line.name.startswith("Stream"):
                    continue
                for event in line.events:
                    ns, times = found[event.name]
                    found[event.name] = ns + event.duration_ns, times + 1
    return dict(found)


if __name__ == "__main__":
    sys.exit(exit_status(main))
