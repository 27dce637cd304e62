"""The reward of a slot (specification, section 6; MLFS, Eq. 7 with its signs corrected).

Axes: ``A`` jobs.
"""

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp

from jaxsched.envs.mlfs.rules.dynamics import Ended
from jaxsched.envs.mlfs.rules.state import NONE, State
from jaxsched.envs.mlfs.rules.tables import Job, Params, accuracy_at
from jaxsched.types import Array

RewardMode = Literal["mlfs", "standing", "backlog", "progress", "service"]
HOUR_MIN = 60
LATE_HOURS = 4.0  # that a missed deadline counts for in the service reward


class RewardWeights(NamedTuple):
    """What the parts of Equation 7 count, in the order of ``Params.reward_weights``."""

    completion: Any
    deadline: Any
    traffic: Any
    target: Any
    accuracy: Any

    def worth(self, minutes: Any, in_time: Any, reached: Any, accuracy: Any) -> Any:
        """What finished jobs are worth, of arrays of JAX or NumPy.

        Args:
          minutes: from submission to finish, floating point; below an hour they count alike.
          in_time: whether the deadline was met.
          reached: whether the accuracy was, by the deadline.
          accuracy: at the deadline.
        """
        return (
            self.completion * (HOUR_MIN / minutes.clip(HOUR_MIN))
            + self.deadline * in_time
            + self.target * reached
            + self.accuracy * accuracy
        )


def met(jobs: Job, finish: Any, by_deadline: Any) -> tuple[Any, Any]:
    """Whether jobs met their deadline, and their accuracy target by then; of JAX or NumPy.

    Args:
      jobs: the jobs.
      finish: slot in which they finished.
      by_deadline: iterations that they had completed at their deadline.
    """
    return finish <= jobs.deadline_min, by_deadline >= jobs.req_iter


def accuracy(jobs: Job, acc_max: Any, iterations: Any) -> Any:
    """Accuracy after so many iterations (section 2); of JAX or NumPy.

    Args:
      jobs: the jobs.
      acc_max: accuracy after infinitely many.
      iterations: completed, floating point.
    """
    x = jobs.curve_a * iterations / 1000.0
    return acc_max * x / (1.0 + x)


def slot_reward(
    params: Params, episode: Array, jobs: Job, ended: Ended, slot: Array, *, standing: bool = False
) -> Array:
    """Value of the jobs that finish as the slot ends, less the traffic of it; float32 scalar.

    Args:
      params: weights and totals of the episode.
      episode: which.
      jobs: of the window before the slot ended.
      ended: what the slot brought.
      slot: that begins now.
      standing: the value of all jobs of the window, as if they finished now.
    """
    weights = RewardWeights(*params.reward_weights)
    count = params.num_jobs.at[episode].get(mode="promise_in_bounds")
    by_deadline = ended.active.by_deadline
    acc_max = accuracy_at(params, episode, ended.active.job)
    worth = weights.worth(
        (slot - jobs.submit_min).astype(jnp.float32),
        *met(jobs, slot, by_deadline),
        accuracy(jobs, acc_max, by_deadline.astype(jnp.float32)),
    )
    paid = ended.active.job != NONE if standing else ended.over
    total = jnp.sum(jnp.where(paid, worth, 0.0)) / count
    bound = params.traffic_mb.at[episode].get(mode="promise_in_bounds")
    return total - weights.traffic * ended.sent / bound


def backlog_reward(params: Params, episode: Array, submitted: Array, finished: Array) -> Array:
    """Minus the share of the jobs that were submitted and have not finished (RL of section 9)."""
    count = params.num_jobs.at[episode].get(mode="promise_in_bounds")
    return -(submitted - finished).astype(jnp.float32) / count


def progress_reward(params: Params, episode: Array, jobs: Job, ended: Ended, limit: Array) -> Array:
    """Work of the instances that ended, each over the remaining work of its job; ours.

    It tells within minutes what a placement was worth, and counts the work of jobs near their end
    for more.

    Args:
      params: sizes of the episode.
      episode: which.
      jobs: of the window before the slot ended.
      ended: what the slot brought.
      limit: iterations after which each job ends, before the slot ended.
    """
    count = params.num_jobs.at[episode].get(mode="promise_in_bounds")
    done = ended.active.iterations - ended.completed
    left = jnp.maximum((limit - done) * jobs.total_work, 1).astype(jnp.float32)
    return jnp.sum(ended.work.astype(jnp.float32) / left) / count


def service_reward(params: Params, state: State, jobs: Job, slot: Array) -> Array:
    """Minus the hours that a job takes on average, a missed deadline counting as some more; ours.

    The deadline counts when it passes, of jobs in the window.

    Args:
      params: sizes of the episode.
      state: before the slot ended.
      jobs: of the window then.
      slot: that begins now.
    """
    waited = backlog_reward(params, state.episode, state.submitted, state.finished) / HOUR_MIN
    passes = (state.active.job >= 0) & (jobs.deadline_min == slot - 1)
    late = jnp.sum(passes, dtype=jnp.int32)
    count = params.num_jobs.at[state.episode].get(mode="promise_in_bounds")
    return waited - LATE_HOURS * late / count
