"""Whole episodes as a front end would record them, and readers as programs of their own."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np

from jaxsched.core.policies import View
from jaxsched.export.programs import named_parts

EXAMPLES = Path(__file__).parents[2] / "examples"

# Runs a script as its own program and fails if it loaded what it must do without.
ALONE = """
import runpy, sys
script, *sys.argv[1:] = sys.argv[1:]
try:
    runpy.run_path(script, run_name="__main__")
finally:
    loaded = {name.partition(".")[0] for name in sys.modules}
    assert not loaded & {FORBIDDEN}, loaded
"""


def read_alone(
    script: str, *arguments: object, without: tuple[str, ...] = ("jax", "jaxlib")
) -> subprocess.CompletedProcess[str]:
    """Run an example on these arguments, where neither JAX nor the package may be loaded."""
    words = [str(EXAMPLES / script), *map(str, arguments)]
    forbidden = {*without, "flax", "jaxsched", "safetensors"}
    command = [sys.executable, "-I", "-c", ALONE.replace("{FORBIDDEN}", str(forbidden)), *words]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=300)


@partial(jax.jit, static_argnames=("env", "policy"))
def _play(env, policy, weights, params, key):
    def step(carry, key):
        state, memory, over = carry
        view = View(*env.observe(state, params), None, None)
        action, memory = policy.act(weights, memory, view, key)
        state, timestep = env.step(key, state, action, params)
        seen = view.observation, view.mask, action, timestep.reward, over
        return (state, memory, over | timestep.done), seen

    state, timestep = env.reset(key, params, jax.numpy.int32(0))
    carry = state, policy.init(params), timestep.done
    (_, _, over), found = jax.lax.scan(step, carry, jax.random.split(key, env.max_steps(params)))
    return over, found


def record(file, env, policy, weights, params):
    """Write what was seen and done in episode 0, and the rewards; returns how many decisions."""
    finished, found = _play(env, policy, weights, params, jax.random.key(5))
    observation, mask, action, reward, over = jax.tree.map(np.asarray, found)
    assert finished
    parts = named_parts(observation) if not isinstance(observation, np.ndarray) else {
        "observation": observation, "mask": mask}  # fmt: skip
    done = action if isinstance(action, dict) else {"action": action}
    arrays = {**parts, **done, "reward": reward}
    np.savez(file, **{name: x[~over] for name, x in arrays.items()})
    return int((~over).sum())
