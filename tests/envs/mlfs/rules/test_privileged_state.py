"""What critics of MLFS are told: counted again in plain Python, job by job."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxsched
from jaxsched.core.policies import View
from jaxsched.envs.mlfs.heuristics.baselines import heuristic
from jaxsched.envs.mlfs.rules.observation import JOBS, WITHIN_MIN
from jaxsched.envs.mlfs.rules.tables import unpack

STEPS, EVERY = 1500, 50


def played():
    """States of an episode and what they tell, and its environment and parameters."""
    env, params = jaxsched.make("mlfs", decide="rule")
    policy = heuristic(env)

    def step(state, key):
        view = View(*env.observe(state, params), state, params)
        action, _ = policy.act((), (), view, key)
        return env.step(key, state, action, params)[0], None

    def piece(state, key):
        told = env.privileged_state(state, params)
        after, _ = jax.lax.scan(step, state, jax.random.split(key, EVERY))
        return after, (state, told)

    state, _ = env.reset(jax.random.key(0), params, jnp.int32(0))
    keys = jax.random.split(jax.random.key(1), STEPS // EVERY)
    found = jax.jit(lambda s: jax.lax.scan(piece, s, keys))(state)[1]
    return env, params, *jax.tree.map(np.asarray, found)


def test_all_work_is_told():
    env, params, states, told = played()
    count = int(params.num_jobs[0])
    first = int(params.offset[0])
    jobs = unpack(np.asarray(params.rows)[first : first + count])
    gpu_days = 1000 * 1440 * sum(env.gpus)  # thousandths of minutes
    seen = np.zeros(5)
    for at, whole in enumerate(told):
        state = jax.tree.map(lambda x, at=at: x[at], states)
        slot, active = int(state.slot), state.active
        places = [k for k in range(len(active.job)) if active.job[k] >= 0]
        left, late, passes = 0.0, 0, np.zeros(3)
        for k in places:
            job = active.job[k]
            left += (active.limit[k] - active.iterations[k]) * float(jobs.total_work[job])
            due = jobs.deadline_min[job] - slot
            late += due < 0
            passes += (due >= 0) & (due <= WITHIN_MIN)
        behind = [j for j in range(state.admitted, count) if jobs.submit_slot[j] <= slot]
        later = [j for j in range(count) if jobs.submit_slot[j] > slot]
        work = jobs.iterations.astype(float) * jobs.total_work
        comes = [[j for j in later if jobs.submit_slot[j] - slot <= m] for m in WITHIN_MIN]
        expected = [
            len(places) / JOBS,
            len(behind) / JOBS,
            left / gpu_days,
            work[behind].sum() / gpu_days,
            late / JOBS,
            len(later) / count,
            *passes / JOBS,
            *(len(each) / JOBS for each in comes),
            *(work[each].sum() / gpu_days for each in comes),
        ]
        np.testing.assert_allclose(whole, expected, rtol=1e-5, atol=1e-7)
        seen += [len(places), left, late, passes[-1], len(comes[-1])]
    assert (seen > 0).all()
    assert states.slot[-1] > states.slot[0] + 60
