"""Whose job it is, and how long jobs of the same group and user took.

A group is what a trace calls jobs that repeat one another (the same script, submitted again); a
user has several. A scheduler sees the run times of finished jobs, so it can estimate that of a
waiting one: the mean logarithm over its group, drawn towards that of its user, which is drawn
towards that of all jobs, by the weight of one job each (Weng et al., MLaaS in the Wild, NSDI 2022,
section 5.2, predict durations from group and user).

Axes: ``K`` = 1 + groups + users, what is told apart (the first one: all jobs); ``N`` positions,
``R`` running jobs, ``T`` jobs of all tables.
"""

import jax.numpy as jnp

from jaxsched.envs.das.simulator.execution import Running
from jaxsched.envs.das.simulator.tables import Params
from jaxsched.types import Array

ESTIMATE_NAMES = ("run", "user_run", "evidence", "user_evidence")
LOG2_SCALE = 18.0  # of run times in s: 2**18 s are three days
PRIOR_LOG2 = 10.75  # of a first job: 29 minutes, the workloads' median


def nothing_seen(params: Params) -> Array:
    """No job has finished, float32 ``[K, 2]``: how many did, and the sum of log2 of their runs."""
    assert params.known is not None
    return jnp.zeros((params.known.shape[0], 2), jnp.float32)


def learnt(params: Params, episode: Array, running: Running, finish: Array, seen: Array) -> Array:
    """``seen`` with the jobs that finished since the decision.

    Args:
      params: the environment's.
      episode: int32.
      running: the running table right after the decision.
      finish: int32 ``[R]``, when its jobs finished, -1 where they did not.
      seen: before.
    """
    done = finish >= 0
    run = jnp.log2(jnp.maximum(finish - running.start, 1).astype(jnp.float32))
    amount = jnp.where(done[:, None], jnp.stack([jnp.ones_like(run), run], axis=-1), 0.0)
    group, user = _owners(params, episode, running.job)
    everyone = seen[0] + jnp.sum(amount, axis=0)
    return seen.at[group].add(amount).at[user].add(amount).at[0].set(everyone)


def estimates(params: Params, episode: Array, job: Array, seen: Array) -> Array:
    """What is shown of jobs ``[N]`` of an episode, float32 ``[N, 4]``: ``ESTIMATE_NAMES``.

    The estimated log2 of the run time (s) from the group's finished jobs and from the user's, both
    over ``LOG2_SCALE``; n / (n + 1) of how many finished in the group, and likewise of the user.
    """
    group, user = _owners(params, episode, job)
    overall = (seen[0, 1] + PRIOR_LOG2) / (seen[0, 0] + 1.0)
    of_user, of_group = seen[user], seen[group]
    by_user = (of_user[:, 1] + overall) / (of_user[:, 0] + 1.0)
    by_group = (of_group[:, 1] + by_user) / (of_group[:, 0] + 1.0)
    shares = [of[:, 0] / (of[:, 0] + 1.0) for of in (of_group, of_user)]
    return jnp.stack([by_group / LOG2_SCALE, by_user / LOG2_SCALE, *shares], axis=-1)


def _owners(params: Params, episode: Array, job: Array) -> tuple[Array, Array]:
    """Places of groups and users of jobs; 0 where there is no such job."""
    assert params.owners is not None
    count = params.num_jobs[episode]
    there = (job >= 0) & (job < count)
    index = jnp.where(there, params.offset[episode] + job, params.owners.shape[0] - 1)
    group, user = params.owners.at[index].get(mode="promise_in_bounds").T
    return group, user
