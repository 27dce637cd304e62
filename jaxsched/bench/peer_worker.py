"""Times jumanji's ``JobShop-v0`` in a process of its own.

Runs as ``python -m jaxsched.bench.peer_worker`` under an interpreter that has jax and jumanji (it
needs nothing else of jaxsched's dependencies). Reads one request per line, ``{"batch": B,
"num_steps": T, "repeats": R, "least_s": S}``, and answers each with one line of JSON.
"""

import json
import sys
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import jumanji
from jumanji.wrappers import AutoResetWrapper

from jaxsched.bench import timing

NAME = "JobShop-v0"


def loop(env: Any, batch: int, num_steps: int) -> timing.Loop:
    """Uniform legal actions per machine, automatic reset, each observation used."""
    num_machines = env.action_spec.shape[0]

    def step(carry: Any, draw: Any) -> Any:
        state, timestep = carry
        action = jax.vmap(jax.vmap(timing.pick_uniform))(draw, timestep.observation.action_mask)
        used = jnp.sum(jax.vmap(timing.consume)(timestep.observation))
        state, timestep = jax.vmap(env.step)(state, action)
        return (state, timestep), used + jnp.sum(timestep.reward)

    def run(key: Any, carry: Any) -> Any:
        draws = jax.random.bits(key, (num_steps, batch, num_machines), jnp.uint32)
        return jax.lax.scan(step, carry, draws)

    return run


def answer(env: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Time one batch size."""
    batch, num_steps = request["batch"], request["num_steps"]
    carry = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), batch))
    carry = jax.tree.map(jnp.copy, carry)
    state_bytes = timing.bytes_of(carry[0]) / batch
    timed = timing.measure(
        loop(env, batch, num_steps), carry, request["repeats"], least_s=request["least_s"]
    )
    return {
        **timing.row(timed, batch=batch, num_steps=num_steps),
        "state_bytes_per_env": state_bytes,
    }


def main() -> None:
    """Answer requests until standard input ends."""
    env = AutoResetWrapper(jumanji.make(NAME))
    versions = {"jumanji": metadata.version("jumanji")}
    versions |= {name: metadata.version(name) for name in ("jax", "jaxlib")}
    print(json.dumps({"name": f"jumanji {NAME}", "versions": versions}), flush=True)
    for line in sys.stdin:
        try:
            reply = answer(env, json.loads(line))
        except jax.errors.JaxRuntimeError as error:  # out of memory
            reply = {"error": str(error).splitlines()[0]}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
