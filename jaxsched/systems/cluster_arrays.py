"""A cluster described by arrays in a front end's units, and a policy's observation of it.

``cluster_reader`` reads JSON on the host; this is a pure function that is exported with the policy,
so that a front end need not rebuild the observation.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.types import Array, ArraySpec


class ClusterInput(NamedTuple):
    """One array: its spec, and the meaning and unit of its entries."""

    spec: ArraySpec
    meaning: str
    unit: str


def mask_input(env: Environment, order: str) -> ClusterInput:
    """The mask of legal actions as an input, where it does not follow from the other arrays.

    Args:
      env: an environment of one choice of several.
      order: of the actions, in words.
    """
    actions: Any = env.action_spec(None)
    spec = ArraySpec((actions.num_actions,), jnp.bool_)
    return ClusterInput(spec, f"actions that are possible{order}", "")


class ClusterArrays(NamedTuple):
    """How arrays describe the clusters of an environment; no batch axes.

    Attributes:
      inputs: by name.
      observe: ``arrays -> (observation, mask)``, as the environment would show that cluster.
      example: ``random generator -> arrays`` of some cluster, to check an export with.
    """

    inputs: Mapping[str, ClusterInput]
    observe: Callable[[Mapping[str, Array]], tuple[Array, Array]]
    example: Callable[[np.random.Generator], dict[str, Any]]
