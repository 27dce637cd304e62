"""Whether this machine's device computes what a processor does: a hundred steps of every system.

    python -m benchmarks.device_check [--systems sched2,mlfs] [--steps 100] [--json FILE]

Plays a few environments by chance, the program being written for the default device and run there,
and again written for a processor and run on the first CPU. Whole numbers (states, actions, ends)
must be equal; of reals the largest relative difference is told. On a GPU also the states after the
timed loop, over lanes and as one kernel there, by ``vmap`` on the processor. Exit status 2 if they
differ.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.kernels import AS_KERNEL, BATCHES, BY_VMAP, ONLY
from benchmarks.scripts import chosen, exit_status
from jaxsched.errors import JaxschedError
from jaxsched.systems import functions

BATCH = 64


def main() -> None:
    """Print a line for each system; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", default=",".join(BATCHES))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for system in chosen(options.systems, BATCHES, "--systems"):
        for lowering in lowerings(system):
            rows.append(row_of(system, options.steps, lowering=lowering))
            print(", ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    if options.json is not None:
        from jaxsched.provenance import surroundings

        document = {"kind": "device check", **surroundings(), "rows": rows}
        options.json.write_text(json.dumps(document, indent=1, default=str) + "\n")
    wrong = [row["system"] for row in rows if row["differing"]]
    if wrong:
        raise JaxschedError(f"this device and a CPU differ in whole numbers: {', '.join(wrong)}")


def lowerings(system: str) -> list[str | None]:
    """Ways to write a system's steps that are compared here; None: step by step, by ``vmap``."""
    import jax

    from jaxsched.ops import target

    if jax.default_backend() == target.CPU:  # compiling lanes takes a processor minutes
        return [None]
    found: list[str | None] = [None]
    found += [target.LANES] if system in ONLY[BY_VMAP] else []
    return found + ([target.KERNEL] if system in ONLY[AS_KERNEL] else [])


def row_of(
    system: str, steps: int, batch: int = BATCH, lowering: str | None = None
) -> dict[str, Any]:
    """The comparison of one system.

    Args:
      system: its name.
      steps: of each environment.
      batch: environments.
      lowering: of ``lowerings``.
    """
    import jax
    import numpy as np

    from jaxsched.ops import target

    def timed(device: Any, kind: str) -> tuple[Any, float]:
        began = time.monotonic()
        with jax.default_device(device), target.tracing_for(kind):
            if lowering is None:
                found = jax.device_get(_played(system, steps, batch))
            else:
                here = target.VMAP if kind == target.CPU else lowering
                with target.lowered_by(here):
                    found = jax.device_get(_looped(system, steps, batch))
        return found, time.monotonic() - began

    device = jax.devices()[0]
    kind = "gpu" if device.platform == "cuda" else device.platform
    there, there_s = timed(device, kind)
    here, here_s = timed(jax.devices("cpu")[0], target.CPU)
    differing, apart = 0, 0.0
    for one, other in zip(jax.tree.leaves(there), jax.tree.leaves(here), strict=True):
        if np.issubdtype(one.dtype, np.floating):
            size = np.maximum(np.abs(other), 1.0)
            gap = np.where(one == other, 0.0, np.abs(one - other) / size)
            apart = max(apart, float(np.max(gap, initial=0.0)))
        else:
            differing += int(np.sum(one != other))
    return {
        "system": system,
        "lowering": lowering or target.VMAP,
        "device": device.device_kind,
        "environments": batch,
        "steps": steps,
        "differing": differing,
        "reals_apart": apart,
        "seconds": round(there_s, 1),
        "seconds_cpu": round(here_s, 1),
    }


def _played(system: str, steps: int, batch: int) -> Any:
    """States, actions, rewards and ends after steps by chance, leaves ``[steps, batch, ...]``."""
    import jax
    import jax.numpy as jnp

    from jaxsched.bench.loops import at_random, start_many
    from jaxsched.core.environment import step_and_reset

    env, params = _subject(system)
    act = at_random(env.action_spec(params)).act

    def step(current: Any, draw: Any) -> tuple[Any, Any]:
        mask = jax.vmap(lambda state: env.observe(state, params))(current.state)[1]
        action = jax.vmap(lambda word, mask: act(word, None, mask, ())[0])(draw, mask)
        keys = jax.random.split(jax.random.key(0), batch)

        def one(key: Any, current: Any, action: Any) -> Any:
            return step_and_reset(env, key, current, action, params)

        following, told = jax.vmap(one)(keys, current, action)
        return following, (jax.tree.leaves(following.state), action, told.reward, told.done)

    draws = jax.random.bits(jax.random.key(2), (steps, batch), jnp.uint32)
    current = start_many(env, params, batch)
    return jax.jit(lambda current: jax.lax.scan(step, current, draws)[1])(current)


def _looped(system: str, steps: int, batch: int) -> Any:
    """What the timed loop carries after steps by chance, and what it adds up."""
    import jax

    from jaxsched.bench.loops import at_random, environment_loop, start_many

    env, params = _subject(system)
    chooser = at_random(env.action_spec(params))
    loop = environment_loop(env, params, chooser, batch=batch, num_steps=steps)
    return jax.jit(loop)(jax.random.key(2), start_many(env, params, batch))


def _subject(system: str) -> tuple[Any, Any]:
    """Environment and parameters of a system's short training tables."""
    from jaxsched import traces
    from jaxsched.systems import registry

    described = registry.get(system)
    env = functions.environment(described)
    tables = traces.get(functions.traces(described).train, num_jobs=20)
    return env, env.params(described.jobs.adapted(tables))


if __name__ == "__main__":
    sys.exit(exit_status(main))
