"""A reward whose sum is the mean completion time, beside the paper's (``DL2.reward``)."""

from typing import Literal

import jax.numpy as jnp

from jaxsched.envs.dl2.dynamics import ClusterState, SlotReport
from jaxsched.ops import bit_sets as bits
from jaxsched.types import Array

RewardKind = Literal["progress", "backlog"]


def backlog(before: ClusterState, report: SlotReport) -> Array:
    """Minus the time that the jobs of a slot spent in it, in slots; 0 where no slot ended.

    Over an episode it is minus the sum of the jobs' completion times, but for the wait from
    submission to the next slot.
    """
    present = jnp.sum(bits.count(before.active))
    absent = jnp.sum(jnp.where(report.finished >= 0, 1.0 - report.finish_share, 0.0))
    return jnp.where(report.slots > 0, absent - present, 0.0)
