"""A stage of training that searches the parameters of a network by whole episodes."""

from dataclasses import replace

import flax.linen as nn

from jaxsched.algorithms.evolution import EvolutionConfig, search_of
from jaxsched.core.environment import Environment
from jaxsched.core.training import LoopConfig
from jaxsched.systems.parts import TrainingSetup
from jaxsched.wrappers.fixed_length import FixedLength


def search_stage(
    stage: TrainingSetup,
    env: Environment,
    network: nn.Module,
    config: EvolutionConfig,
    loop: LoopConfig,
) -> TrainingSetup:
    """A stage like another one that searches where that one learns.

    Args:
      stage: whose policy, parameters and words stay.
      env: what is played; its return over an episode is what members are compared by.
      network: what the policy scores actions with.
      config: settings of the search.
      loop: ``rollout_length`` covers an episode (a member that does not end within it counts as
        the worst), ``num_envs`` and ``num_random_streams`` follow the settings,
        as the settings' ``total_updates`` follow ``num_updates``.
    """
    sizes = LoopConfig(
        num_envs=config.batch,
        rollout_length=loop.rollout_length,
        num_updates=loop.num_updates,
        num_random_streams=config.episodes,
    )
    return stage._replace(
        name="search",
        env=FixedLength(env, loop.rollout_length),
        learner=search_of(network, replace(config, total_updates=loop.num_updates)),
        loop=sizes,
        gradient_steps=0,
    )
