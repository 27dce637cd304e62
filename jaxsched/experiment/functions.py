"""Rules as plain functions: of NumPy arrays, called once a decision, or of JAX arrays, compiled."""

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.errors import JaxschedError
from jaxsched.types import PRNGKey, PyTree

Function = Callable[..., Any]


class FunctionPolicy:
    """A decision rule of one's own; what :func:`policy` makes of a function.

    It is called as the function is.

    Args:
      function: ``(observation, mask) -> action`` or, with ``jax``, also
        ``(observation, mask, key) -> action``; a single environment, no batch axis.
      jax: whether the function is of JAX arrays, to be compiled.
      name: what tables call it.

    Attributes:
      function: the function.
      jax: as above.
      name: as above.

    Raises:
      JaxschedError: the function takes another number of arguments.
    """

    def __init__(self, function: Function, *, jax: bool = False, name: str | None = None) -> None:
        self.function, self.jax = function, jax
        self.name: str = name or str(getattr(function, "__name__", type(function).__name__))
        if self.num_arguments not in ((2, 3) if jax else (2,)):
            accepted = "(observation, mask) or (observation, mask, key)"
            raise JaxschedError(
                f"policy {self.name!r} takes {self.num_arguments} arguments; accepted: "
                f"{accepted if jax else '(observation, mask)'}"
            )

    @cached_property
    def num_arguments(self) -> int:
        """Positional arguments that the function takes."""
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = inspect.signature(self.function).parameters.values()
        return sum(
            parameter.kind in kinds and parameter.default is inspect.Parameter.empty
            for parameter in parameters
        )

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return self.function(*arguments)

    def __repr__(self) -> str:
        """One line."""
        return f"FunctionPolicy({self.name!r}, jax={self.jax})"

    def on(self, env: Environment) -> Policy:
        """The rule as a policy of an environment; the same object for the same environment."""
        made: dict[Environment, Policy] = self.__dict__.setdefault("_made", {})
        if env not in made:
            made[env] = Policy(self.name, no_memory, self._act(env))
        return made[env]

    def _act(self, env: Environment) -> Callable[..., tuple[PyTree, PyTree]]:
        like = jax.eval_shape(lambda: env.action_spec(None).zeros())  # type: ignore[arg-type]

        def compiled(
            weights: PyTree, memory: PyTree, view: View, key: PRNGKey
        ) -> tuple[PyTree, PyTree]:
            del weights
            arguments = (view.observation, view.mask, key)[: self.num_arguments]
            action = self.function(*arguments)
            self._check(action, like)
            return jax.tree.map(lambda x, leaf: jnp.asarray(x).astype(leaf.dtype), action, like), (
                memory
            )

        def called(
            weights: PyTree, memory: PyTree, view: View, key: PRNGKey
        ) -> tuple[PyTree, PyTree]:
            del weights, key
            action = jax.pure_callback(
                self._call(like), like, view.observation, view.mask, vmap_method="sequential"
            )
            return action, memory

        return compiled if self.jax else called

    def _call(self, like: PyTree) -> Callable[[PyTree, PyTree], PyTree]:
        def call(observation: PyTree, mask: PyTree) -> PyTree:
            observation, mask = jax.tree.map(np.asarray, (observation, mask))
            action = self.function(observation, mask)
            self._check(action, like)
            return jax.tree.map(lambda x, leaf: np.asarray(x, leaf.dtype), action, like)

        return call

    def _check(self, action: PyTree, like: PyTree) -> None:
        same: bool = jax.tree.structure(action) == jax.tree.structure(like)  # type: ignore[operator]
        if not same or any(
            np.shape(one) != leaf.shape
            for one, leaf in zip(jax.tree.leaves(action), jax.tree.leaves(like), strict=True)
        ):
            expected = jax.tree.map(lambda leaf: leaf.shape, like)
            found = jax.tree.map(np.shape, action)
            raise JaxschedError(
                f"policy {self.name!r} returns an action of shape {found}; accepted: {expected}"
            )


@overload
def policy(function: Function) -> FunctionPolicy: ...


@overload
def policy(
    *, jax: bool = False, name: str | None = None
) -> Callable[[Function], FunctionPolicy]: ...


def policy(
    function: Function | None = None, *, jax: bool = False, name: str | None = None
) -> FunctionPolicy | Callable[[Function], FunctionPolicy]:
    """Make a rule of a function, as a decorator or by a call.

    A plain function given to ``jaxsched.compare`` needs no decorator; it is called with NumPy
    arrays, once a decision, which is slow. A function of JAX arrays is compiled and vectorised.

    Args:
      function: ``(observation, mask) -> action``; with ``jax`` a random key may be the third
        argument. One environment, no batch axis; ``mask`` says which actions are legal.
      jax: whether the function is of JAX arrays.
      name: what tables call it; the function's name if absent.

    Returns:
      The rule; without ``function``, a decorator.

    Raises:
      JaxschedError: the function takes another number of arguments.
    """
    if function is None:
        return lambda given: FunctionPolicy(given, jax=jax, name=name)
    return FunctionPolicy(function, jax=jax, name=name)
