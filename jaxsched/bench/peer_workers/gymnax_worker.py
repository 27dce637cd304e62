"""gymnax' ``CartPole-v1``, the smallest environment that people compare with: uniform actions.

It has no scheduling problem; its step is a dozen operations on four numbers.
"""

from typing import Any

import gymnax
import jax
import jax.numpy as jnp

from jaxsched.bench import timing
from jaxsched.bench.peer_workers.batches import time_batch
from jaxsched.bench.peer_workers.protocol import serve

NAME = "CartPole-v1"


def main() -> None:
    """Answer requests."""
    env, params = gymnax.make(NAME)
    num_actions = env.num_actions

    def start(key: Any) -> Any:
        observation, state = env.reset(key, params)
        return jax.tree.map(jnp.asarray, (state, observation))

    def step(draw: Any, carry: Any) -> Any:
        state, observation = carry
        action = timing.pick_uniform(draw, jnp.ones(num_actions, bool)).astype(jnp.int32)
        used = timing.consume(observation)
        # Automatic reset included.
        observation, state, reward, *_ = env.step(jax.random.key(draw), state, action, params)
        return (state, observation), used + reward

    packages = ("gymnax", "jax", "jaxlib")
    serve(f"gymnax {NAME}", packages, lambda asked: time_batch(start, step, (), asked))


if __name__ == "__main__":
    main()
