"""Recipes that every system has whose action is one choice of several: any learner, its defaults.

What a system's own presets tune, these leave plain: the environment with the reward that comes as
things happen, a small network, one learner. They are where a new system starts, and what learners
are compared by (``benchmarks/learners.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

from jaxsched.algorithms.actor_critic_settings import ActorCriticConfig
from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.cross_entropy import CrossEntropyConfig
from jaxsched.algorithms.dqn import DQNConfig
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.algorithms.ppo_settings import PPOConfig
from jaxsched.core.environment import Environment
from jaxsched.core.training import LoopConfig
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.networks.described import Described, Precision
from jaxsched.networks.mlp import ValueMLP, sizes_of
from jaxsched.systems.learners import Parts, known, with_loop
from jaxsched.systems.parts import Network, PresetInfo, TrainingSetup, always
from jaxsched.wrappers.fixed_length import FixedLength
from jaxsched.wrappers.whole_state import Reads, WholeState, everything, seen

Config = (
    DQNConfig
    | PPOConfig
    | ActorCriticConfig
    | BranchingConfig
    | EvolutionConfig
    | CrossEntropyConfig
)

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
}
"""What each plain recipe is for."""

Critic = Literal["observation", "state"]
STEPS = 2_048_000
"""Environment steps of each recipe, or the next whole number of updates above; those that try
alternatives are counted as if each play had its full length."""


@dataclass(frozen=True)
class PlainRecipe:
    """Everything that a training run depends on besides its seed and job tables.

    Attributes:
      env: the environment that the agent learns in.
      loop: sizes of the loop.
      learner: settings of the learner, whose type says which it is; its ``total_updates`` follows
        ``loop.num_updates``.
      network: a kind of the system's networks, or widths of hidden layers as ``mlp-64-64``.
      value_network: widths of the value's hidden layers, of learners that have one.
      critic: what that value sees while learning: the ``observation``, or the ``state`` too
        (:mod:`jaxsched.wrappers.whole_state`).
      precision: what both networks multiply in while learning
        (:class:`jaxsched.networks.described.Described`); the policy plays and is handed over in
        float32.
      evaluate_every: updates between greedy evaluations on the validation traces.
      checkpoint_every: updates between checkpoints of the whole run.
    """

    env: Environment
    loop: LoopConfig
    learner: Config
    network: str = "mlp-64-64"
    value_network: str = "mlp-64-64"
    critic: Critic = "observation"
    precision: Precision = "float32"
    evaluate_every: int = 250
    checkpoint_every: int = 1000

    def __post_init__(self) -> None:
        """Check that the learner has a critic where the recipe asks for another one."""
        for name, accepted in (("critic", get_args(Critic)), ("precision", get_args(Precision))):
            if getattr(self, name) not in accepted:
                raise JaxschedError(
                    f"PlainRecipe.{name} is {getattr(self, name)!r}; it must be one of "
                    f"{', '.join(accepted)}"
                )
        with_value = isinstance(self.learner, PPOConfig | ActorCriticConfig) or (
            isinstance(self.learner, BranchingConfig) and self.learner.critic
        )
        if self.critic == "state" and not with_value:
            raise JaxschedError(
                "PlainRecipe.critic is 'state'; it must be 'observation' for a learner without "
                "a value network"
            )

    @property
    def steps_per_update(self) -> int:
        """Environment steps between two updates, those that try alternatives at most included.

        Raises:
          JaxschedError: the recipe leaves it to the environment how many they are.
        """
        tried = 0
        if isinstance(self.learner, BranchingConfig):
            tried = self.loop.num_envs * self.learner.look_ahead.most_steps()
        return self.loop.steps_per_update + tried


def _value(recipe: PlainRecipe) -> Any:
    network = ValueMLP(sizes_of(recipe.value_network), precision=recipe.precision)
    return network if recipe.critic == "observation" else Reads(network, everything)


def _policy(network: Any, recipe: PlainRecipe) -> Any:
    return network if recipe.critic == "observation" else Reads(network, seen)


def _in_precision(network: Network, precision: Precision) -> Network:
    """The same network with other products.

    Raises:
      JaxschedError: they cannot be chosen, as it is made of other layers.
    """
    if precision == "float32":
        return network
    if not isinstance(network, Described):
        raise JaxschedError(
            f"PlainRecipe.precision is {precision!r}; it must be float32 for a network that is no "
            "Described one"
        )
    return network.clone(precision=precision)


def plain_recipes(
    env: Environment, *, network: str, horizon_s: float, episode_steps: int
) -> dict[str, PlainRecipe]:
    """One recipe for each learner, of about ``STEPS`` environment steps each.

    Args:
      env: what is learnt in.
      network: the policy's.
      horizon_s: of the discount by time.
      episode_steps: room for an episode, of learners that play whole ones; 0 leaves them out.
    """
    found = _stepwise(horizon_s) | _by_branching(env, horizon_s)
    if episode_steps:
        found |= _by_episode(episode_steps)
    return {
        name: PlainRecipe(
            env,
            loop,
            config,
            network,
            evaluate_every=max(loop.num_updates // 8, 1),
            checkpoint_every=max(loop.num_updates // 2, 1),
        )
        for name, (loop, config) in found.items()
    }


def _stepwise(horizon_s: float) -> dict[str, tuple[LoopConfig, Config]]:
    """Learners that learn from stretches of episodes."""
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


def _by_branching(env: Environment, horizon_s: float) -> dict[str, tuple[LoopConfig, Config]]:
    """The learner that tries alternatives on copies of a state."""
    loop = LoopConfig(num_envs=64, rollout_length=16, num_updates=1)
    config = BranchingConfig(
        total_updates=1,
        futures=2 if env.redraws_futures else 0,
        alternatives=4,
        max_steps=64,
        gradient_steps=16,
        final_learning_rate=1e-4,
        horizon_s=horizon_s,
        exploration=0.1,
        relative=1.0,
        clip=1.0,
    )
    num_updates = -(-STEPS // PlainRecipe(env, loop, config).steps_per_update)
    return {
        "plain-branching": (
            replace(loop, num_updates=num_updates),
            replace(config, total_updates=num_updates),
        )
    }


def _by_episode(episode_steps: int) -> dict[str, tuple[LoopConfig, Config]]:
    """Learners that compare whole episodes."""
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


def plain_stage(system: Any, recipe: PlainRecipe, tables: Sequence[JobTable]) -> TrainingSetup:
    """The one stage of a plain recipe.

    Args:
      system: the ``System``.
      recipe: the recipe.
      tables: what is learnt on.
    """
    params = system.params(recipe.env, tables)
    config = with_loop(recipe.learner, recipe.loop)
    name, make = known(config)
    network = _in_precision(system.network(recipe.env, recipe.network), recipe.precision)
    learner = make(Parts(config, _policy(network, recipe), partial(_value, recipe)))
    env = recipe.env if recipe.critic == "observation" else WholeState(recipe.env)
    if learner.needs.whole_episodes:
        env = FixedLength(recipe.env, recipe.loop.rollout_length)
    return TrainingSetup(
        name=name,
        env=env,
        learner=learner,
        loop=recipe.loop,
        gradient_steps=getattr(config, "gradient_steps", 0),
        play_env=recipe.env,
        params_at=always(params),
        policy=system.network_policy(recipe.env, recipe.network, name, "greedy"),
        play="greedy",
        network=recipe.network,
        evaluate_every=recipe.evaluate_every,
        checkpoint_every=recipe.checkpoint_every,
        variants=(f"a plain recipe: {name} with its usual settings",),
    )
