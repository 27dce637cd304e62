"""What a slot pays, the paper's reward and others (``DL2.reward``)."""

from typing import Literal

import jax.numpy as jnp

from jaxsched.envs.dl2.jobs import MEDIAN_EPOCHS
from jaxsched.envs.dl2.rules.dynamics import SlotReport
from jaxsched.envs.dl2.rules.tables import JobTables, whole
from jaxsched.types import Array

RewardKind = Literal["progress", "epochs", "backlog", "presence"]
NOTHING: dict[RewardKind, float] = {
    "progress": 0.0,
    "epochs": 0.0,
    "backlog": 0.0,
    "presence": -0.0,
}
"""Where no slot ended."""


def progress(report: SlotReport, jobs: JobTables, episode: Array) -> Array:
    """Share of its estimated epochs that each job trained, float ``[N]``; the sum is paid."""
    return report.trained / whole(jobs.expected, episode)


def epochs(report: SlotReport) -> Array:
    """Epochs trained, over those of the median job, whosever they are; not Eq. 1, ours.

    Unlike shares it does not depend on a job's length, which the agent does not see.
    """
    return jnp.sum(report.trained) / MEDIAN_EPOCHS


def backlog(report: SlotReport) -> Array:
    """Minus the time that the jobs of a slot spent in it, in slots; 0 where no slot ended.

    Over an episode it is minus the sum of the jobs' completion times, but for the wait from
    submission to the next slot.
    """
    absent = jnp.sum(jnp.where(report.finished >= 0, 1.0 - report.finish_share, 0.0))
    return jnp.where(report.slots > 0, absent - report.present, 0.0)


def presence(report: SlotReport) -> Array:
    """Minus the number of jobs of a slot; 0 where no slot ended.

    Over an episode it is minus the sum of the completion times in whole slots, as DL2's published
    simulator counts them.
    """
    return -report.present.astype(report.finish_share.dtype)
