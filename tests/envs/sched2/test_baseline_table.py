"""The reference table of SCHED2 (specification, section 12): baselines on the 30 test traces."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.core.evaluation import run_episodes
from jaxsched.envs.sched2.heuristics import any_baseline, numbered
from jaxsched.systems import functions, registry

pytestmark = pytest.mark.optimised  # loops of thousands of steps

SYSTEM = registry.get("sched2")
WHOLE_QUEUE = 1000  # the traces' length
RULES = ("fifo", "sif", "dsif", "saf", "lrf", "spf")
COLUMNS = {  # metric -> unit of the last printed digit
    "avg_effectiveness": 1e-4,
    "avg_jct": 0.1,
    "makespan": 0.1,
    "avg_wait": 0.1,
    "avg_run": 0.1,
    "utilization": 1e-4,
    "fragmentation": 1e-4,
    "relaxed_sensitive": 1e-3,
    "relaxed_insensitive": 1e-3,
    "reuse_fraction": 1e-3,
}
TABLE = {
    "fifo": (0.5031, 30251.1, 366473.4, 22843.1, 7407.9, 0.7405, 0.2975, 0.509, 0.503, 0.326),
    "sif": (0.5042, 31620.1, 410212.5, 23754.0, 7866.1, 0.7437, 0.3314, 0.541, 0.540, 0.249),
    "dsif": (0.5935, 24917.3, 368545.2, 17816.4, 7101.0, 0.7174, 0.3017, 0.382, 0.381, 0.348),
    "saf": (0.5154, 29732.1, 398534.2, 22001.7, 7730.4, 0.7507, 0.3320, 0.520, 0.543, 0.248),
    "lrf": (0.4552, 42900.1, 392111.8, 35155.1, 7745.0, 0.7743, 0.3278, 0.550, 0.544, 0.213),
    "spf": (0.4936, 33136.0, 401507.7, 25342.3, 7793.6, 0.7544, 0.3354, 0.539, 0.548, 0.227),
    "strict": (0.9497, 5663.5, 197232.1, 374.1, 5289.4, 0.6324, 0.1972, 0, 0, 0.709),
}


@cache
def env_and_params(window):
    env = functions.environment(SYSTEM, window=window)
    return env, env.params(traces.get("sched2-test-68"))


@cache
def means(name, mode, window):
    """Means over the test traces, and over the traces the curve of fragmentation."""
    env, params = env_and_params(window)
    episodes = jnp.arange(env.num_episodes(params))
    outcome = run_episodes(
        env,
        any_baseline(),
        SYSTEM.log.recorder(env),
        params,
        episodes,
        jax.random.key(0),
        jnp.int32(numbered(name, mode)),
    )
    assert outcome.finished.all()
    records = jax.tree.map(np.asarray, outcome.records)
    metrics = SYSTEM.log.metrics(env, params, np.asarray(episodes), records)
    return {metric: values.mean() for metric, values in metrics.items()}, SYSTEM.log.curves(records)


@pytest.mark.parametrize("name", TABLE)
def test_row(name):
    got, _ = means(name, "skip", 10)
    assert got["finished"] == 1000
    for (metric, digit), printed in zip(COLUMNS.items(), TABLE[name], strict=True):
        assert got[metric] == pytest.approx(printed, rel=0, abs=0.51 * digit), metric


def test_the_shortest_at_level_0():
    """As measured independently: a two-line rule that trained policies have to beat."""
    got, _ = means("strict_sif", "skip", 10)
    assert got["avg_effectiveness"] == pytest.approx(0.9677, abs=0.51e-4)
    assert got["avg_jct"] == pytest.approx(5551, abs=0.51)
    assert got["makespan"] == pytest.approx(197_818, abs=0.51)


@pytest.mark.parametrize("name", ["fifo", "sif", "lrf"])
def test_fragmentation_rises(name):
    """Fig. 4: the last 300 starts are at least twice as fragmented as the first 100."""
    curve = means(name, "skip", 10)[1]["fragmentation"]
    assert curve[-300:].mean() >= 2 * curve[:100].mean()


def best(mode, window, names=RULES):
    """Best effectiveness and best JCT, each over all baselines."""
    rows = [means(name, mode, window)[0] for name in names]
    return max(r["avg_effectiveness"] for r in rows), min(r["avg_jct"] for r in rows)


def test_best_in_blocking_mode():
    """The other two rules have no blocking mode of their own."""
    got = best("block", 10, ["fifo", "sif", "dsif", "spf"])
    assert got == (pytest.approx(0.619, abs=6e-4), pytest.approx(20515, abs=0.6))


@pytest.mark.slow  # the oracle has the whole queue in view
def test_best_with_the_whole_queue_in_view():
    """Delaying is best here; the other rules are in the slow test."""
    effectiveness, jct = best("skip", WHOLE_QUEUE, ["dsif"])
    assert effectiveness == pytest.approx(0.838, abs=6e-4)
    assert jct == pytest.approx(11504, abs=0.6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "effectiveness", "jct"), [("skip", 0.838, 11504), ("block", 0.814, 10712)]
)
def test_best_of_all_with_the_whole_queue_in_view(mode, effectiveness, jct):
    expected = pytest.approx(effectiveness, abs=6e-4), pytest.approx(jct, abs=0.6)
    assert best(mode, WHOLE_QUEUE) == expected
