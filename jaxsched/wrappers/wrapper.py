"""What every environment around another one answers as that one does."""

from dataclasses import dataclass
from typing import Any

from jaxsched.core.environment import Environment
from jaxsched.types import Array, PRNGKey, PyTree


@dataclass(frozen=True)
class Wrapper(Environment):
    """An environment around another one, whose state is its state's ``inner``.

    Attributes:
      env: the environment.
    """

    env: Environment

    def decides(self, state: Any) -> Array:
        """As the inner environment."""
        return self.env.decides(state.inner)

    @property
    def can_resample_future(self) -> bool:
        """As the inner environment."""
        return self.env.can_resample_future

    def resample_future(self, key: PRNGKey, state: Any, params: PyTree) -> tuple[PyTree, PyTree]:
        """As the inner environment; the rest of the state has happened and stays."""
        inner, params = self.env.resample_future(key, state.inner, params)
        return state._replace(inner=inner), params

    @property
    def has_privileged_state(self) -> bool:
        """As the inner environment."""
        return self.env.has_privileged_state

    def privileged_state(self, state: Any, params: PyTree) -> Array:
        """As the inner environment."""
        return self.env.privileged_state(state.inner, params)

    def num_episodes(self, params: PyTree) -> int:
        """As the inner environment."""
        return self.env.num_episodes(params)

    def max_steps(self, params: PyTree) -> int:
        """As the inner environment."""
        return self.env.max_steps(params)

    def observation_spec(self, params: PyTree) -> PyTree:
        """As the inner environment."""
        return self.env.observation_spec(params)

    def action_spec(self, params: PyTree) -> PyTree:
        """As the inner environment."""
        return self.env.action_spec(params)
