"""Times environments written in JAX: many side by side in one compiled loop, as ours are."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxsched.bench import timing

Start = Callable[[Any], Any]
Step = Callable[[Any, Any], tuple[Any, Any]]


def time_batch(
    start: Start, step: Step, words: tuple[int, ...], request: Mapping[str, Any]
) -> dict[str, Any]:
    """Row of a request.

    Args:
      start: the carry of one environment for a key; its first part is the state.
      step: ``(random words uint32 [*words], carry) -> (carry, float that depends on all seen)`` of
        one environment.
      words: shape of the random words of a step.
      request: what is asked for.
    """
    batch, num_steps = request["batch"], request["num_steps"]
    devices = timing.sharing(batch, min(request["devices"], jax.local_device_count()))

    def run(key: Any, carry: Any) -> Any:
        draws = jax.random.bits(key, (num_steps, batch // devices, *words), jnp.uint32)

        def one(carry: Any, draw: Any) -> Any:
            carry, used = jax.vmap(step)(draw, carry)
            return carry, jnp.sum(used)

        return jax.lax.scan(one, carry, draws)

    try:
        carry = jax.jit(jax.vmap(start))(jax.random.split(jax.random.key(0), batch))
        carry = timing.laid_out(carry, devices)
        state_bytes = timing.bytes_of(carry[0]) / batch
        timed = timing.measure(
            timing.over_devices(run, devices),
            carry,
            request["repeats"],
            least_s=request["least_s"],
        )
    except jax.errors.JaxRuntimeError as error:  # out of memory
        return {"error": str(error).splitlines()[0]}
    row = timing.row(timed, batch=batch, num_steps=num_steps)
    return {**row, "devices": devices, "state_bytes_per_env": state_bytes}
