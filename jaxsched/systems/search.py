"""A stage of training that searches by whole episodes."""

from typing import Any

from jaxsched.core.environment import Environment
from jaxsched.core.learner import Learner
from jaxsched.core.training import LoopConfig
from jaxsched.wrappers.fixed_length import FixedLength


def searching(env: Environment, learner: Learner, loop: LoopConfig) -> dict[str, Any]:
    """What a ``TrainingSetup`` has of its own where it searches.

    Args:
      env: what is played; its return over an episode is what members are compared by.
      learner: a search (:mod:`jaxsched.algorithms.evolution`), which says what sizes it needs.
      loop: ``rollout_length`` covers an episode; a member that does not end within it counts as the
        worst.
    """
    return {
        "name": "search",
        "env": FixedLength(env, loop.rollout_length),
        "learner": learner,
        "loop": loop,
        "gradient_steps": 0,
    }
