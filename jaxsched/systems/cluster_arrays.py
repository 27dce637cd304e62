"""A cluster as plain arrays in units that a front end has, and what a policy sees of it.

Where ``cluster_reader`` reads JSON on the host, this is a pure function: it is exported with the
policy, so that nobody has to rebuild the observation.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.types import Array, ArraySpec


class ClusterInput(NamedTuple):
    """One array: its spec, and what its entries are."""

    spec: ArraySpec
    meaning: str
    unit: str


def mask_input(env: Environment, order: str) -> ClusterInput:
    """The mask, where what fits is nothing that the other arrays tell.

    Args:
      env: an environment of one choice of several.
      order: of the actions, in words.
    """
    actions: Any = env.action_spec(None)
    spec = ArraySpec((actions.num_actions,), jnp.bool_)
    return ClusterInput(spec, f"actions that are possible{order}", "")


class ClusterArrays(NamedTuple):
    """How the clusters of an environment are told in arrays; no batch axes.

    Attributes:
      inputs: by name.
      observe: ``arrays -> (observation, mask)``, as the environment would show that cluster.
      example: ``random generator -> arrays`` of some cluster, to check an export with.
    """

    inputs: Mapping[str, ClusterInput]
    observe: Callable[[Mapping[str, Array]], tuple[Array, Array]]
    example: Callable[[np.random.Generator], dict[str, Any]]
