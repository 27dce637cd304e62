"""The two rewards of DAS (specification, section 6) and the fee."""

import jax.numpy as jnp

from jaxsched.envs.das.rules import Params, pick, submitted_by, waiting_of_arrivals
from jaxsched.envs.das.rules.dynamics import Decision, State, StepAccumulator, over
from jaxsched.types import Array

HOUR_S = 3600.0
MINUTE_S = 60.0


def paper_reward(
    params: Params, started: State, decision: Decision, after: State, since: StepAccumulator
) -> tuple[Array, State]:
    """What finished jobs give and failed ones cost, per job concerned.

    It is due with the next decision, or at the end; a step that ends before adds to the sums that
    the state keeps.

    Args:
      params: the environment's.
      started: the state right after the decision.
      decision: the decision.
      after: the state at the end of the step.
      since: what happened after the decision.

    Returns:
      The reward (float32) and ``after`` with its sums brought up to date.
    """
    running, done = started.running, since.finish >= 0
    hours = (since.finish - running.start).astype(jnp.float32) / HOUR_S
    fee = params.price * running.num_gpus.astype(jnp.float32) * hours
    jct = (since.finish - running.submit).astype(jnp.float32) / HOUR_S
    worth = jnp.minimum(params.reward_scale / jnp.where(done, fee * jct, 1.0), params.reward_cap)
    loss = params.alpha * decision.failed_gpus.astype(jnp.float32)
    gain = started.gain + jnp.sum(jnp.where(done, worth, 0.0)) - loss
    number = jnp.sum(done, dtype=jnp.int32) + jnp.sum(decision.failed, dtype=jnp.int32)
    number += started.concerned
    pays = after.due | over(after, params)
    reward = jnp.where(pays, gain / jnp.maximum(number, 1), 0.0)
    after = after._replace(gain=jnp.where(pays, 0.0, gain), concerned=jnp.where(pays, 0, number))
    return reward, after


def dense_reward(
    params: Params, before: State, after: State, since: StepAccumulator, num_jobs: Array
) -> tuple[Array, Array]:
    """Minus the time that jobs spend in the system and GPUs are allocated, float32.

    Args:
      params: the environment's.
      before: the state at the start of the step.
      after: the state at its end.
      since: what happened in between.
      num_jobs: int32, of the episode.

    Returns:
      The reward, and the number of jobs submitted at the end of the step (int32).
    """
    submitted = submitted_by(params, before.episode, after.time, before.submitted)
    elapsed = (after.time - before.time).astype(jnp.float32)
    present = (before.submitted - before.finished).astype(jnp.float32) * elapsed
    arrived = waiting_of_arrivals(params, before.episode, before.submitted, submitted, after.time)
    job_seconds = present + arrived - since.absent_seconds
    jct = job_seconds / (MINUTE_S * pick(params.jct_ref_min, before.episode))
    fee_ref = pick(params.fee_ref, before.episode)
    fee = params.price * since.gpu_seconds / (HOUR_S * fee_ref)
    return -params.dense_scale / num_jobs.astype(jnp.float32) * (jct + fee), submitted
