"""How good a decision looks without durations: what the meta-heuristics minimise (section 9)."""

import jax.numpy as jnp

from jaxsched.envs.das.environment import DAS, Action
from jaxsched.envs.das.simulator import dynamics, execution, tables
from jaxsched.envs.das.simulator.dynamics import State
from jaxsched.envs.das.simulator.tables import Params
from jaxsched.types import Array


def surrogate(env: DAS, state: State, params: Params, action: Action) -> tuple[Array, Array, Array]:
    """How good a decision looks without knowing durations (section 9).

    Args:
      env: the environment.
      state: a state in which a decision is due.
      params: its parameters.
      action: the candidate.

    Returns:
      f1, the GPUs that real jobs left unplaced ask for; f2, the GPUs of running jobs weighted with
      their contention; the cost, both per GPU of the cluster. float32 scalars.
    """
    decision = dynamics.decide(env.rules, state, action["priority"], action["affinity"])
    after = dynamics.apply(env.rules, state, params, decision)
    left = dynamics.real_positions(state) & ~decision.placed
    gpus = state.window.rows[tables.NUM_GPUS]
    unplaced = jnp.sum(jnp.where(left, gpus, 0)).astype(jnp.float32)
    worst = execution.contention(env.cluster, after.running, after.used)
    slowed = jnp.sum(after.running.num_gpus * worst) / 100.0
    return unplaced, slowed, (unplaced + slowed) / (env.num_servers * env.gpus_per_server)
