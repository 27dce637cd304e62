"""Speed of full training: rollouts, replay and gradient steps of a recipe, as ``train`` runs it."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh

import jaxsched
from jaxsched.bench import timing
from jaxsched.core import sharding, training
from jaxsched.core.environment import Environment
from jaxsched.core.learner import Learner
from jaxsched.core.training import LoopConfig
from jaxsched.errors import JaxschedError
from jaxsched.experiment.plans import plan
from jaxsched.ops import target
from jaxsched.provenance import surroundings
from jaxsched.systems import registry
from jaxsched.systems.parts import TrainingSetup


def training_speed(
    name: str,
    *,
    preset: str = "paper",
    overrides: tuple[str, ...] = (),
    mesh: Mesh | None = None,
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
      mesh: devices that share the work; None: one.
      repeats: timed chunks.
      updates_per_repeat: updates of each chunk.
      warm_up_updates: updates before; two chunks at the least.
      progress: called with a line about what comes next.

    Raises:
      JaxschedError: unknown system or preset, a bad override or size, or environments that the
        devices cannot share equally.
    """
    if min(repeats, updates_per_repeat) < 1:
        raise JaxschedError("bench: repeats and updates must be at least 1")
    setup = setup_of(name, preset, overrides)
    loop = setup.loop
    sharding.check_divisible(mesh, num_envs=loop.num_envs, num_seeds=1)
    warm_ups = max(timing.WARM_UPS, -(-warm_up_updates // updates_per_repeat))
    chunks = f"{warm_ups} + {repeats} times {updates_per_repeat} updates"
    progress(f"{name} training, preset {preset!r}: compiling, then {chunks}")
    timed = time_chunks(
        setup.env,
        setup.learner,
        loop,
        setup.params_at(1.0),
        updates=updates_per_repeat,
        warm_ups=warm_ups,
        repeats=repeats,
        mesh=mesh,
        progress=progress,
    )
    wall = timed.wall_s / updates_per_repeat
    result = {
        "kind": "training",
        "system": name,
        "preset": preset,
        "overrides": list(overrides),
        **surroundings(),
        "devices": 1 if mesh is None else mesh.size,
        "num_envs": loop.num_envs,
        "rollout_length": loop.rollout_length,
        "repeats": repeats,
        "updates_per_repeat": updates_per_repeat,
        "warm_up_updates": warm_ups * updates_per_repeat,
        "compile_s": timed.compile_s,
        "updates_per_s": spread(1 / wall),
        "env_steps_per_s": spread(setup.steps_per_update / wall),
        "gradient_steps_per_s": spread(setup.gradient_steps / wall),
        "cpu_ms_per_update": float(np.median(timed.cpu_s) / updates_per_repeat * 1e3),
    }
    result["versions"]["jaxsched"] = jaxsched.__version__
    return result


def setup_of(name: str, preset: str, overrides: tuple[str, ...]) -> TrainingSetup:
    """The last stage of a recipe, on its own training tables.

    Raises:
      JaxschedError: unknown system or preset, or a bad override.
    """
    return plan(registry.get(name), preset=preset, overrides=overrides).learned


def time_chunks(
    env: Environment,
    learner: Learner,
    loop: LoopConfig,
    params: Any,
    *,
    updates: int,
    warm_ups: int,
    repeats: int,
    mesh: Mesh | None = None,
    progress: Callable[[str], None] = lambda line: None,
    on_compiled: Callable[[Any], None] = lambda program: None,
) -> timing.Timing:
    """Time ``jaxsched.core.training.chunk`` of so many updates, on the devices of a mesh.

    Every call is awaited: devices that are faked on a CPU get stuck in many that are not.
    """
    laps = []
    with sharding.on(mesh):
        params = sharding.everywhere(params, mesh)
        carry = training.init(env, learner, loop, jax.random.key(0), params)
        with timing.fresh_compilations():
            stopwatch = timing.Stopwatch()
            lowered = training.chunk.lower(
                env, learner, loop, carry=carry, params=params, num_updates=updates
            )
            compiled = lowered.compile(target.compiler_options())
            compile_s = stopwatch.lap().wall_s
        on_compiled(compiled)
        for number in range(warm_ups + repeats):
            stopwatch = timing.Stopwatch()
            carry = jax.block_until_ready(compiled(carry=carry, params=params)[0])
            laps.append(stopwatch.lap())
            if number == warm_ups - 1:
                expected = repeats * laps[-1].wall_s
                progress(
                    f"compiled in {compile_s:.0f} s; the repeats are expected to take "
                    f"{expected:.0f} s"
                )
    return timing.Timing(laps[warm_ups:], compile_s)


def spread(values: npt.ArrayLike) -> dict[str, float]:
    """Median, smallest and largest."""
    each = np.asarray(values, np.float64)
    return {
        "median": float(np.median(each)),
        "min": float(each.min()),
        "max": float(each.max()),
    }
