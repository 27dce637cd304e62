"""SCHED2: redrawn tables are tables, and look-ahead with the whole future is never worse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.look_ahead import look_ahead
from jaxsched.core.monte_carlo import LookAhead, Weights, look_ahead_params
from jaxsched.envs.sched2.rules import build_tables, resampled
from jaxsched.jobs import JobTable
from jaxsched.systems import functions, registry
from tests.instances import sched2_tables

SYSTEM = registry.get("sched2")
ENV = SYSTEM.training.planning(
    functions.environment(SYSTEM, num_servers=2, gpus_per_server=4, window=3)
)  # ``planning_environment`` rewards waiting as it happens
ROUNDING = 1e-5  # of effectiveness, from float32 returns


@pytest.fixture(scope="module")
def params():
    tables = [table for seed in range(8) for table in sched2_tables(seed)]
    return ENV.params(tables)


def test_a_redrawn_table_is_what_the_host_would_build():
    table = sched2_tables(3)[0]
    jobs = build_tables([sched2_tables(2)[0], table], 2, 4, length=9)
    draw = jax.jit(resampled)
    for arrived in (1, 4, 7):
        time = jnp.int32(table["submit_time"][arrived - 1])
        drawn = draw(jax.random.key(arrived), jobs, jnp.int32(1), jnp.int32(arrived), time)
        columns = {
            name: np.asarray(getattr(drawn, name)[0, :7])
            for name in ("submit_time", "num_gpus", "model")
        }
        columns["duration"] = np.asarray(drawn.run_time[0, :7, 0])
        built = build_tables([JobTable(columns)], 2, 4, length=9)
        assert all(map(np.array_equal, drawn, built))


def test_times_stay_below_never_however_rare_the_arrivals():
    columns = {
        "submit_time": [0, 2**29, 2**30 - 5],
        "num_gpus": [1, 1, 1],
        "duration": [5, 5, 5],
        "model": [0, 0, 0],
    }
    jobs = build_tables([JobTable(columns)], 2, 4)
    draw = jax.jit(jax.vmap(resampled, (0, None, None, None, None)))
    keys, one = jax.random.split(jax.random.key(0), 16), jnp.int32(1)
    drawn = draw(keys, jobs, jnp.int32(0), one, one)
    times = np.asarray(drawn.submit_time)[:, 0, :3]
    assert np.all(np.diff(times) >= 0) and times.max() == 2**30 - 2


@pytest.mark.parametrize("name", [pytest.param("fifo", marks=pytest.mark.slow), "strict_sif"])
def test_clairvoyant_look_ahead_to_the_end_is_never_worse_than_its_base(name, params):
    base = functions.heuristic(SYSTEM, name, ENV, ENV.max_jobs(params), {}).policy
    policy = look_ahead(ENV, base, LookAhead(futures=0), "clairvoyant")
    given = Weights((), look_ahead_params(margin=0.0))
    plain = functions.play(SYSTEM, ENV, base, params).metrics["avg_effectiveness"]
    better = functions.play(SYSTEM, ENV, policy, params, given).metrics["avg_effectiveness"]
    assert np.all(better >= plain - ROUNDING)
    assert np.sum(better > plain + 0.01) >= 3
