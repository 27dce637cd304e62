"""Clusters described in JSON: what is decided is what the environment does in that slot."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.jobs import MAX_TASKS, SIZES, task_table
from jaxsched.envs.mlfs.rules.state import DONE, RUNNING, WAITING, number_of, wave
from jaxsched.envs.mlfs.rules.tables import jobs_at
from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import list_lengths
from jaxsched.serve import decisions
from jaxsched.systems import functions, registry

NOW = 1_764_193_600.0
GPUS = (2, 1, 2)
SETTINGS = ("env.gpus=[2, 1, 2]", "env.max_active=8", "env.cpus_per_server=8")
COLUMNS = ("cpus", "mem", "vol_worker", "vol_ps", "urgency", "curve_a", "req_iter")


def decider(rule, *settings):
    wanted = decisions.Wanted(f"mlfs/{rule}", (*SETTINGS, *settings))
    return decisions.load([wanted])[rule]


def crowded_table():
    """Twelve short jobs of all sizes within some minutes."""
    return task_table(3, 0, num_jobs=12, span_s=300.0, sizes=SIZES[:4])


def described(table, params, state):
    """What a front end would say of a slot that begins."""
    slot, active = int(state.slot), state.active
    rows = {int(task): row for row, task in enumerate(state.running.task) if task >= 0}
    places = {int(job): place for place, job in enumerate(active.job) if job >= 0}
    jobs = []
    for job in [*sorted(places), *range(int(state.admitted), int(state.submitted))]:
        found = {name: int(table[name][job]) for name in COLUMNS}
        for name in ("work", "size"):
            found[name] = table[name][job, : list_lengths(table[name])[job]].tolist()
        submit = int(table["submit_time"][job])
        jobs.append(
            found
            | {
                "id": job,
                "submit_time": NOW + submit,
                "num_gpus": int(table["num_gpus"][job]),
                "iterations": int(table["iterations"][job]),
                "model": int(table["model"][job]),
                "gpu_demand": int(table["gpu_demand"][job]) / 1000,
                "deadline_s": int(table["deadline"][job]) - submit,
                "option": int(table["option"][job]),
                "allow": int(table["allow"][job]),
            }
        )
        if job in places:
            place = places[job]
            home = int(active.home[place])
            jobs[-1] |= {
                "iterations_done": int(active.iterations[place]),
                "ends_after": int(active.limit[place]),
                "home": None if home < 0 else home,
                "attained_min": int(active.attained[place]),
                "tasks": tasks_of(params, state, place, rows, slot),
            }
    return {"time": NOW + 60 * slot, "busy": bool(state.busy), "jobs": jobs}


def tasks_of(params, state, place, rows, slot):
    job = int(state.active.job[place])
    row = jax.tree.map(np.asarray, jobs_at(params, jnp.int32(0), jnp.int32(job)))
    found = []
    for inside in range(MAX_TASKS):
        phase, server = (
            int(state.tasks.state[place, inside]),
            int(state.tasks.server[place, inside]),
        )
        number = int(number_of(row, jnp.int32(inside)))
        ran = {} if server < 0 else {"server": server}
        if phase == RUNNING:
            at = rows[place * MAX_TASKS + inside]
            found.append(
                {
                    "task": number,
                    "state": "running",
                    "server": int(state.running.server[at]),
                    "gpu": int(state.running.gpu[at]),
                    "left_min": int(state.running.left[at]) / 1000,
                    "demand": int(wave(slot, job, number)) / 1000,
                }
            )
        elif phase == DONE:
            found.append({"task": number, "state": "done", **ran})
        elif phase == WAITING:
            since, left = state.tasks.since[place, inside], state.tasks.left[place, inside]
            when = {"since": NOW + 60 * int(since), "left_min": int(left) / 1000}
            found.append({"task": number, "state": "waiting", **ran, **when})
    return found


def placements(params, state):
    """Where each task runs: (job, number) -> (server, GPU)."""
    found = {}
    for row in np.flatnonzero(state.running.task >= 0):
        place, inside = divmod(int(state.running.task[row]), MAX_TASKS)
        job = int(state.active.job[place])
        of = jobs_at(params, jnp.int32(0), jnp.int32(job))
        number = int(number_of(of, jnp.int32(inside)))
        found[job, number] = int(state.running.server[row]), int(state.running.gpu[row])
    return found


def played(answer, before):
    """Where each task runs once an answer is carried out."""
    after = dict(before)
    for task in answer["stop"]:
        del after[task["job"], task["task"]]
    for task in [*answer["start"], *answer["move"]]:
        after[task["job"], task["task"]] = task["server"], task["gpu"]
    return after


@pytest.mark.parametrize("rule", ["mlf_h", "tiresias"])
def test_decisions_are_those_of_the_environment(rule):
    serving = decider(rule)
    order = {} if rule == "mlf_h" else {"order": rule}
    table = crowded_table()
    env = MLFS(gpus=GPUS, max_active=8, cpus_per_server=8, decide="rule", **order)
    params = env.params([table])
    step, placed = jax.jit(env.step), jax.jit(env.placed)
    state, _ = jax.jit(env.reset)(jax.random.key(0), params, jnp.int32(0))
    kinds = {"start": 0, "move": 0, "stop": 0}
    for _ in range(40):
        here = jax.tree.map(np.asarray, state)
        before = placements(params, here)
        wanted = placements(params, jax.tree.map(np.asarray, placed(state, 0, params)))
        (answer,) = serving.decide([described(table, params, here)])
        assert played(answer, before) == wanted
        kinds = {name: count + len(answer[name]) for name, count in kinds.items()}
        state, _ = step(jax.random.key(0), state, jnp.int32(0), params)
    assert kinds["start"] > 40
    assert rule != "mlf_h" or (here.finished > 0 and kinds["move"] + kinds["stop"] > 0)


def test_what_is_not_known_is_estimated():
    serving = decider("mlf_h")
    job = {"submit_time": 0, "num_gpus": 2, "iterations": 10}
    cluster = {"time": 60, "jobs": [job, {**job, "model": "svm", "work": 2.5}]}
    answer, again = serving.decide([cluster, {**cluster, "assume": {"cpus": 6}}])
    assert {(t["job"], t["task"]) for t in answer["start"]} == {(0, 0), (1, 0), (1, 1)}
    assert answer["window"] == [0, 1] and answer["move"] == answer["stop"] == []
    first, second = answer["estimated"]
    assert first["model"] == "MLP" and first["work"] == 5.0 and "work" not in second
    assert first["curve_a"] == 3400 and first["req_iter"] == 10
    assert sorted(task["server"] for task in again["start"]) == [0, 1, 2]
    assert again["estimated"][1]["cpus"] == 6


def test_policies_of_whole_slots_are_served():
    (serving,) = decisions.load(["mlfs/pretrained"]).values()
    (answer,) = serving.decide([serving.reader.example])
    assert {(t["job"], t["task"]) for t in answer["start"]} == {("b", k) for k in range(4)}
    assert answer["move"] == answer["stop"] == [] and "scores" not in answer


JOB = {"submit_time": 0, "num_gpus": 2, "iterations": 10}
RUNS = {"task": 0, "state": "running", "server": 0, "gpu": 0, "left_min": 1}


@pytest.mark.parametrize(
    ("job", "task", "says"),
    [
        ({"num_gpus": 3}, {}, r"jobs\[0\].num_gpus is 3; accepted: 1, 2, 4, 8, 16, 32"),
        ({"iterations": 0}, {}, r"jobs\[0\].iterations is 0; accepted: .* from 1 to"),
        ({"iterations_done": 10}, {}, r"jobs\[0\].iterations_done is 10; .* from 0 to 9"),
        ({"work": -1}, {}, r"jobs\[0\].work is -1; accepted: minutes above 0"),
        ({"work": [5]}, {}, "work is .*; accepted: 2 numbers above 0"),
        ({"gpu_demand": 2}, {}, r"jobs\[0\].gpu_demand is 2; accepted: from 0.001 to 1"),
        ({"cpus": 99}, {}, "cpus is 99 of 32 CPUs"),
        ({"home": 9}, {}, r"jobs\[0\].home is 9; accepted: .* from 0 to 4"),
        ({"submit_time": 99}, {}, r"submit_time is 99 at time 60"),
        ({"tasks": 3}, {}, r"jobs\[0\].tasks is 3; accepted: a list"),
        ({}, {"task": 2}, r"jobs\[0\].tasks\[0\].task is 2; .* from 0 to 1"),
        ({}, {"state": "ill"}, r"tasks\[0\].state is 'ill'; accepted: running, done, waiting"),
        ({}, {"server": 5}, r"tasks\[0\].server is 5; .* from 0 to 4"),
        ({}, {"gpu": 4}, r"tasks\[0\].gpu is 4; .* from 0 to 3"),
        ({}, {"left_min": -1}, r"tasks\[0\].left_min is -1; accepted: minutes"),
        ({}, {"demand": "high"}, r"tasks\[0\].demand is 'high'"),
        (
            {},
            {"state": "waiting", "since": -1e12},
            r"tasks\[0\].since is -1.*; accepted: up to .* s",
        ),
        ({"id": float("inf")}, {}, r"jobs\[0\].id is inf; accepted: text or a finite number"),
        ({"id": "\ud800"}, {}, r"jobs\[0\].id is '.*ud800'; accepted: text"),
    ],
)
def test_clusters_that_cannot_be_are_refused(job, task, says):
    system = registry.get("mlfs")
    reader = functions.cluster_reader(system)
    env = reader.environment(functions.environment(system))
    described = {"time": 60, "jobs": [{**JOB, "tasks": [RUNS | task], **job}]}
    with pytest.raises(JaxschedError, match=says):
        reader.read(env, [described], 32)


def test_demand_of_any_size_and_more_tasks_than_fit_are_read():
    """A task uses 0.8 to 1.2 of its demand, whatever is told; no task that runs is left out."""
    system = registry.get("mlfs")
    reader = functions.cluster_reader(system)
    env = reader.environment(functions.environment(system))
    tasks = [RUNS | {"task": 0, "demand": 1e308}, RUNS | {"task": 1, "demand": -1e308}]
    _, told = reader.read(env, [{"time": 60, "jobs": [{**JOB, "tasks": tasks}]}], 32)
    assert np.asarray(told.measured)[0, 0, :2].tolist() == [1200, 800]
    wide = {**JOB, "num_gpus": 32, "tasks": [RUNS | {"task": task} for task in range(32)]}
    few, _ = reader.read(env, [{"time": 60, "jobs": [wide]}], 32)
    many, _ = reader.read(env, [{"time": 60, "jobs": [wide] * 5}], 32)
    assert few.max_running < 160 <= many.max_running


def test_lists_that_cannot_be_are_refused():
    system = registry.get("mlfs")
    reader = functions.cluster_reader(system)
    env = reader.environment(functions.environment(system, max_active=1))
    for cluster, says in (
        ({"time": 0, "jobs": []}, "jobs is empty"),
        ({"time": 60, "busy": 1, "jobs": [JOB]}, "busy is 1; accepted: true or false"),
        ({"time": 60, "jobs": [{**JOB, "tasks": [RUNS, RUNS]}]}, "task is 0, as of a task before"),
        ({"time": 60, "jobs": [JOB, {**JOB, "tasks": [RUNS]}]}, "number 2 in order of submission"),
    ):
        with pytest.raises(JaxschedError, match=says):
            reader.read(env, [cluster], 32)
