"""Speed on one device, two, four and so on up to all of a mesh."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

import jaxsched
from jaxsched.algorithms.softmax import any_legal
from jaxsched.bench import timing
from jaxsched.bench.training import setup_of, spread, time_chunks
from jaxsched.core import sharding
from jaxsched.core.learner import Learner
from jaxsched.errors import JaxschedError
from jaxsched.provenance import surroundings
from jaxsched.types import Array, DiscreteSpec, PRNGKey, PyTree, Specs

STEPS = 32  # of each environment between two sums of what was seen


def scaling_speed(
    name: str,
    *,
    preset: str = "plain-ppo",
    overrides: tuple[str, ...] = (),
    mesh: Mesh | None = None,
    batch: int = 4096,
    repeats: int = 10,
    updates_per_repeat: int = 20,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Time environments alone and the training of a recipe on more and more devices.

    Args:
      name: the system.
      preset: its recipe.
      overrides: changes of the recipe, ``path=value`` each.
      mesh: all devices; powers of two of them are measured, then all. None: one device.
      batch: environments of each device, where they are measured alone.
      repeats: timed chunks of each row.
      updates_per_repeat: updates of each chunk.
      progress: called with a line about what comes next.

    Raises:
      JaxschedError: unknown system or preset, a bad override, or environments that the devices
        cannot share equally.
    """
    setup = setup_of(name, preset, overrides)
    spec = setup.env.action_spec(setup.params_at(1.0))
    if not isinstance(spec, DiscreteSpec):
        raise JaxschedError(f"bench scaling: {name} with {preset!r} has no choice of one action")
    sharding.check_divisible(mesh, num_envs=setup.loop.num_envs, num_seeds=1)
    rows: list[dict[str, Any]] = []
    for num in counts(mesh):
        part = sharding.make_mesh(num)
        alone = replace(
            setup.loop,
            num_envs=num * batch,
            rollout_length=STEPS,
            time_limit=None,
            num_random_streams=None,
        )
        for figure, learner, loop, steps in (
            ("environment", by_chance(), alone, alone.steps_per_update),
            ("training", setup.learner, setup.loop, setup.steps_per_update),
        ):
            progress(f"{name} {figure} on {num} of {counts(mesh)[-1]} devices")
            timed = time_chunks(
                setup.env,
                learner,
                loop,
                setup.params_at(1.0),
                updates=updates_per_repeat,
                warm_ups=timing.WARM_UPS,
                repeats=repeats,
                mesh=part,
            )
            rows.append(_row(figure, num, loop.num_envs, steps * updates_per_repeat, timed))
    for row in rows:
        first = next(other for other in rows if other["figure"] == row["figure"])
        share = row["env_steps_per_s"]["median"] / first["env_steps_per_s"]["median"]
        row["efficiency"] = share * first["devices"] / row["devices"]
    result = {
        "kind": "scaling",
        "system": name,
        "preset": preset,
        "overrides": list(overrides),
        **surroundings(),
        "repeats": repeats,
        "updates_per_repeat": updates_per_repeat,
        "rows": rows,
    }
    result["versions"]["jaxsched"] = jaxsched.__version__
    return result


def counts(mesh: Mesh | None) -> list[int]:
    """How many devices are measured: those that every process has as many of."""
    most, least = 1 if mesh is None else mesh.size, jax.process_count()
    found = [least]
    while found[-1] * 2 < most:
        found.append(found[-1] * 2)
    return found if found[-1] == most else [*found, most]


def by_chance() -> Learner:
    """Takes any legal action and learns nothing."""

    def init(key: PRNGKey, specs: Specs, params: PyTree | None = None) -> tuple[()]:
        return ()

    def act(
        state: Any, observation: PyTree, mask: Array, key: PRNGKey, greedy: bool
    ) -> tuple[Array, tuple[()]]:
        return any_legal(key, mask), ()

    def update(state: Any, rollout: Any, key: PRNGKey) -> tuple[Any, dict[str, Array]]:
        seen = [jnp.sum(x, dtype=jnp.float32) for x in jax.tree.leaves(rollout.observation)]
        return state, {"seen": sum(seen, jnp.float32(0))}

    return Learner(init, act, update, lambda state: state)


def _row(figure: str, num: int, num_envs: int, steps: int, timed: timing.Timing) -> dict[str, Any]:
    return {
        "figure": figure,
        "devices": num,
        "processes": jax.process_count(),
        "num_envs": num_envs,
        "env_steps_per_s": spread(steps / timed.wall_s),
        "compile_s": timed.compile_s,
    }
