"""What cases of DAS may hold, and the episodes that are cut from long tables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.das import DAS
from jaxsched.envs.das import show as cases
from jaxsched.envs.das.heuristics import baseline
from jaxsched.envs.das.jobs import das_stream
from jaxsched.envs.das.show import log
from jaxsched.errors import JaxschedError
from jaxsched.systems import golden, registry


def simulate(case):
    return golden.simulate(registry.get("das"), case)


def test_hash_values():
    """Against the formula in plain integers."""
    for a, b, c in [(0, 0, 0), (1000003, 31, 8), (2**31 + 5, 7, 1)]:
        mixed = (a * 73856093 % 2**32) ^ (b * 19349663 % 2**32) ^ (c * 83492791 % 2**32)
        assert cases.hash_values(a, b, c) == (mixed >> 8) % 1000


JOB = {
    "submit_time": 0, "num_instances": 1, "gpus_per_instance": 1, "cpus_per_instance": 0,
    "mem_per_instance": 0, "duration": 5,
}  # fmt: skip
SHIPPED = "workload_20000.csv.gz"
TABLE = {"kind": "table_results", "segment_starts": [0], "segment_length": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": {"speed": 2}}, "unknown key 'speed'"),
        ({"config": {"num_servers": 0}}, "num_servers is 0; accepted: a whole number from 1"),
        ({"config": {"on_no_fit": "wait"}}, "on_no_fit is 'wait'; accepted: skip, block"),
        ({"config": {"mem_per_server": 16384, "cpus_per_server": 4096}}, "accepted: at most 32"),
        ({"config": {"net_pct": 100, "gpus_per_server": 64}}, "contention reaches"),
        ({"config": {"price": -1}}, "price is -1; accepted: a number from 0 on"),
        ({"config": {"fee_ref": 0}}, "fee_ref is 0; accepted: a number above 0"),
        ({"jobs": []}, "no jobs"),
        ({"jobs": [{**JOB, "submit_time": 5}, JOB]}, "job 1: submit_time is 0"),
        ({"jobs": [JOB, {**JOB, "duration": 0}]}, "job 1: duration is 0"),
        ({"jobs": [JOB, {**JOB, "duration": 2**24}]}, "job 1: duration is 16777216"),
        ({"jobs": [JOB, {**JOB, "gpus_per_instance": 9}]}, "job 1: 1 instances of (9, 0, 0)"),
        ({"jobs": [{**JOB, "duration": 2**24 - 1}] * 99}, "episode 0 could last until"),
        ({"policy": "sjf"}, "unknown policy 'sjf'; known are"),
        ({"policy": "lazy"}, "accepted: lazy=True"),
        ({"policy": None}, "one of both"),
        ({"policy": None, "actions": 3}, "'actions' must be a list"),
        ({"policy": None, "actions": {"hash_salt": -1}}, "hash_salt is -1"),
        ({"policy": None, "actions": [{"priority": [1], "affinity": [[1]]}]}, "actions[0]"),
        ({"kind": "dream"}, "kind is 'dream'; accepted: episode"),
        ({"kind": "surrogate", "steps": -1}, "steps is -1"),
        ({**TABLE}, "table is None; accepted: workload_20000.csv, or the whole path"),
        ({**TABLE, "table": "mine.csv"}, "table is 'mine.csv'; accepted"),
        ({**TABLE, "table": "/no/such.csv"}, "/no/such.csv"),
        ({**TABLE, "table": SHIPPED, "segment_length": "1"}, "segment_length is '1'"),
        ({**TABLE, "table": SHIPPED, "expect": {"tiny/tetris": {}}}, "unknown key 'tiny/tetris'"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_cases(change, message):
    case = {"system": "das", "jobs": [JOB], "policy": "fifo_firstfit"} | change
    case = {key: value for key, value in case.items() if value is not None}
    with pytest.raises(JaxschedError) as refusal:
        simulate(case)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_cases_of_similar_sizes_share_programs(monkeypatch):
    """And play as without the room behind their jobs."""
    traced, step = [], DAS.step
    monkeypatch.setattr(DAS, "step", lambda *given: traced.append(given) or step(*given))
    config = {"num_servers": 2, "window": 3}
    runs = [{**JOB, "submit_time": 3 * k, "duration": 20 + 7 * k} for k in range(9)]
    programs = []
    for count in (1, 5, 9):
        case = {"config": config, "jobs": runs[:count], "policy": "fifo_firstfit"}
        result = simulate(case)
        assert [job["start"] for job in result["jobs"]] == [3 * k for k in range(count)]
        assert [job["finish"] for job in result["jobs"]] == [20 + 10 * k for k in range(count)]
        assert result["metrics"]["finished"] == result["metrics"]["steps"] == count
        programs.append(len(traced))
    assert programs[0] > 0 and programs == programs[:1] * 3


def test_episodes_are_cut_and_shifted():
    """Cut episodes play as the tables of their rows do."""
    env, starts = DAS(num_servers=8, window=8), [0, 17, 30]
    table = das_stream().take(slice(100, 190))
    cut = env.params([table], starts=starts, episode_jobs=30)
    whole = env.params([table.take(slice(start, start + 30)) for start in starts])
    assert (env.num_episodes(cut), env.max_jobs(cut)) == (3, 30)
    policy = baseline("tetris", env)
    found, expected = (log.play(env, policy, params) for params in (cut, whole))
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert len(np.unique(found["makespan"])) == 3


def test_episodes_that_a_table_does_not_have_are_refused():
    env, table = DAS(num_servers=8, window=8), das_stream().take(slice(100, 160))
    for options, message in (
        ({"starts": [0]}, "go together"),
        (
            {"starts": [31], "episode_jobs": 30},
            "episode 0 starts at row 31; accepted: from 0 to 30",
        ),
        ({"starts": [0], "episode_jobs": 61}, "episode_jobs is 61"),
        ({"starts": [0.5], "episode_jobs": 3}, "whole numbers"),
    ):
        with pytest.raises(JaxschedError, match=message):
            env.params([table], **options)


def test_lazy_is_free_of_contention():
    """One job at a time: the least fee, at full speed."""
    table = das_stream().take(slice(300, 330))
    env, lazy = DAS(window=8), DAS(window=8, lazy=True)
    eager = cases.play_heuristic(env, "eager", env.params([table]))
    found = cases.play_heuristic(lazy, "lazy", lazy.params([table]))
    assert found["avg_inflation"] == 1.0
    assert found["finished"] == eager["finished"] == found["steps"] == 30
    assert found["avg_fee"] < eager["avg_fee"]
    assert found["avg_jct"] > eager["avg_jct"]


def test_a_drawn_episode_is_any_of_them():
    env = DAS(window=4)
    params = env.params([das_stream().take(slice(0, 9))], starts=[0, 2, 6], episode_jobs=3)
    drawn = jax.jit(jax.vmap(lambda key: env.reset(key, params)[0].episode))(
        jax.random.split(jax.random.key(0), 64)
    )
    assert set(np.asarray(drawn).tolist()) == {0, 1, 2}
    assert jnp.all(drawn == drawn.astype(int))
