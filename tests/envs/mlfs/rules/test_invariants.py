"""What holds of MLFS' state after every step, recomputed from its tasks alone.

Axes of what is recorded: ``E`` episodes, ``T`` steps.
"""

from collections import Counter
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.peers.simulators.mlfs import Job
from jaxsched.envs.mlfs import MLFS
from jaxsched.envs.mlfs.rules import offers as placing
from jaxsched.envs.mlfs.rules.state import (
    ABSENT,
    DONE,
    MIGRANT,
    NONE,
    NOT_READY,
    OFFERED,
    RUNNING,
    WAITING,
    number_of,
)
from jaxsched.envs.mlfs.rules.tables import jobs_at, unpack
from jaxsched.envs.mlfs.show import log as rec
from tests.envs.mlfs.rules.test_env_oracle import (
    QUICK,
    TIGHT,
    config_of,
    random_tables,
    starts_of,
    to_params,
)

K = 32
NUM_TABLES = 4
CHUNK = 256
SETTINGS: dict[str, dict[str, Any]] = {
    "mlf": {
        **TIGHT,
        "max_active": 2,
        "bandwidth_per_server": 8000,
        "migrant_share": 60,
        "gpus": (1, 4, 2),
    },
    "gandiva": {**TIGHT, "cpus_per_server": 16, "mem_per_server": 64, "order": "gandiva"},
    "tiny": {
        **TIGHT,
        "max_active": 9,
        "max_offers": 64,
        "bandwidth_per_server": 60_000,
        "use_mlfc": True,
    },
}


class Play(NamedTuple):
    """Random legal play, one slot a step at most; leaves ``[E, T, ...]``."""

    before: Any  # state
    answered: Any  # state after the answer, before the slot ends if it does
    after: Any  # state
    mask: Any  # before
    action: Any
    reward: Any
    metrics: Any
    terminated: Any
    truncated: Any


@partial(jax.jit, static_argnames="env", compiler_options=QUICK)
def go_on(env, params, carry, ranks):
    def one(carry, ranks):
        def step(carry, rank):
            state, _, mask, records = carry
            action = jnp.argmax(jnp.cumsum(mask) > rank % jnp.sum(mask))
            answered = placing.answer(env.rules, params, state, action)
            after, timestep = env.step(jax.random.key(0), state, action, params)
            records = rec.recorder(env).update(records, timestep, jnp.bool_(True))
            row = Play(
                state,
                answered,
                after,
                mask,
                action,
                timestep.reward,
                timestep.metrics,
                timestep.terminated,
                timestep.truncated,
            )
            return (after, timestep.observation, timestep.action_mask, records), row

        return jax.lax.scan(step, carry, ranks)

    return jax.vmap(one)(carry, ranks)


def tables_of(name, env):
    """Many jobs for the window; those of ``tiny`` are large and their tasks share GPUs."""
    if name != "tiny":
        return random_tables(name, env, NUM_TABLES)
    tables = random_tables(name, env, NUM_TABLES, (16, 32), iterations=2)
    for row in (row for rows in tables for row in rows):
        row |= {"submit_time": 0, "gpu_demand": 1 + row["gpu_demand"] // 60, "cpus": 0, "mem": 0}
    return tables


@cache
def setting(name):
    env = MLFS(**SETTINGS[name], slot_every=1)
    tables = tables_of(name, env)
    return env, tables, to_params(env, tables)


@cache
def play(name):
    env, tables, params = setting(name)
    carry, parts, rng = starts_of(env, params), [], np.random.default_rng(len(name))
    while not parts or not (parts[-1].terminated | parts[-1].truncated)[:, -9].all():
        ranks = jnp.asarray(rng.integers(0, 2**20, (NUM_TABLES, CHUNK)), jnp.int32)
        carry, part = go_on(env, params, carry, ranks)
        parts.append(jax.tree.map(np.asarray, part))
        assert len(parts) < 40
    records = jax.tree.map(np.asarray, carry[-1])
    rows = jax.tree.map(lambda *x: np.concatenate(x, axis=1)[:, 1:], *parts)
    return env, tables, params, rows, records


class View:
    """One state, with the jobs of its window."""

    def __init__(self, env, params, graphs, state):
        self.env, self.state, self.graphs = env, state, graphs
        self.phase = state.tasks.state & ~OFFERED
        self.jobs = np.flatnonzero(state.active.job != NONE)
        self.rows = np.flatnonzero(state.running.task != NONE)

    def job(self, place):
        return self.graphs[self.state.active.job[place]]

    def wave(self, place, task):
        job = self.state.active.job[place]
        phase = (self.state.slot + 3 * job + 5 * NUMBERS[self.job(place).kind][task]) % 8
        return (800, 900, 1000, 1100, 1200, 1100, 1000, 900)[phase]

    def demand(self, place, pm):
        row = self.job(place).row
        return row["gpu_demand"] * pm // 1000, row["cpus"] * pm, row["mem"]

    def loads(self, pm_of):
        """Of the running rows at ``pm_of(place, task)`` of their nominal demand."""
        env = self.env
        gpu = np.zeros((env.num_servers, max(env.gpus)), int)
        of_server = np.zeros((3, env.num_servers), int)
        running = self.state.running
        for row in self.rows:
            place, task = divmod(int(running.task[row]), K)
            load, cpu, mem = self.demand(place, pm_of(place, task))
            gpu[running.server[row], running.gpu[row]] += load
            of_server[:, running.server[row]] += cpu, mem, running.bandwidth[row]
        return gpu, *of_server


NUMBERS: dict[tuple[int, int], list[int]] = {}


def graphs_of(env, tables):
    """The jobs of each table, with the numbers of the tasks at their places."""
    found = []
    for rows in tables:
        graphs = [Job(row, index, config_of(env)) for index, row in enumerate(rows)]
        for job in graphs:
            job.kind = job.row["model"], job.row["num_gpus"]
            job.svm = job.row["model"] == 4
            places = [(k if job.svm else 16 * (k // job.partitions) + k % job.partitions)
                      for k in range(job.row["num_gpus"])]  # fmt: skip
            job.places = places
            NUMBERS[job.kind] = [places.index(at) if at in places else -1 for at in range(K)]
        found.append(graphs)
    return found


def steps_of(name):
    """For each episode: its number, its graphs, and its steps up to two beyond the end."""
    env, tables, params, rows, _ = play(name)
    for episode, graphs in enumerate(graphs_of(env, tables)):
        done = rows.terminated[episode] | rows.truncated[episode]
        last = int(np.argmax(done)) + 3
        steps = [jax.tree.map(lambda x, e=episode, t=t: x[e][t], rows) for t in range(last)]
        yield episode, graphs, steps


def overloaded(env, loads):
    gpu, cpu, mem, bandwidth = loads
    used = np.stack(
        [
            gpu.sum(axis=1) // np.array(env.gpus),
            cpu // env.cpus_per_server,
            1000 * mem // env.mem_per_server,
            1000 * bandwidth // env.bandwidth_per_server,
        ]
    )
    return used, (used.max(axis=0) > env.overload_threshold) | (
        gpu.max(axis=1) > env.overload_threshold
    )


def fitting(env, loads, demand):
    """Servers that can take a demand."""
    gpu, cpu, mem, _ = loads
    there = np.arange(gpu.shape[1]) < np.array(env.gpus)[:, None]
    least = np.where(there, gpu, 10**9).min(axis=1)
    if env.order != "mlf":
        fits = (least + demand[0] <= 1000) & (cpu + demand[1] <= 1000 * env.cpus_per_server)
        return fits & (mem + demand[2] <= env.mem_per_server)
    return (
        ~overloaded(env, loads)[1]
        & (least + demand[0] <= env.overload_threshold)
        & ((cpu + demand[1]) // env.cpus_per_server <= env.overload_threshold)
        & (1000 * (mem + demand[2]) // env.mem_per_server <= env.overload_threshold)
    )


SLOW = ("mlf", "gandiva")
"""``tiny`` has the order of the first; the oracle's tests play gandiva exactly."""

every_setting = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in SETTINGS],
)


@every_setting
def test_state(name):
    """Counts, rows, loads, room and best of every state, from the tasks."""
    env, _, params, _, _ = play(name)
    most = 0
    for _, graphs, steps in steps_of(name):
        nominal: set = set()  # tasks placed in this slot that were waiting
        for step in steps[:-2]:
            begins = not nominal and step.before.offers.made == 0
            view = View(env, params, graphs, step.before)
            if begins:
                check_counts(view, params)
                check_loads(view, nominal)
            place, task = int(step.before.offers.place), int(step.before.offers.task)
            answered = View(env, params, graphs, step.answered)
            if place != NONE and answered.phase[place, task] == RUNNING:
                nominal |= {(place, task)} if view.phase[place, task] == WAITING else set()
            check_counts(answered, params)
            check_loads(answered, nominal)
            check_offers(answered)
            most = max(most, len(answered.rows))
            if step.after.slot != step.before.slot:
                nominal = set()
    assert most > (50 if name == "tiny" else 5)


def check_counts(view, params):
    """Of waiting tasks and migrants; one row for each running task."""
    state, phase = view.state, view.phase
    assert state.waiting == (phase == WAITING).sum()
    assert state.migrants == (phase == MIGRANT).sum()
    assert (phase[state.active.job == NONE] == ABSENT).all()
    for place in view.jobs:
        there = phase[place] != ABSENT
        assert np.flatnonzero(there).tolist() == sorted(view.job(place).places)
    rows = state.running.task[view.rows]
    assert len(rows) <= params.max_running
    assert sorted(rows.tolist()) == np.flatnonzero(phase.reshape(-1) == RUNNING).tolist()
    servers = state.running.server[view.rows]
    assert (servers == state.tasks.server.reshape(-1)[rows]).all()
    assert (state.running.gpu[view.rows] < np.array(view.env.gpus)[servers]).all()
    assert (state.running.left[view.rows] > 0).all()
    assert (state.offers.made <= view.env.max_offers) and state.admitted <= state.submitted
    assert len(view.jobs) == state.admitted - state.finished
    for place in view.jobs:
        check_graph(view, place)


def check_graph(view, place):
    """A task waits or runs only after all its parents; ``left`` is of started tasks only."""
    job, phase = view.job(place), view.phase[place]
    for task in job.tasks:
        parents = all(phase[job.places[x.index]] == DONE for x in task.parents)
        assert (phase[job.places[task.index]] == NOT_READY) == (not parents)
        if phase[job.places[task.index]] in (NOT_READY, DONE):
            assert view.state.tasks.left[place, job.places[task.index]] == 0
    assert not (phase[job.places] == DONE).all()


def check_loads(view, nominal):
    """What decisions go by, and what is measured."""
    measured = view.loads(view.wave)
    assert (view.state.measured[0] == measured[0]).all()
    assert (view.state.measured[1] == measured[1]).all()
    if view.env.order == "mlf":
        loads = view.loads(lambda *at: 1000 if at in nominal else view.wave(*at))
    else:
        loads = view.loads(lambda *at: 1000)
    for got, expect in zip(view.state.loads, loads, strict=True):
        assert (got == expect).all()


def check_offers(view):
    """``room`` and ``best`` of each job and class, and that an offer is the first."""
    env, state = view.env, view.state
    classes = env.rules.classes
    open_tasks = state.tasks.state
    queue = []
    for place in view.jobs:
        best = dict.fromkeys(classes, -(2**31))
        room = {pm: fitting(env, state.loads, view.demand(place, pm)) for pm in classes}
        for task in view.job(place).places:
            if open_tasks[place, task] not in (WAITING, MIGRANT):
                continue
            pm = view.wave(place, task) if open_tasks[place, task] == MIGRANT else 1000
            priority = int(state.tasks.priority[place, task])
            best[pm] = max(best[pm], priority)
            if room[pm].any():
                queue.append((-priority, int(state.active.job[place]), task, int(place)))
        assert state.offers.best[place].tolist() == list(best.values())
        assert state.offers.room[place].tolist() == [room[pm].sum() for pm in classes]
    offer = (int(state.offers.place), int(state.offers.task))
    if state.offers.made == env.max_offers or not queue:
        assert offer[0] == NONE
    else:
        *_, task, place = min(queue)
        assert offer == (place, task)


@every_setting
def test_placements(name):
    """Only where the task fits; the queue is always open; what is placed starts as it should."""
    env, _, params, _, _ = play(name)
    placed = moved = 0
    for _, graphs, steps in steps_of(name):
        for step in steps:
            before, after = step.before, step.answered
            assert step.mask[-1]
            if before.offers.place == NONE:
                assert not step.mask[:-1].any()
                continue
            view = View(env, params, graphs, before)
            place, at = int(before.offers.place), int(before.offers.task)
            migrant = view.phase[place, at] == MIGRANT
            pm = view.wave(place, at) if migrant else 1000
            fits = fitting(env, before.loads, view.demand(place, pm))
            assert step.mask[:-1].tolist() == fits.tolist() and fits.any()
            if step.action == env.num_servers:
                assert after.waiting == before.waiting and after.sent == before.sent
                continue
            placed += 1
            row = np.flatnonzero(after.running.task == place * K + at)
            assert len(row) == 1 and before.running.task[row[0]] == NONE
            job, server = view.job(place), int(step.action)
            home, last = before.active.home[place], before.tasks.server[place, at]
            task = job.tasks[NUMBERS[job.kind][at]]
            local = job.vol_ps * (task.root + task.sink) * (home in (NONE, server))
            for parent in task.parents:
                there = before.tasks.server[place, job.places[parent.index]] == server
                local += job.vol_worker * there
            cross = task.tot - local
            started = before.tasks.left[place, at]
            length = task.work + cross * 1000 // env.flow_rate
            away = last not in (NONE, server)
            moved += away
            expect = (started or length) + env.move_work * away
            assert after.running.left[row[0]] == expect
            assert after.running.bandwidth[row[0]] == cross * 1000 // length
            assert after.sent - before.sent == cross * (started == 0) + env.move_mb * away
            assert after.active.home[place] == (server if home == NONE else home)
    assert placed > 150 and moved > 10


@every_setting
def test_slots(name):
    """A slot takes from each running task what its GPU and server allow, and nothing else."""
    env, _, params, rows, _ = play(name)
    ended = evicted = 0
    for _, graphs, steps in steps_of(name):
        for step in steps[:-3]:
            before, after = step.answered, step.after
            if after.slot == before.slot:
                continue
            view = View(env, params, graphs, before)
            loads = view.loads(view.wave)
            used, strained = overloaded(env, loads)
            assert step.metrics.overloads == strained.sum()
            assert step.metrics.evictions == (view.phase == MIGRANT).sum()
            evicted += int(step.metrics.evictions)
            works = np.zeros((env.max_active, K), int) - 1
            for row in view.rows:
                server, gpu = before.running.server[row], before.running.gpu[row]
                worst = max(loads[0][server, gpu], *used[1:, server])
                quotient = min(1000, 1000 * env.overload_threshold // worst) if worst else 1000
                rate = quotient * quotient // 1000 * quotient // 1000
                works.reshape(-1)[before.running.task[row]] = before.running.left[row] - rate
            now = View(env, params, graphs, after)
            for place, at in zip(*np.nonzero(view.phase == RUNNING), strict=True):
                left = works[place, at]
                same = after.active.job[place] == before.active.job[place]
                if left <= 0:
                    ended += 1
                    assert not same or now.phase[place, at] not in (RUNNING, MIGRANT)
                elif now.phase[place, at] == RUNNING:
                    (row,) = np.flatnonzero(after.running.task == place * K + at)
                    went = after.tasks.server[place, at] != before.tasks.server[place, at]
                    assert after.running.left[row] == left + env.move_work * went
                    assert not went or env.order == "gandiva"
                else:
                    assert same and now.phase[place, at] == MIGRANT
                    assert after.tasks.left[place, at] == left
    assert ended > 150 and (evicted > 0 or name != "mlf")


@every_setting
def test_clock_and_ends(name):
    """Time never goes back, every job ends once, and the end absorbs."""
    env, tables, params, rows, records = play(name)
    assert (np.diff(rows.after.slot, axis=1) >= 0).all()
    assert (rows.after.slot >= rows.before.slot).all()
    for episode, jobs in enumerate(tables):
        finish = rows.metrics.finish[episode]
        told = rows.metrics.job[episode][finish != NONE].tolist()
        assert Counter(told) == Counter(range(len(jobs)))
        assert (records.finish[episode] * 60 > [row["submit_time"] for row in jobs]).all()
        most = [row["iterations"] for row in jobs]
        if not env.use_mlfc:
            assert records.iterations[episode].tolist() == most
        assert (records.iterations[episode] <= most).all()
        assert (records.by_deadline[episode] <= records.iterations[episode]).all()
        assert records.completed[episode] == records.iterations[episode].sum()
        done = rows.terminated[episode]
        last = int(np.argmax(done))
        assert done[last:].all() and not rows.truncated[episode].any()
        states = jax.tree.map(lambda x, e=episode, t=last: x[e][t:], rows.after)
        for leaf in jax.tree.leaves(states):
            assert (leaf == leaf[0]).all()
        assert not rows.reward[episode][last + 1 :].any()
        assert not rows.mask[episode][last + 1 :, :-1].any()
        assert (rows.metrics.job[episode][last + 1 :] == NONE).all()


@pytest.mark.slow  # the oracle's setting 'window'
def test_the_window_overflows():
    """More jobs are submitted than are seen, and they enter in the order of the table."""
    env, tables, _, rows, _ = play("mlf")
    assert (rows.before.submitted - rows.before.admitted).max() >= 3
    for episode in range(len(tables)):
        entered = []
        for jobs in rows.before.active.job[episode]:
            entered += sorted(set(jobs[jobs != NONE].tolist()) - set(entered))
        assert entered == list(range(len(tables[episode])))


def test_places_are_numbered_in_order():
    """The order of places is that of the tasks, for every shape of a job."""
    env, tables, params = setting("mlf")
    for job in (job for graphs in graphs_of(env, tables) for job in graphs):
        assert job.places == sorted(job.places) and len(set(job.places)) == len(job.tasks)
    rows = unpack(np.asarray(params.rows))
    for index in range(sum(map(len, tables))):
        job = jax.tree.map(lambda x, at=index: jnp.asarray(x[at]), rows)
        graph = [g for graphs in graphs_of(env, tables) for g in graphs][index]
        got = number_of(job, jnp.asarray(graph.places))
        assert got.tolist() == list(range(len(graph.places)))
    nobody = jobs_at(params, jnp.int32(0), jnp.int32(NONE))
    assert all(not np.asarray(x).any() for x in nobody)
