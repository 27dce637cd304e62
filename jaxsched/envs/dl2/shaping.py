"""A reward for every inference: what it changes of the slot's outcome.

The paper pays once per slot. Here each inference is paid the change of what the slot would earn if
it ended at once, ``phi(after) - phi(before)`` with ``phi`` at the allocation so far. Within a slot
nothing is discounted, so the payments of a slot add up to ``phi`` at its end and the best policies
stay the best (Ng et al., Policy Invariance under Reward Transformations, 1999); only the credit is
plain. Two units of ``phi`` are known:

    shares   sum over jobs of trained_j / E_j, the paper's reward (Eq. 1)
    epochs   sum over jobs of trained_j * (100 / remaining_j) ** urgency, times 0.05

In shares an epoch of a short job is worth more than one of a long job, and a policy that looks no
further than the slot starves the long ones. In epochs all are worth the same: about the time that
they will take later, which is what the mean JCT counts.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.envs.dl2 import dynamics
from jaxsched.envs.dl2.dynamics import ClusterState
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.tables import whole
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, TimeStep
from jaxsched.wrappers.wrapper import Wrapper

Unit = Literal["shares", "epochs"]
USUAL_EPOCHS = 100.0
EPOCH_SLOTS = 0.05  # share of a slot that an epoch takes with four workers and four servers


@dataclass(frozen=True)
class Paid:
    """What is paid while learning, and when.

    Attributes:
      unit: at the end of each ``slot`` as in the paper; or there, but by the epochs trained, not by
        shares of each job's (``slot_epochs``); or in parts with each inference, as ``shares`` of
        the epochs expected (the same sum) or as ``epochs``.
      urgency: with ``epochs``, the exponent by which those of jobs near their end count for more.
    """

    unit: Literal["slot", "slot_epochs", "shares", "epochs"] = "slot"
    urgency: float = 0.0

    def __call__(self, env: DL2) -> Environment:
        """The environment that is learned in."""
        if self.unit == "slot":
            return env
        if self.unit == "slot_epochs":
            return replace(env, reward="epochs")
        return Shaped(env, self.unit, self.urgency)


class ShapedState(NamedTuple):
    """State of a :class:`Shaped` environment."""

    inner: ClusterState
    potential: Array  # float, what the slot would earn if it ended now


@dataclass(frozen=True)
class Shaped(Wrapper):
    """``DL2`` with a reward for every inference; all else is the same.

    Attributes:
      env: the environment.
      unit: what rewards count.
      urgency: with epochs, how much more those of jobs near their end are worth.
    """

    env: DL2
    unit: Unit = "shares"
    urgency: float = 0.0

    name = "dl2-shaped"
    behaviour_version = 1

    def __post_init__(self) -> None:
        """Check the unit."""
        if self.unit not in get_args(Unit):
            known = ", ".join(get_args(Unit))
            raise JaxschedError(
                f"dl2: the shaped reward's unit is {self.unit!r}; known are {known}"
            )

    def resample_future(
        self, key: PRNGKey, state: ShapedState, params: Params
    ) -> tuple[ShapedState, Params]:
        """As ``DL2``; what the slot would earn is told by what was drawn."""
        inner, drawn = self.env.resample_future(key, state.inner, params)
        return ShapedState(inner, self.potential(inner, drawn)), drawn

    def potential(self, cluster: ClusterState, params: Params) -> Array:
        """What the slot would earn with the allocation so far, float scalar."""
        _, report = dynamics.train_slot(
            self.env.rules, cluster, params.jobs, params.speed, jnp.bool_(True)
        )
        return jnp.sum(report.trained * self.worth(cluster, params))

    def worth(self, cluster: ClusterState, params: Params) -> Array:
        """What an epoch of each job is worth in this slot, float ``[N]``."""
        expected = whole(params.jobs.expected, cluster.episode)
        if self.unit == "shares":
            return 1.0 / expected
        left = jnp.maximum(expected - cluster.progress, 1.0)
        return EPOCH_SLOTS * (USUAL_EPOCHS / left) ** self.urgency

    def reset(
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[ShapedState, TimeStep]:
        """As ``DL2``."""
        cluster, timestep = self.env.reset(key, params, episode)
        return ShapedState(cluster, self.potential(cluster, params)), timestep

    def step(
        self, key: PRNGKey, state: ShapedState, action: Array, params: Params
    ) -> tuple[ShapedState, TimeStep]:
        """As ``DL2``, paid at once."""
        cluster, timestep = self.env.step(key, state.inner, action, params)
        over = timestep.metrics.slot_ended | timestep.done
        potential = self.potential(cluster, params)
        trained = timestep.metrics.report.trained
        earned = jnp.sum(trained * self.worth(state.inner, params))
        earned = jnp.where(over, earned, potential)
        timestep = timestep._replace(reward=earned - state.potential)
        return ShapedState(cluster, potential), timestep

    def observe(self, state: ShapedState, params: Params) -> tuple[Array, Array]:
        """As ``DL2``."""
        return self.env.observe(state.inner, params)
