"""The stages that a recipe of DAS is trained in, and what they are trained on."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax.numpy as jnp

from jaxsched.algorithms.agents import Agents, reading
from jaxsched.algorithms.branching import branching_of_agents
from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.critics import Critic, action_value, state_value
from jaxsched.algorithms.evolution import evolution
from jaxsched.algorithms.ppo import PPOConfig, mappo
from jaxsched.algorithms.regression import regression
from jaxsched.core.learner import Learner
from jaxsched.envs.das import records as rec
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learning.critic import ActionValue, StateValue, critic_features
from jaxsched.envs.das.learning.kinds import (
    agents_of,
    kind_of,
    learning_env,
    policy_named,
    teacher_of,
)
from jaxsched.envs.das.learning.linear import decide_linear, init_linear
from jaxsched.envs.das.learning.players import das_policy
from jaxsched.envs.das.learning.recipe import (
    RANKING_SCALE,
    Imitation,
    Recipe,
    Search,
    imitation_losses,
    variants,
)
from jaxsched.envs.das.learning.scored import beginning, decide_scored
from jaxsched.envs.das.simulator.tables import Params
from jaxsched.jobs import JobTable, rescale_arrivals
from jaxsched.jobs.pieces import piece_starts, pieces
from jaxsched.systems.base import TrainingSetup
from jaxsched.systems.search import searching
from jaxsched.wrappers.teacher import TaughtEnvironment
from jaxsched.wrappers.whole_state import WholeState, playing_inside, seen


def stages_of(recipe: Recipe, tables: Sequence[JobTable], policy: Any) -> list[TrainingSetup]:
    """The stages of a recipe.

    Args:
      recipe: the recipe.
      tables: training tables.
      policy: what the network's parameters play as.
    """
    params_at = params_of(recipe, tables)
    common = {
        "play_env": play_env(recipe),
        "params_at": params_at,
        "policy": policy,
        "play": recipe.play,
        "network": kind_of(recipe.policy, recipe.network),
        "variants": variants(recipe),
        "evaluate_every": recipe.evaluate_every,
        "checkpoint_every": recipe.checkpoint_every,
    }
    if recipe.search is not None:
        return [_search_stage(recipe, recipe.search, common)]
    stages = []
    if recipe.imitation is not None:
        stages.append(_imitation_stage(recipe, recipe.imitation, common))
    if recipe.reinforcement:
        stages.append(_reinforcement_stage(recipe, common))
    return stages


def play_env(recipe: Recipe) -> DAS:
    """Where policies are scored and tested: first jobs in the window, decision by decision."""
    return replace(recipe.env, sampling="first", events_per_step=0)


def params_of(recipe: Recipe, tables: Sequence[JobTable]) -> Callable[[float], Params]:
    """Function of the training progress that gives the environment's parameters.

    They are made when they are asked for first: a heuristic may have to play all tables for them.
    """
    made = cache(partial(_params, recipe, tables))
    return lambda progress: made()


def _params(recipe: Recipe, tables: Sequence[JobTable]) -> Params:
    stream = [stretched(table, rate) for rate in recipe.scale_rates for table in tables]
    if recipe.relative_to is not None:
        episodes = pieces(stream, recipe.episode_jobs, recipe.starts_every)
        return relative_params(recipe.env, episodes, recipe.relative_to, recipe.fee_weight)
    if len(stream) == 1 and len(stream[0]) > recipe.episode_jobs:
        starts = piece_starts(len(stream[0]), recipe.episode_jobs, recipe.starts_every)
        return recipe.env.params(stream, starts=starts, episode_jobs=recipe.episode_jobs)
    return recipe.env.params(pieces(stream, recipe.episode_jobs, recipe.starts_every))


def relative_params(
    env: DAS, tables: Sequence[JobTable], heuristic: str, fee_weight: float
) -> Params:
    """Parameters under which the dense reward is relative to a heuristic, table by table.

    The return of an episode is then minus ``dense_scale`` times (completion time over the
    heuristic's plus ``fee_weight`` times fee over the heuristic's).
    """
    params = env.params(list(tables))
    plain = replace(env, sampling="first", events_per_step=2)
    found = rec.play(plain, policy_named(heuristic, plain), params)
    return params._replace(
        jct_ref_min=jnp.asarray(found["avg_jct_min"], jnp.float32),
        fee_ref=jnp.asarray(found["avg_fee"] / fee_weight, jnp.float32),
    )


def stretched(table: JobTable, rate: float) -> JobTable:
    """The table with arrivals ``rate`` times as frequent."""
    return table if rate == 1.0 else rescale_arrivals(table, 1.0 / rate)


def _search_stage(recipe: Recipe, search: Search, common: dict[str, Any]) -> TrainingSetup:
    env = replace(recipe.env, sampling="first", events_per_step=search.events_per_step)
    config = replace(search.learner, total_updates=search.loop.num_updates)
    if recipe.policy == "scored":
        learner = evolution(
            lambda key, specs: beginning(env, search.begins),
            lambda params, observation, mask: decide_scored(env, params, observation),
            config,
        )
    else:
        learner = evolution(
            partial(init_linear, order=search.order),
            lambda params, observation, mask: decide_linear(env, params, observation),
            config,
        )
    return TrainingSetup(**searching(env, learner, search.loop), **common)


def _imitation_stage(recipe: Recipe, imitation: Imitation, common: dict[str, Any]) -> TrainingSetup:
    agents = agents_of(recipe.policy, recipe.env, recipe.network, recipe.units)
    env = TaughtEnvironment(
        learning_env(recipe.policy, recipe.env, recipe.network),
        teacher_of(imitation.teacher, recipe.policy, recipe.env, recipe.network),
    )
    return TrainingSetup(
        name="imitation",
        env=env,
        learner=regression(agents, imitation.learner),
        loop=imitation.loop,
        gradient_steps=imitation.learner.gradient_steps,
        **common,
    )


def _reinforcement_stage(recipe: Recipe, common: dict[str, Any]) -> TrainingSetup:
    agents = agents_of(recipe.policy, recipe.env, recipe.network, recipe.units)
    env = learning_env(recipe.policy, recipe.env, recipe.network)
    if recipe.critic == "whole":
        env, agents = WholeState(env), reading(agents, seen)
    if isinstance(recipe.learner, PPOConfig):
        name, learner = "mappo", _mappo(recipe, agents, recipe.learner)
    else:
        name, learner = "branching", _branching(recipe, agents, recipe.learner)
    return TrainingSetup(
        name=name,
        env=env,
        learner=learner,
        loop=recipe.loop,
        gradient_steps=recipe.learner.gradient_steps,
        **common,
    )


def _mappo(recipe: Recipe, agents: Agents, config: PPOConfig) -> Learner:
    critic: Critic = state_value(StateValue(recipe.env))
    if recipe.critic == "action":
        critic = action_value(ActionValue(), agents, critic_features)
    return mappo(agents, critic, config)


def _branching(recipe: Recipe, agents: Agents, config: BranchingConfig) -> Learner:
    rivals = [teacher_of(name, recipe.policy, recipe.env, recipe.network) for name in recipe.rivals]
    plays = None
    if recipe.policy == "das" and not recipe.network.remembers:
        plays = das_policy(recipe.env, recipe.network)
    if recipe.critic == "whole":
        rivals = [playing_inside(rival) for rival in rivals]
        plays = None if plays is None else playing_inside(plays)
    return branching_of_agents(
        agents,
        config,
        imitation_losses(recipe.policy),
        value=StateValue(recipe.env),
        scale=RANKING_SCALE,
        rivals=tuple(rivals),
        draws=recipe.draws,
        plays=plays,
    )
