"""The stages of a recipe, as the training driver takes them."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.jobs import JobTable
from jaxsched.systems.learners import Parts, known, with_updates
from jaxsched.systems.parts import TrainingSetup, always
from jaxsched.systems.recipe import Recipe, Stage
from jaxsched.wrappers.fixed_length import FixedLength
from jaxsched.wrappers.teacher import TaughtEnvironment


def stages_of(system: Any, recipe: Recipe, tables: Sequence[JobTable]) -> list[TrainingSetup]:
    """Environment, learner and loop of each stage.

    Args:
      system: the ``System``.
      recipe: the recipe.
      tables: what is learned on.

    Raises:
      JaxschedError: an unknown network, teacher or learner, or parameters that are refused.
    """
    env, kind = recipe.env, recipe.network
    policy = system.network_policy(env, kind, recipe.policy, recipe.play)
    common: dict[str, Any] = {
        "play_env": env,
        "policy": policy,
        "play": recipe.play,
        "network": kind,
        "variants": system.departures.of(recipe),
    }
    return [TrainingSetup(**_parts(system, recipe, one, tables), **common) for one in recipe.stages]


def _parts(system: Any, recipe: Recipe, stage: Stage, tables: Sequence[JobTable]) -> dict[str, Any]:
    """What a stage has of its own."""
    config = with_updates(stage.learner, stage.loop.num_updates)
    network = system.network(recipe.env, recipe.network)
    if stage.network_options:
        network = network.clone(**stage.network_options)
    learner = known(config).make(Parts(config, network))
    env: Environment = recipe.env
    if stage.teacher is not None:
        env = TaughtEnvironment(
            env, system.heuristic(stage.teacher, env, system.num_jobs, {}).policy
        )
    if learner.needs.whole_episodes:
        env = FixedLength(env, stage.loop.rollout_length)
    return {
        "name": stage.name,
        "env": env,
        "learner": learner,
        "loop": stage.loop,
        "params_at": _params_at(recipe.env, stage, tables),
        "gradient_steps": getattr(config, "gradient_steps", 0),
        "evaluate_every": stage.evaluate_every or stage.loop.num_updates,
        "checkpoint_every": stage.checkpoint_every,
    }


def _params_at(
    env: Environment, stage: Stage, tables: Sequence[JobTable]
) -> Callable[[float], Any]:
    """The environment's parameters by training progress."""
    params = cast(Any, env).params(list(tables), **stage.params)
    if not stage.episodes.shared:
        return always(params)

    def params_at(progress: float) -> Any:
        update = round(progress * stage.loop.num_updates)
        return params._replace(draw=jnp.array([update % len(tables), 1], jnp.int32))

    return params_at
