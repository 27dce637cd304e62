"""Centralised critics of DAS (section 10.5).

Axes: ``B`` decisions, ``N`` positions, ``M`` machines.
"""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp

from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learning.agents import current, finite
from jaxsched.envs.das.learning.derived_features import derived_features
from jaxsched.envs.das.observation import Observation
from jaxsched.types import Array
from jaxsched.wrappers.privileged_state import Whole

HIDDEN = (256, 256)
ACTION_LIMIT = 3.0


def present(observation: Any) -> Observation:
    """The observation of the decision to take, zero in dummy positions; without history."""
    return finite(current(observation))


def critic_features(observation: Any, action: dict[str, Array]) -> Array:
    """Observation and actions in one row, ``[B, 5 N + 5 M + N + N M]``; dummies are zero."""
    jobs, machines, real, _ = present(observation)
    priority = jnp.clip(jnp.nan_to_num(action["priority"]), -ACTION_LIMIT, ACTION_LIMIT)
    affinity = jnp.clip(jnp.nan_to_num(action["affinity"]), -ACTION_LIMIT, ACTION_LIMIT)
    parts = [
        jobs,
        machines,
        jnp.where(real, priority, 0.0),
        jnp.where(real[..., None], affinity, 0.0),
    ]
    return jnp.concatenate([part.reshape(len(part), -1) for part in parts], axis=-1)


class ActionValue(nn.Module):
    """Q of the features of an observation and an action, ``[B]``."""

    @nn.compact
    def __call__(self, features: Array) -> Array:
        """Two hidden layers."""
        for width in HIDDEN:
            features = nn.relu(nn.Dense(width)(features))
        return nn.Dense(1)(features)[..., 0]


class StateValue(nn.Module):
    """V of an observation, ``[B]``, from what it says of the load (an extra of ours).

    Of one that carries the whole state (:class:`~jaxsched.wrappers.privileged_state.Whole`) that is
    read, too.

    Attributes:
      env: the environment.
    """

    env: DAS

    @nn.compact
    def __call__(self, observation: Any) -> Array:
        """Mean and maximum over positions and machines of embeddings of both."""
        rest = []
        if isinstance(observation, Whole):
            observation, rest = observation.observation, [jnp.log1p(observation.rest)]
        seen = present(observation)
        derived = derived_features(self.env, seen)
        jobs = jnp.concatenate([seen.jobs, derived.jobs], axis=-1)
        machines = jnp.concatenate([seen.machines, derived.machines], axis=-1)
        jobs = nn.relu(nn.Dense(64, name="jobs")(jobs))
        jobs = jnp.where(seen.real[..., None], jobs, 0.0)
        machines = nn.relu(nn.Dense(64, name="machines")(machines))
        pooled = [x for part in (jobs, machines) for x in (part.mean(-2), part.max(-2))]
        hidden = jnp.concatenate([*pooled, *rest], axis=-1)
        for width in HIDDEN:
            hidden = nn.relu(nn.Dense(width)(hidden))
        return nn.Dense(1)(hidden)[..., 0]
