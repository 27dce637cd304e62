"""How long one decision of a learned policy takes."""

import time
from typing import Any

import jax
import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.core.policies import Policy, View
from jaxsched.types import PyTree

CALLS = 300
WARM_UPS = 30


def inference_ms(env: Environment, policy: Policy, weights: PyTree, params: Any) -> float:
    """Median milliseconds of one decision at batch size 1, on the default device.

    Args:
      env: the environment.
      policy: who decides.
      weights: its network parameters.
      params: environment parameters.
    """
    state, timestep = env.reset(jax.random.key(0), params)
    memory = policy.init(params)

    @jax.jit
    def decide(weights: PyTree, observation: PyTree, mask: PyTree, key: Any) -> Any:
        return policy.act(weights, memory, View(observation, mask, state, params), key)[0]

    laps = []
    for key in jax.random.split(jax.random.key(1), WARM_UPS + CALLS):
        began = time.perf_counter()
        jax.block_until_ready(decide(weights, timestep.observation, timestep.action_mask, key))
        laps.append(time.perf_counter() - began)
    return 1e3 * float(np.median(laps[WARM_UPS:]))
