"""DAS against an independent plain-Python simulator, on random small tables."""

import random
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.peers.simulators.das import Simulator
from jaxsched.envs.das import DAS, GANG_JOBS
from jaxsched.envs.das.rules import machines, placement
from jaxsched.envs.das.rules.machines import Entries
from jaxsched.envs.das.show import log
from jaxsched.jobs import JobTable

NUM_TABLES = 24
MAX_JOBS = 14


class Setting(NamedTuple):
    """Static options, parameters, and whether rules are those of clusters of many machines."""

    static: dict
    scalars: dict = {}
    many: bool = False

    def __hash__(self):
        return hash(repr(self))


TINY = {"num_servers": 2, "gpus_per_server": 4, "cpus_per_server": 16, "mem_per_server": 64}
SETTINGS = (
    Setting({**TINY, "window": 3}),
    Setting({"num_servers": 3, "window": 5, "on_no_fit": "block"}, {"alpha": 0.3}),
    Setting({**TINY, "window": 2, "reward": "dense", "on_no_fit": "block"}),
    Setting({"num_servers": 3, "window": 4, "reward": "dense"}, {"dense_scale": 7.0}),
    Setting({**TINY, "window": 4, "lazy": True, "reward": "dense"}),
    Setting({"num_servers": 5, "window": 40, "spread_pct": 9, "net_pct": 20, "spread_cap": 2}),
    Setting({"num_servers": 6, "window": 6, "net_pct": 20}, many=True),
)


def random_rows(rng, env):
    """A small table: bursts and gaps, small and large gangs, coincidences of whole numbers."""
    gap = rng.choice([0, 3, 20, 60])
    longest = rng.choice([8, 60, 400])
    rows, time = [], rng.choice([0, 0, 17])
    count = rng.randint(1, MAX_JOBS)
    while len(rows) < count:
        gpus = rng.choice([1, 1, 2, 4, env.gpus_per_server])
        cpus = rng.choice([0, 1, gpus, 2 * gpus, env.cpus_per_server])
        mem = rng.choice([0, 1, 8 * gpus, env.mem_per_server // 2])
        instances = rng.choice([1, 1, 2, 3, rng.randint(1, 12)])
        amounts = zip((gpus, cpus, mem), env.capacity, strict=True)
        per = min(cap // need for need, cap in amounts if need)
        if per * env.num_servers < instances:
            continue
        rows.append((time, instances, gpus, cpus, mem, rng.randint(1, longest)))
        time += rng.choice([0, 0, 1, 1]) * rng.randint(0, gap)
    return rows


@cache
def tables_of(setting):
    rng = random.Random(repr(setting))
    env = DAS(**setting.static)
    return [random_rows(rng, env) for _ in range(NUM_TABLES)]


def to_tables(rows_of):
    names = [column.name for column in GANG_JOBS]
    return [
        JobTable(dict(zip(names, zip(*rows, strict=True), strict=True)), schema=GANG_JOBS)
        for rows in rows_of
    ]


def actions_for(env, decisions):
    """Few different values, so that ties occur, NaN and infinities; the same for every table."""
    rng = np.random.default_rng(decisions)
    values = np.array([np.nan, -np.inf, np.inf, -1, 0, 0, 1, 2, 3, 4], np.float32)
    priority = rng.choice(values, (decisions, env.window))
    return priority, rng.choice(values, (decisions, env.window, env.num_servers))


@partial(
    jax.jit,
    static_argnames="env",
    compiler_options={"xla_backend_optimization_level": 0},  # compiles fast
)
def play(env, params, actions):
    """Every episode; the k-th decision takes the k-th action."""
    recorder = log.recorder(env, machines=True)
    bound = env.max_steps(params) + 2

    def one(episode):
        def step(carry, _):
            state, seen, records = carry
            which = records.decisions
            action = {"priority": actions[0][which], "affinity": actions[1][which]}
            after, timestep = env.step(jax.random.key(0), state, action, params)
            records = recorder.update(records, timestep, jnp.bool_(True))
            row = {
                "step": timestep.metrics,
                "reward": timestep.reward,
                "elapsed": timestep.elapsed,
                "done": timestep.done,
                "jobs": seen.jobs,
                "machines": seen.machines,
                "real": seen.real,
                "used": after.used,
            }
            return (after, timestep.observation, records), row

        state, timestep = env.reset(jax.random.key(0), params, episode)
        carry = (state, timestep.observation, recorder.init(params))
        (_, _, records), rows = jax.lax.scan(step, carry, length=bound)
        return records, rows

    return jax.vmap(one)(jnp.arange(env.num_episodes(params)))


@cache
def both(setting, events):
    """The library's records and steps, and for each table the oracle and its trajectory."""
    env = DAS(**setting.static, events_per_step=events)
    params = env.params(to_tables(tables_of(setting)), **setting.scalars)
    actions = actions_for(env, 3 * MAX_JOBS + 2)
    with pytest.MonkeyPatch.context() as patch:
        if setting.many:
            patch.setattr(machines, "MOST_WRITTEN_OUT", 0)
            patch.setattr(placement, "MOST_COMPARED", 0)
        state, _ = jax.eval_shape(env.reset, jax.random.key(0), params, 0)
        assert isinstance(state.running.alloc, Entries) == setting.many
        outcome = play(env, params, tuple(map(jnp.asarray, actions)))
    records, rows = jax.tree.map(np.asarray, outcome)
    case_key = {option: key for key, option in DAS.former_options.items()}
    static = {case_key.get(name, name): value for name, value in setting.static.items()}
    played = []
    for table in tables_of(setting):
        sim, trajectory = Simulator(table, **static, **setting.scalars), []
        while not sim.done():
            seen = sim.observation()
            row = sim.decide(actions[0][sim.decisions], actions[1][sim.decisions])
            trajectory.append((row, seen))
        played.append((sim, trajectory))
    return env, params, records, rows, played


EVENTS = ((0, 1, 3), (0, 1), (0, 3), (2,), (1,), (0,), (0,))
CASES = [(s, k) for s, events in zip(SETTINGS, EVENTS, strict=True) for k in events]
LEFT_OUT = {(0, 3), (1, 1), (0, 0), (2, 3)}
"""Slow: the same settings with other events a step, which others have."""
USUAL = (1, 0, 0, 2, 1, 0, 0)
"""Of each setting the events a step of a play that is not slow."""
IDS = [(SETTINGS.index(setting), events) for setting, events in CASES]


def marks_of(name):
    return [pytest.mark.slow] * (name in LEFT_OUT)


def cases(names):
    return [
        pytest.param(*case, id=f"{name[0]}-{name[1]}", marks=marks_of(name))
        for name, case in zip(IDS, CASES, strict=True)
        if name in names
    ]


every_case = pytest.mark.parametrize(("setting", "events"), cases(IDS))


@every_case
def test_schedules(setting, events):
    env, _, records, rows, played = both(setting, events)
    for k, (sim, trajectory) in enumerate(played):
        count = len(sim.jobs)
        assert rows["done"][k].any()
        assert records.decisions[k] == sim.decisions
        assert records.start[k][:count].tolist() == [job.start for job in sim.jobs]
        assert records.finish[k][:count].tolist() == [job.finish for job in sim.jobs]
        assert (records.start[k][count:] == -1).all()
        assert records.machines[k][:count].tolist() == [job.alloc for job in sim.jobs]
        total = sum(row["reward"] for row, _ in trajectory)
        np.testing.assert_allclose(records.total_reward[k], total, rtol=1e-5, atol=1e-5)


@every_case
def test_decisions(setting, events):
    """What each decision sees, places and fails."""
    _, _, _, rows, played = both(setting, events)
    for k, (_, trajectory) in enumerate(played):
        steps = jax.tree.map(lambda x, k=k: x[k], rows)
        at = np.flatnonzero(steps["step"].decides)
        assert len(at) == len(trajectory)
        for index, (row, (jobs, servers)) in zip(at, trajectory, strict=True):
            step = jax.tree.map(lambda x, index=index: x[index], steps["step"])
            real = steps["real"][index]
            count = len(row["window"])
            assert real.tolist() == [position < count for position in range(len(real))]
            assert step.time == row["time"]
            assert step.window[:count].tolist() == row["window"]
            assert (step.window[count:] == -1).all()
            order = step.order[:count]
            assert step.window[order[step.placed[order]]].tolist() == row["placed"]
            assert step.window[order[step.failed[order]]].tolist() == row["failed"]
            assert (step.placed | step.failed).sum() == len(row["placed"]) + len(row["failed"])
            np.testing.assert_allclose(steps["jobs"][index][:count], jobs, rtol=1e-6)
            assert not steps["jobs"][index][count:].any()
            np.testing.assert_allclose(steps["machines"][index], servers, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("setting", "events"), cases([name for name in IDS if name[1] == 0]))
def test_rewards(setting, events):
    """Of a step, exactly what the specification says; it ends as the last job does."""
    _, _, _, rows, played = both(setting, events)
    for k, (sim, trajectory) in enumerate(played):
        count = len(trajectory)
        expected = [row["reward"] for row, _ in trajectory]
        np.testing.assert_allclose(rows["reward"][k][:count], expected, rtol=1e-5, atol=1e-6)
        assert rows["done"][k].tolist() == [
            index >= count - 1 for index in range(len(rows["done"][k]))
        ]
        times = [row["time"] for row, _ in trajectory] + [sim.time]
        assert rows["elapsed"][k][:count].tolist() == np.diff(times).tolist()
        for row, ends in zip((row for row, _ in trajectory), rows["step"].finish[k], strict=False):
            assert (ends >= 0).sum() == len(row["finished"])


@every_case
def test_the_end_absorbs(setting, events):
    _, _, _, rows, played = both(setting, events)
    for k in range(len(played)):
        last = int(np.argmax(rows["done"][k]))
        assert last + 2 <= len(rows["done"][k])
        assert rows["done"][k][last:].all()
        assert not rows["reward"][k][last + 1 :].any()
        assert not rows["elapsed"][k][last + 1 :].any()
        assert not rows["real"][k][last + 1 :].any()
        assert not rows["used"][k][last:].any()


@pytest.mark.parametrize("index", [2, 3, 4])
def test_the_dense_reward_telescopes(index):
    """Its sum is minus the scaled sum of average JCT and fee (section 6)."""
    setting = SETTINGS[index]
    env, params, records, _, _ = both(setting, USUAL[index])
    metrics = log.summarise(env, params, np.arange(NUM_TABLES), records)
    scale = setting.scalars.get("dense_scale", 100.0)
    cost = metrics["avg_jct_min"] / 170.0 + metrics["avg_fee"] / 51.0
    np.testing.assert_allclose(metrics["return"], -scale * cost, rtol=2e-5)


@every_case
def test_invariants(setting, events):
    """Never over capacity; GPU-seconds at speed are the work of the jobs."""
    env, _, records, rows, played = both(setting, events)
    for k, (sim, _) in enumerate(played):
        gpus = np.array([job.gpus for job in sim.jobs])
        start, finish = records.start[k][: len(gpus)], records.finish[k][: len(gpus)]
        for time in start:
            here = (start <= time) & (finish > time)
            used = (records.machines[k][: len(gpus)] * gpus[:, None])[here].sum(axis=0)
            assert (used <= env.gpus_per_server).all()
        ideal = np.array([job.duration for job in sim.jobs])
        assert (finish - start >= ideal).all()
        assert (finish - start <= np.ceil(100 * ideal / env.slowest)).all()
    assert rows["real"].any()


def test_overflow_blocking_and_spread_happen():
    """The tables reach what they are for."""
    overflow = blocked = spread = 0
    for setting, events in zip(SETTINGS, USUAL, strict=True):
        for sim, trajectory in both(setting, events)[-1]:
            for row, _ in trajectory:
                overflow += len(row["window"]) == sim.window
                blocked += bool(row["failed"]) and sim.on_no_fit == "block"
            spread += sum(sum(x > 0 for x in job.alloc) > 1 for job in sim.jobs)
    assert min(overflow, blocked, spread) >= 20


def test_actions_between_decisions_do_not_matter():
    """With one event per step, and whatever the action says where no decision is due."""
    setting = SETTINGS[0]
    env, params, records, rows, _ = both(setting, 1)
    assert (~rows["step"].decides & ~rows["done"]).any()
    seed = np.random.default_rng(5)

    @jax.jit
    def replay(episode, priority, affinity):
        def step(carry, draw):
            state, reward = carry
            which = jnp.sum(draw[0])
            real = env.observe(state, params)[0].real
            fake = draw[1] * jnp.ones((env.window, env.num_servers))
            action = {
                "priority": jnp.where(real, priority[which], fake[:, 0]),
                "affinity": jnp.where(real[:, None], affinity[which], fake),
            }
            state, timestep = env.step(jax.random.key(0), state, action, params)
            return (state, reward + timestep.reward), timestep.metrics.finish

        decides = jnp.asarray(rows["step"].decides)[episode]
        which = jnp.cumsum(decides) - decides
        draws = which, jnp.asarray(seed.choice([np.nan, 1e30, -5.0], which.shape), jnp.float32)
        state, _ = env.reset(jax.random.key(0), params, episode)
        return jax.lax.scan(step, (state, jnp.float32(0)), draws)

    priority, affinity = map(jnp.asarray, actions_for(env, 3 * MAX_JOBS + 2))
    for episode in (0, 3, 7):
        (_, reward), finish = replay(jnp.int32(episode), priority, affinity)
        np.testing.assert_array_equal(finish, rows["step"].finish[episode])
        np.testing.assert_allclose(reward, records.total_reward[episode], rtol=1e-6)
