"""Speed of full training: rollouts, replay and gradient steps of a recipe, as ``train`` runs it."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import jaxsched
from jaxsched import traces
from jaxsched.bench import timing
from jaxsched.core import training
from jaxsched.errors import JaxschedError
from jaxsched.runs.overrides import override
from jaxsched.systems import registry


def training_speed(
    name: str,
    *,
    preset: str = "paper",
    overrides: tuple[str, ...] = (),
    repeats: int = 10,
    updates_per_repeat: int = 20,
    warm_up_updates: int = 20,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Time ``jaxsched.core.training.chunk`` of a recipe with the paper's network.

    Args:
      name: the system.
      preset: its recipe.
      overrides: changes of the recipe, ``path=value`` each. Have the learner begin within the
        warm-up (``learner.learning_starts`` of a DQN), or no gradient steps are timed.
      repeats: timed chunks.
      updates_per_repeat: updates of each chunk.
      warm_up_updates: updates before; two chunks at the least.
      progress: called with a line about what comes next.

    Raises:
      JaxschedError: unknown system or preset, a bad override or size.
    """
    if min(repeats, updates_per_repeat) < 1:
        raise JaxschedError("bench: repeats and updates must be at least 1")
    system = registry.get(name)
    recipe = override(system.preset(preset), overrides)
    names = system.recipe_traces(recipe)
    tables = system.adapt(traces.get(names.train, num_traces=names.num_train))
    setup = system.stages(recipe, tables)[-1]
    env, learner, loop, params = setup.env, setup.learner, setup.loop, setup.params_at(1.0)
    carry = training.init(env, learner, loop, jax.random.key(0), params)

    def run(carry: Any) -> Any:
        return compiled(carry=carry, params=params)[0]

    chunk = training.chunk
    warm_ups = max(timing.WARM_UPS, -(-warm_up_updates // updates_per_repeat))
    chunks = f"{warm_ups} + {repeats} times {updates_per_repeat} updates"
    progress(f"{name} training, preset {preset!r}: compiling, then {chunks}")
    with timing.fresh_compilations():
        stopwatch = timing.Stopwatch()
        compiled = chunk.lower(
            env, learner, loop, carry=carry, params=params, num_updates=updates_per_repeat
        ).compile()
        compile_s = stopwatch.lap().wall_s
    for _ in range(warm_ups):
        stopwatch = timing.Stopwatch()
        carry = jax.block_until_ready(run(carry))
    expected = repeats * stopwatch.lap().wall_s
    progress(f"compiled in {compile_s:.0f} s; the repeats are expected to take {expected:.0f} s")
    laps = []
    for _ in range(repeats):
        stopwatch = timing.Stopwatch()
        carry = jax.block_until_ready(run(carry))
        laps.append(stopwatch.lap())
    wall = np.array([lap.wall_s for lap in laps]) / updates_per_repeat
    result = {
        "kind": "training",
        "system": name,
        "preset": preset,
        "overrides": list(overrides),
        **timing.surroundings(),
        "num_envs": loop.num_envs,
        "rollout_length": loop.rollout_length,
        "repeats": repeats,
        "updates_per_repeat": updates_per_repeat,
        "warm_up_updates": warm_ups * updates_per_repeat,
        "compile_s": compile_s,
        "updates_per_s": _spread(1 / wall),
        "env_steps_per_s": _spread(loop.steps_per_update / wall),
        "gradient_steps_per_s": _spread(setup.gradient_steps / wall),
        "cpu_ms_per_update": float(
            np.median([lap.cpu_s for lap in laps]) / updates_per_repeat * 1e3
        ),
    }
    result["versions"]["jaxsched"] = jaxsched.__version__
    return result


def _spread(rate: np.ndarray) -> dict[str, float]:
    return {
        "median": float(np.median(rate)),
        "min": float(rate.min()),
        "max": float(rate.max()),
    }
