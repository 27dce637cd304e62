"""Clusters described in JSON: what is decided is what the environment does in that state."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.policies import View
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.serve import decisions
from jaxsched.systems import functions, registry
from tests.envs.das.tables import random_table

NOW = 1_764_193_600.25
RULES = ("fifo_loadbalance", "shortest")


@pytest.fixture(scope="module", params=RULES)
def decider(request):
    settings = ("env.num_servers=3", "env.window=4")
    wanted = decisions.Wanted(f"das/{request.param}", settings)
    return decisions.load([wanted])[request.param]


def owned_table():
    """Jobs of two groups and three users."""
    table = random_table(5, jobs=14, gap=12)
    who = np.arange(len(table))
    columns = {**table.columns, "group": who % 2, "user": who % 3}
    return JobTable(columns, table.name, schema=table.schema)


def machines(counts):
    return {str(m): int(counts[m]) for m in np.flatnonzero(counts)}


def described(table, state, finished):
    """What a front end would tell of a state."""
    running, time = state.running, int(state.time)
    started = [int(job) for job in running.job if job >= 0] + [job for job, _ in finished]
    jobs = [j for j in range(len(table)) if table["submit_time"][j] <= time and j not in started]

    def asks(job):
        names = ("gpus_per_instance", "cpus_per_instance", "mem_per_instance", "group", "user")
        return {"id": job, **{name: int(table[name][job]) for name in names}}

    return {
        "time": NOW + time,
        "running": [
            {
                **asks(int(running.job[row])),
                "machines": machines(running.alloc[:, row]),
            }
            for row in np.flatnonzero(running.job >= 0)
        ],
        "waiting": [
            {
                **asks(job),
                "submit_time": NOW + int(table["submit_time"][job]),
                "num_instances": int(table["num_instances"][job]),
            }
            for job in sorted(jobs, key=lambda job: -table["submit_time"][job])
        ],
        "finished": [
            {"group": int(table["group"][j]), "user": int(table["user"][j]), "run_time": run}
            for j, run in finished
        ],
    }


def test_decisions_are_those_of_the_environment(decider):
    env, table = decider.env, owned_table()
    params = env.params([table])
    step, observe = jax.jit(env.step), jax.jit(env.observe)
    act = jax.jit(partial(decider.policy.act, decider.weights))
    state, _ = jax.jit(env.reset)(jax.random.key(0), params, jnp.int32(0))
    start, finished, decided = {}, [], 0
    for _ in range(8):
        before = jax.tree.map(np.asarray, state)
        cluster = described(table, before, finished)
        view = View(*observe(state, params), state, params)
        action, _ = act((), view, jax.random.key(0))
        state, timestep = step(jax.random.key(0), state, action, params)
        told = jax.tree.map(np.asarray, timestep.metrics)
        (answer,) = decider.decide([cluster])
        real = told.window >= 0
        assert answer["window"] == told.window[real].tolist()
        expected = {
            int(job): machines(row)
            for job, row, placed in zip(told.window, told.counts, told.placed, strict=True)
            if placed
        }
        assert {one["job"]: one["machines"] for one in answer["start"]} == expected
        assert answer["does_not_fit"] == told.window[told.failed].tolist()
        start |= dict.fromkeys(expected, int(told.time))
        ended = [(int(j), int(f)) for j, f in zip(told.running, told.finish, strict=True) if f >= 0]
        finished += [(job, finish - start[job]) for job, finish in ended]
        decided += len(expected)
    assert decided >= 8 and finished


def test_what_is_not_known_is_estimated(decider):
    cluster = {**decider.reader.example, "assume": {"mem_per_instance": 40}}
    alone = {"time": 0, "running": [], "waiting": []}
    answer, nothing = decider.decide([cluster, alone])
    assert {one["job"] for one in answer["start"]} == {"a"}
    assert answer["does_not_fit"] == ["b"] and nothing["start"] == nothing["window"] == []
    assert answer["estimated"][1] == {
        "job": "b", "cpus_per_instance": 48, "mem_per_instance": 320, "duration": 1710
    }  # fmt: skip


def test_trained_policies_that_score_no_choices_are_served():
    (decider,) = decisions.load(["das/pretrained"]).values()
    (answer,) = decider.decide([decider.reader.example])
    assert [one["job"] for one in answer["start"]] == ["a", "b"] and "scores" not in answer
    assert sum(sum(one["machines"].values()) for one in answer["start"]) == 10


WAITING = {"id": "a", "submit_time": 0, "num_instances": 1, "gpus_per_instance": 1}
RUNNING = {"gpus_per_instance": 4, "machines": {"0": 1}}


@pytest.mark.parametrize(
    ("waiting", "running", "says"),
    [
        ({"gpus_per_instance": 9}, {}, r"waiting\[0\].gpus_per_instance is 9; .* from 1 to 8"),
        ({"num_instances": 0}, {}, r"waiting\[0\].num_instances is 0"),
        ({"cpus_per_instance": 1.5}, {}, r"waiting\[0\].cpus_per_instance is 1.5; .*, null"),
        ({"num_instances": 99}, {}, "99 instances of .* never fit 8 machines"),
        ({"submit_time": 9}, {}, r"waiting\[0\].submit_time is 9 at time 1"),
        ({}, {"machines": {"8": 1}}, r"running\[0\].machines has 8; accepted: .* from 0 to 7"),
        ({}, {"machines": {}}, r"running\[0\].machines has no machine"),
        ({}, {"machines": {"2": 3}}, "jobs on machine 2 hold 12 GPUs; accepted: at most 8"),
        ({}, {"machines": [1]}, r"running\[0\].machines is \[1\]; accepted: an object"),
    ],
)
def test_clusters_that_cannot_be_are_refused(waiting, running, says):
    system = registry.get("das")
    reader, env = functions.cluster_reader(system), functions.environment(system)
    cluster = {"time": 1, "running": [RUNNING | running], "waiting": [WAITING | waiting]}
    with pytest.raises(JaxschedError, match=says):
        reader.read(env, [cluster], 32)
    with pytest.raises(JaxschedError, match="finished is .*; accepted: a list of objects"):
        reader.read(env, [reader.example | {"finished": [3]}], 32)
