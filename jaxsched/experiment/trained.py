"""A trained policy as a function of NumPy arrays."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from jaxsched.core.policies import View
from jaxsched.results.comparison import Learned
from jaxsched.systems import functions
from jaxsched.systems.system import System
from jaxsched.types import PyTree


@dataclass(frozen=True, eq=False)
class TrainedPolicy:
    """The best policy of a run, one that comes with a system, or one from a hand-over folder.

    Attributes:
      system: name of its system.
      learned: environment, network and weights of the one seed.
      owner: the system itself.
      place: what ``jaxsched.load`` finds it by.
    """

    system: str
    learned: Learned
    owner: System
    place: str

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.learned.name

    @property
    def env(self) -> Any:
        """The environment that it plays in."""
        return self.learned.env

    @property
    def network(self) -> str:
        """Kind of its network."""
        return self.learned.network

    @property
    def weights(self) -> PyTree:
        """Parameters of its network."""
        return self.learned.weights[0]

    def __call__(self, observation: PyTree, mask: PyTree, *, seed: int = 0) -> Any:
        """Decide once.

        Args:
          observation: of one environment, as ``env.observation_spec`` describes it.
          mask: which actions are legal.
          seed: of policies that draw.

        Returns:
          The action, NumPy.
        """
        action = self._decide(self.weights, observation, mask, jax.random.key(seed))
        return jax.tree.map(np.asarray, action)

    def __repr__(self) -> str:
        """One line."""
        return f"TrainedPolicy({self.system}: {self.name!r}, network {self.network!r})"

    @cached_property
    def _decide(self) -> Any:
        learned = self.learned
        policy = functions.network_policy(
            self.owner, learned.env, learned.network, learned.name, learned.play
        )

        def decide(weights: PyTree, observation: PyTree, mask: PyTree, key: Any) -> PyTree:
            view = View(observation, mask, None, None)
            return policy.act(weights, policy.init(None), view, key)[0]

        return jax.jit(decide)
