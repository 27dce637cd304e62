"""The stages of a recipe, as the training driver takes them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.core.training import check_needs
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, rescale_arrivals
from jaxsched.jobs.pieces import pieces
from jaxsched.systems.learners import Parts, known, with_updates
from jaxsched.systems.parts import TrainingSetup, always
from jaxsched.systems.recipe import Recipe, Stage
from jaxsched.types import Array, ArraySpec
from jaxsched.wrappers.fixed_length import FixedLength
from jaxsched.wrappers.teacher import TaughtEnvironment


def stages_of(system: Any, recipe: Recipe, tables: Sequence[JobTable]) -> list[TrainingSetup]:
    """Environment, learner and loop of each stage.

    Args:
      system: the ``System``.
      recipe: the recipe.
      tables: what is learned on.

    Raises:
      JaxschedError: an unknown network, teacher or learner, parameters that are refused, a loop
        whose sizes are not what the learner needs, or all stages left out.
    """
    chosen = [stage for stage in recipe.stages if not stage.skip]
    if not chosen:
        names = ", ".join(stage.name for stage in recipe.stages)
        raise JaxschedError(f"all stages are left out; accepted: one of {names} that is not")
    env, kind = recipe.env, recipe.network
    policy = system.network_policy(env, kind, recipe.policy, recipe.play)
    common: dict[str, Any] = {
        "play_env": env,
        "policy": policy,
        "play": recipe.play,
        "network": kind,
        "checkpoint_every": recipe.checkpoint_every,
        "variants": system.departures.of(recipe),
    }
    return [TrainingSetup(**_parts(system, recipe, stage, tables), **common) for stage in chosen]


def _parts(system: Any, recipe: Recipe, stage: Stage, tables: Sequence[JobTable]) -> dict[str, Any]:
    """What a stage has of its own."""
    config = with_updates(stage.learner, stage.loop.num_updates)
    network = system.network(recipe.env, recipe.network)
    if stage.network_options:
        network = network.clone(**stage.network_options)
    explore = None if stage.explore is None else stage.explore(recipe.env)
    value = partial(system.value_network, recipe.env, stage.value_network or recipe.network)
    act = _as_it_is if isinstance(recipe.env.action_spec(None), ArraySpec) else None
    learner = known(config).make(Parts(config, network, value, explore, act))
    env: Environment = recipe.env
    if stage.teacher is not None:
        env = TaughtEnvironment(env, system.teacher(stage.teacher, env))
    if learner.needs.whole_episodes:
        env = FixedLength(env, stage.loop.rollout_length, whole=stage.cut)
    params_at = _params_at(recipe.env, stage, tables)
    check_needs(env, learner, stage.loop, params_at(0.0))
    return {
        "name": stage.name,
        "env": env,
        "learner": learner,
        "loop": stage.loop,
        "params_at": params_at,
        "gradient_steps": getattr(config, "gradient_steps", 0),
        "evaluate_every": stage.evaluate_every or stage.loop.num_updates,
    }


def _as_it_is(scores: Array, mask: Array) -> Array:
    """Real numbers as the action."""
    del mask
    return scores


def _params_at(
    env: Environment, stage: Stage, tables: Sequence[JobTable]
) -> Callable[[float], Any]:
    """The environment's parameters by training progress.

    Tables of all scales are in one stack; progress only changes which of them the next resets draw,
    so that episodes under way keep theirs.
    """
    episodes = stage.episodes
    if episodes.jobs:
        tables = pieces(tables, episodes.jobs, every=episodes.jobs)
    scaled = [
        table if scale == 1.0 else rescale_arrivals(table, scale)
        for scale in episodes.scales
        for table in tables
    ]
    params = cast(Any, env).params(scaled, **stage.params)
    last = len(episodes.scales) - 1
    if not last and not episodes.shared:
        return always(params)

    def params_at(progress: float) -> Any:
        at = min(int(progress / episodes.until * last), last) if last else 0
        first, count = at * len(tables), len(tables)
        if episodes.shared:
            first, count = first + round(progress * stage.loop.num_updates) % count, 1
        return params._replace(draw=jnp.array([first, count], jnp.int32))

    return params_at
