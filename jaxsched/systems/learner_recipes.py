"""Recipes of each learner with its default settings, for systems with a discrete action.

A system's own presets are tuned; these are not: the environment with its dense reward, a small
network, one learner. New systems start from them, and learners are compared by them
(``benchmarks/learners.py``).
"""

from dataclasses import replace
from typing import Any

from jaxsched.algorithms.actor_critic_settings import ActorCriticConfig
from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.cross_entropy import CrossEntropyConfig
from jaxsched.algorithms.dqn import DQNConfig
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.algorithms.ppo_settings import PPOConfig
from jaxsched.core.environment import Environment
from jaxsched.core.training import LoopConfig
from jaxsched.systems.learners import known, with_loop
from jaxsched.systems.parts import PresetInfo, TraceSet
from jaxsched.systems.recipe import Recipe, Stage
from jaxsched.systems.stages import steps_per_update

PURPOSES = {
    f"plain-{name}": PresetInfo(f"{words}; usual settings, a small network")
    for name, words in {
        "dqn": "deep Q-network",
        "ppo": "PPO",
        "actor-critic": "actor-critic",
        "branching": "policy iteration by branching on copies of states",
        "search": "search over the parameters of small policies",
        "cross-entropy": "cross-entropy method over whole episodes",
    }.items()
} | {"gpu-ppo": PresetInfo("PPO with 32,768 environments side by side, for a GPU")}
"""What each recipe is for."""

STEPS = 2_048_000
"""Environment steps of each recipe, or the next whole number of updates above; rollouts of
branching count as if each had its full length."""


def learner_recipes(
    env: Environment,
    *,
    network: str,
    horizon_s: float,
    episode_steps: int,
    traces: TraceSet,
) -> dict[str, Recipe]:
    """One recipe for each learner, of about ``STEPS`` environment steps each.

    Args:
      env: the environment.
      network: the policy's.
      horizon_s: of the discount by time.
      episode_steps: room for an episode, of learners that play whole ones; 0 leaves them out.
      traces: tables for training and test.
    """
    found = _stepwise(horizon_s) | _by_branching(env, horizon_s)
    if episode_steps:
        found |= _by_episode(episode_steps)
    recipes = {
        name: with_learner(
            Recipe(
                env,
                traces,
                (_stage(loop),),
                network,
                policy="",
                checkpoint_every=max(loop.num_updates // 2, 1),
            ),
            config,
        )
        for name, (loop, config) in found.items()
    }
    return recipes | {"gpu-ppo": _for_gpu(recipes["plain-ppo"])}


def _for_gpu(plain: Recipe) -> Recipe:
    """The recipe for devices that step tens of thousands of environments side by side.

    Plain recipes learn from few steps, which leave a GPU idle: it needs about 30,000 environments
    to be busy. This one takes a hundred times as many steps and far fewer gradient steps for each:
    short rollouts, few minibatches of 131,072 decisions, higher learning rates, products in
    bfloat16. Environment, networks, discount and targets stay.
    """
    loop, (stage,) = LoopConfig(num_envs=32_768, rollout_length=16, num_updates=400), plain.stages
    config = replace(
        stage.learner, total_updates=400, epochs=2, num_minibatches=4, learning_rate=1e-3
    )
    stage = replace(_stage(loop), name=stage.name, learner=config, precision="bfloat16")
    return replace(plain, stages=(stage,), checkpoint_every=loop.num_updates // 2)


def _stage(loop: LoopConfig) -> Stage:
    return Stage(
        "",
        None,
        loop,
        value_network="mlp-64-64",
        evaluate_every=max(loop.num_updates // 8, 1),
    )


def with_learner(recipe: Recipe, config: Any) -> Recipe:
    """A recipe of these with another learner, given by the type of its settings.

    Raises:
      JaxschedError: no learner has such settings.
    """
    name, (stage,) = known(config).name, recipe.stages
    config = with_loop(config, stage.loop)
    return replace(
        recipe,
        stages=(replace(stage, name=name, learner=config),),
        policy=name,
        departures=(f"a plain recipe: {name} with its usual settings",),
    )


def _stepwise(horizon_s: float) -> dict[str, tuple[LoopConfig, Any]]:
    """Recipes of learners that learn from segments of episodes."""
    return {
        "plain-dqn": (
            LoopConfig(num_envs=64, rollout_length=8, num_updates=STEPS // 512),
            DQNConfig(
                STEPS // 512,
                gradient_steps=4,
                capacity=100_000,
                learning_starts=5000,
                learning_rate=1e-3,
                final_learning_rate=1e-4,
                target_rate=0.005,
                n_step=3,
                horizon_s=horizon_s,
            ),
        ),
        "plain-ppo": (
            LoopConfig(num_envs=128, rollout_length=64, num_updates=STEPS // 8192),
            PPOConfig(
                STEPS // 8192,
                epochs=4,
                only_choices=True,
                normalise_targets=True,
                lambda_=0.95,
                horizon_s=horizon_s,
            ),
        ),
        "plain-actor-critic": (
            LoopConfig(num_envs=128, rollout_length=16, num_updates=STEPS // 2048),
            ActorCriticConfig(
                STEPS // 2048,
                batch_size=None,
                capacity=0,
                normalise_advantages=True,
                max_gradient_norm=0.5,
                learning_rate=3e-3,
                final_learning_rate=3e-4,
                lambda_=0.9,
                entropy_start=0.01,
                entropy_end=0.0,
                horizon_s=horizon_s,
            ),
        ),
    }


def _by_branching(env: Environment, horizon_s: float) -> dict[str, tuple[LoopConfig, Any]]:
    """The recipe of branching, which values candidates in copies of a state."""
    loop = LoopConfig(num_envs=64, rollout_length=16, num_updates=1)
    config = BranchingConfig(
        total_updates=1,
        futures=2 if env.can_resample_future else 0,
        alternatives=4,
        max_steps=64,
        gradient_steps=16,
        final_learning_rate=1e-4,
        horizon_s=horizon_s,
        exploration=0.1,
        relative=1.0,
        clip=1.0,
    )
    num_updates = -(-STEPS // steps_per_update(Stage("branching", config, loop)))
    return {"plain-branching": (replace(loop, num_updates=num_updates), config)}


def _by_episode(episode_steps: int) -> dict[str, tuple[LoopConfig, Any]]:
    """Recipes of learners that compare whole episodes."""
    members, episodes, trajectories = 32, 2, 64
    whole = -(-STEPS // episode_steps)
    return {
        "plain-search": (
            LoopConfig(
                members * episodes,
                episode_steps,
                -(-whole // (members * episodes)),
                num_random_streams=episodes,
            ),
            EvolutionConfig(
                members, episodes, initial_std=0.05, follow="gradient", learning_rate=0.01
            ),
        ),
        "plain-cross-entropy": (
            LoopConfig(trajectories, episode_steps, -(-whole // trajectories)),
            CrossEntropyConfig(trajectories - 1, rho=0.2, inner_steps=10),
        ),
    }
