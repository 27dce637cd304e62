"""jumanji's ``JobShop-v0``: uniform legal actions per machine, automatic reset."""

from typing import Any

import jax
import jumanji
from jumanji.wrappers import AutoResetWrapper

from jaxsched.bench import timing
from jaxsched.bench.peer_workers.batches import time_batch
from jaxsched.bench.peer_workers.protocol import serve

NAME = "JobShop-v0"


def main() -> None:
    """Answer requests."""
    env = AutoResetWrapper(jumanji.make(NAME))

    def step(draw: Any, carry: Any) -> Any:
        state, timestep = carry
        action = jax.vmap(timing.pick_uniform)(draw, timestep.observation.action_mask)
        used = timing.consume(timestep.observation)
        state, timestep = env.step(state, action)
        return (state, timestep), used + timestep.reward

    words = (env.action_spec.shape[0],)
    packages = ("jumanji", "jax", "jaxlib")
    serve(f"jumanji {NAME}", packages, lambda asked: time_batch(env.reset, step, words, asked))


if __name__ == "__main__":
    main()
