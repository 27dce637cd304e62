"""Chic against an independent plain-Python simulator, on random small tables, in float64."""

import random
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.peers.simulators import chic as oracle
from jaxsched.core.evaluation import run_episodes
from jaxsched.envs.chic import CHIC_JOBS, Chic, OptimusIntervals
from jaxsched.envs.chic.heuristics import baseline, best_units, columns
from jaxsched.envs.chic.intervals import allocate, optimus
from jaxsched.envs.chic.show import log as rec
from jaxsched.jobs import JobTable

NUM_TABLES = 32
MAX_JOBS = 9
STEPS = 220  # of which some after the end
JUNK = (-1, -(2**31), 2**31 - 1, 10**6)


class Setting(NamedTuple):
    """Static options and parameters of one environment."""

    static: dict
    scalars: dict = {}

    def __hash__(self):
        return hash(repr(self))


SETTINGS = (
    Setting({}),
    Setting({"pair": True}, {"p1": 0.5, "time_unit": 700.0}),
    Setting(
        {"window": 1, "capacity": (2, 12, 60), "max_decisions": 3},
        {"stall_seconds": 100.0, "max_time": 9e5},
    ),
    Setting(
        {"window": 2, "capacity": (3, 14, 90), "stop_on_cond2": False, "max_decisions": 12},
        {"decision_seconds": 2.5, "p2": 3.0},
    ),
    Setting(
        {"window": 4, "capacity": (6, 40, 200), "pair": True, "max_decisions": 5},
        {"decision_seconds": 30.0, "max_time": 6000.0},
    ),
    Setting({"window": 4, "max_decisions": 20}, {"max_time": 9000.0, "stall_seconds": 2500.0}),
    Setting({"window": 6, "capacity": (14, 160, 800), "max_decisions": 14}),  # rows as an array
    Setting({"window": 5, "pair": True, "max_decisions": 9}, {"decision_seconds": 3.0}),
    Setting({"void_outside": "inert", "max_decisions": 8}),
    Setting(
        {"void_outside": "inert", "pair": True, "capacity": (4, 26, 130), "max_decisions": 30},
        {"decision_seconds": 3.0},
    ),
    Setting({"stop_on_one": True, "void_outside": "inert", "capacity": (5, 31, 150)}),
    Setting(
        {"stop_on_one": True, "window": 6, "capacity": (6, 60, 70), "max_decisions": 20},
    ),
    Setting({"penalty_once": True, "void_outside": "inert", "max_decisions": 11}),
)
FURTHER = (0, 2, 4, 7, 8, 11)
"""Slow settings: the rules of the others with other numbers."""
PLAYED = [
    pytest.param(setting, marks=[pytest.mark.slow] * (index in FURTHER))
    for index, setting in enumerate(SETTINGS)
]
RULES = (
    ("round_robin", 0),
    ("round_robin", 1),
    ("round_robin", 3),
    ("optimus_event", 0),
    ("optimus_event", 2),
    ("optimus_event", 5),
)


def random_rows(rng, index):
    """A small table: bursts, long gaps, fractions; sometimes arrivals beside a likely finish."""
    first = rng.choice([0.0, 0.0, 13.25, 400.0])
    gap = rng.choice([0.0, 60.0, 900.0, 3000.0])
    most = rng.choice([2, 30, 150])
    rows, time = [], first
    for _ in range(rng.randint(1, MAX_JOBS)):
        rows.append((time, rng.randrange(3), rng.randint(1, most)))
        time += rng.choice([0.0, 0.004, 1.0, 1.0]) * round(rng.uniform(0, gap), 3)
    if index % 3 == 0:  # arrivals within TOL of the first one's finish, alone with one of each
        submit, model, iterations = rows[0]
        finish = submit + iterations * oracle.seconds(model, 1, 1)
        shift = rng.choice([-0.02, -0.006, 0.0, 0.004, 0.006, 0.012])
        rows = [rows[0], (finish + shift, rng.randrange(3), most), *rows[-2:]]
        rows = sorted(rows[:2], key=lambda row: row[0]) + [
            (r[0] + finish, *r[1:]) for r in rows[2:]
        ]
    return sorted(rows, key=lambda row: row[0])


@cache
def tables_of(setting):
    rng = random.Random(repr(setting))
    return [random_rows(rng, index) for index in range(NUM_TABLES)]


def to_tables(rows_of):
    names = [column.name for column in CHIC_JOBS]
    return [
        JobTable(dict(zip(names, zip(*rows, strict=True), strict=True)), schema=CHIC_JOBS)
        for rows in rows_of
    ]


def simulator(setting, rows):
    return oracle.Chic(rows, **setting.static, **setting.scalars)


def choose(rng, sim, share):
    """Mostly a legal unit, sometimes any unit, void or nonsense; tables of one like to pair up."""
    mask = sim.mask()
    if rng.random() < share:
        return rng.choice([*JUNK, *range(len(mask)), *range(len(mask))])
    legal = [action for action, is_legal in enumerate(mask) if is_legal]
    return rng.choice(legal if rng.random() < 0.9 else legal[:2])


def play_oracle(setting, rows, seed):
    rng = random.Random(seed)
    sim, steps = simulator(setting, rows), []
    share = rng.choice([0.0, 0.1, 0.4])
    single = seed % 3 == 0  # one worker and one PS, then void: the finish that arrivals meet
    for step in range(STEPS):
        action = choose(rng, sim, share)
        if single and step < 2 and not sim.pair:
            action = step
        elif single and step < 3:
            action = len(sim.mask()) - 1
        seen = (sim.time, sim.observation(), sim.mask(), sim.terminal(), action)
        reward, elapsed = sim.step(action)
        remaining = [job.rem for job in sim.jobs] + [0] * (MAX_JOBS - len(sim.jobs))
        steps.append((*seen, reward, elapsed, sim.finished(), sim.truncated, remaining))
    names = "time observation mask terminal action reward elapsed terminated truncated remaining"
    values = zip(*steps, strict=True)
    return {name: np.array(v) for name, v in zip(names.split(), values, strict=True)}, sim


@partial(jax.jit, static_argnames="env")
def play_library(env, params, actions):
    """The library's side of ``play_oracle``, ``[K, T]``, and its records."""
    recorder = rec.recorder(env)

    def one(episode, actions):
        def step(carry, action):
            state, seen, records = carry
            done = seen.done
            row = {
                "time": state.time,
                "observation": seen.observation,
                "mask": seen.action_mask,
                "terminal": env.terminal(state, params),
            }
            free = env.cluster.layout.unpack(env.free(state))
            state, seen = env.step(jax.random.key(0), state, action, params)
            records = recorder.update(records, seen, ~done)
            row |= {
                "reward": seen.reward,
                "elapsed": seen.elapsed,
                "terminated": seen.terminated,
                "truncated": seen.truncated,
                "progress": records.progress,
                "free": free,
            }
            return (state, seen, records), row

        state, seen = env.reset(jax.random.key(0), params, episode)
        (_, _, records), rows = jax.lax.scan(step, (state, seen, recorder.init(params)), actions)
        return rows, records

    return jax.vmap(one)(jnp.arange(actions.shape[0]), actions)


@cache
def both(setting):
    """Trajectories and final states of the oracle and of the library."""
    expected, sims = zip(
        *[play_oracle(setting, rows, k) for k, rows in enumerate(tables_of(setting))], strict=True
    )
    with jax.enable_x64(True):
        env = Chic(**setting.static)
        params = env.params(to_tables(tables_of(setting)), **setting.scalars)
        actions = jnp.asarray(np.stack([e["action"] for e in expected]), jnp.int32)
        rows, records = jax.tree.map(np.asarray, play_library(env, params, actions))
        metrics = rec.summarise(env, params, np.arange(NUM_TABLES), records)
    return expected, sims, rows, records, metrics, np.asarray(params.jobs.workload)[:, :-1] >> 2


@pytest.mark.parametrize("setting", PLAYED, ids=str)
def test_random_play(setting):
    expected, sims, rows, records, metrics, iterations = both(setting)
    for name in ("mask", "terminal", "terminated", "truncated"):
        for k in range(NUM_TABLES):
            np.testing.assert_array_equal(rows[name][k], expected[k][name], err_msg=f"{name} {k}")
    for name in ("time", "observation", "reward", "elapsed"):
        for k in range(NUM_TABLES):
            np.testing.assert_allclose(
                rows[name][k], expected[k][name], rtol=1e-6, atol=1e-7, err_msg=f"{name} {k}"
            )
    for k, sim in enumerate(sims):
        left = (iterations[k] - rows["progress"][k])[:, : len(sim.jobs)]
        np.testing.assert_array_equal(left, expected[k]["remaining"][:, : len(sim.jobs)])
        for name, of in (("start", records.start[k]), ("finish", records.finish[k])):
            times = [getattr(job, name) for job in sim.jobs]
            times = [rec.NEVER if time is None else time for time in times]
            np.testing.assert_allclose(of[: len(times)], times, rtol=1e-9)
        for name, value in sim.metrics().items():
            np.testing.assert_allclose(metrics[name][k], value, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("setting", PLAYED, ids=str)
def test_the_play_reaches_everything(setting):
    """The tables and actions above are worth comparing."""
    expected, *_ = both(setting)
    every = {name: np.concatenate([e[name] for e in expected]) for name in expected[0]}
    assert every["terminated"].any()
    assert every["terminal"].any()
    assert (~every["terminal"]).any()
    if setting.scalars.get("max_time", 1e7) < 1e4:
        assert every["truncated"].any()
    assert (every["observation"][:, -1] > 0).any()


def test_ties_are_played():
    """Some finishes and arrivals coincide, others miss each other by little."""
    close = 0
    for index in set(range(len(SETTINGS))).difference(FURTHER):
        _, sims, *_ = both(SETTINGS[index])
        for sim in sims:
            finishes = [job.finish for job in sim.jobs if job.finish is not None]
            gaps = [abs(f - job.submit) for f in finishes for job in sim.jobs]
            close += any(0 < gap < 0.03 for gap in gaps)
    assert close >= 3


def test_one_resource_used_up_ends_the_phase():
    """Phases end earlier than where nothing fits: units that fit, but no resource to spare."""
    (setting,) = [s for s in SETTINGS if "stop_on_one" in s.static and "window" not in s.static]
    early = 0
    for rows in tables_of(setting)[:4]:
        sim = simulator(setting, rows)
        for action in [0] * sim.capacity[0]:
            sim.step(action)
        fits = any(sim.unit_fits(job, kind) for job in sim.rows() for kind in sim.kinds())
        early += sim.terminal() and fits
    assert early


# Invariants


@pytest.mark.parametrize("setting", PLAYED, ids=str)
def test_capacity_is_kept(setting):
    _, _, rows, *_ = both(setting)
    assert (rows["free"] >= 0).all()
    assert (rows["free"] <= np.array(Chic(**setting.static).capacity)).all()


@pytest.mark.parametrize("setting", PLAYED[:3], ids=str)
def test_time_in_the_system_is_the_reward(setting):
    """Without decision time, minus the time unit times the sum of r1 is W times the ACT."""
    _, sims, rows, _, metrics, _ = both(setting)
    done = 0
    for k, sim in enumerate(sims):
        if not sim.finished():
            continue
        done += 1
        r1 = rows["reward"][k][rows["elapsed"][k] > 0].sum()
        spent = -sim.time_unit * r1
        np.testing.assert_allclose(spent, len(sim.jobs) * metrics["avg_jct"][k], rtol=1e-6)
    assert done >= 5


# Rules


@pytest.mark.parametrize(("name", "index"), RULES)
def test_rules(name, index):
    setting = SETTINGS[index]
    static = {**setting.static, "free_choice": index == 0}
    with jax.enable_x64(True):
        env = Chic(**static)
        params = env.params(to_tables(tables_of(setting)), **setting.scalars)
        episodes = jnp.arange(NUM_TABLES)
        outcome = run_episodes(
            env, baseline(name, env), rec.recorder(env), params, episodes, jax.random.key(0)
        )
        metrics = rec.summarise(env, params, np.asarray(episodes), outcome.records)
    assert outcome.finished.all()
    for k, rows in enumerate(tables_of(setting)):
        sim = simulator(setting, rows).play(getattr(oracle.Chic, name))
        for key, value in sim.metrics().items():
            np.testing.assert_allclose(metrics[key][k], value, rtol=1e-6, err_msg=f"{key} {k}")


@pytest.mark.parametrize("capacity", [(4, 26, 130), (5, 60, 300), (3, 9, 200)], ids=str)
@pytest.mark.parametrize("pair", [False, True])
def test_search_finds_the_best(capacity, pair):
    """As good as the best of all allocations, and within the capacity."""
    rng = random.Random(f"{capacity} {pair}")
    env = Chic(capacity=capacity, pair=pair)
    states = []
    for _ in range(8):
        jobs = [(rng.randrange(3), rng.randint(1, 200)) for _ in range(rng.randint(1, 3))]
        states.append(jobs)
    rows = [np.array(jobs + [(0, 0)] * (3 - len(jobs))) for jobs in states]
    model, left = (jnp.asarray(np.stack(c)) for c in zip(*(r.T for r in rows), strict=True))
    units = np.asarray(jax.jit(jax.vmap(best_units(env)))(left > 0, model, left))
    for jobs, found in zip(states, units, strict=True):
        sim = oracle.Chic([(0, *job) for job in jobs], capacity=capacity, pair=pair)
        value, _ = sim.search()
        got, used = 0.0, np.zeros(3, int)
        for (m, iterations), (w, p) in zip(jobs, found[: len(jobs)], strict=True):
            got += 1 / (oracle.seconds(m, w, p) * iterations**0.5)
            used += oracle.needs(m, w, p)
        assert (used <= capacity).all()
        assert not found[len(jobs) :].any()
        np.testing.assert_allclose(got, value, rtol=1e-5)


def test_search_plays_what_it_finds():
    """The allocation at the end of each decision phase is the search's own."""
    env = Chic()
    params = env.params(to_tables(tables_of(SETTINGS[0])))
    policy, find = baseline("search", env), best_units(env)

    @jax.jit
    def play(params):
        def step(state, _):
            view = type("View", (), {"state": state, "params": params})
            action, _ = policy.act((), (), view, jax.random.key(0))
            there, model, left, workers, servers = columns(state)
            ends = (action == env.void) | env.terminal(state, params)
            row = ends & jnp.any(there), find(there, model, left), workers, servers
            return env.step(jax.random.key(0), state, action, params)[0], row

        state, _ = env.reset(jax.random.key(0), params, jnp.int32(5))
        return jax.lax.scan(step, state, length=150)[1]

    ends, target, workers, servers = (np.asarray(x) for x in play(params))
    assert ends.sum() >= 3
    np.testing.assert_array_equal(workers[ends], target[ends][:, :, 0])
    np.testing.assert_array_equal(servers[ends], target[ends][:, :, 1])


# Optimus at regular instants


@pytest.mark.parametrize(
    ("capacity", "interval", "on_block"),
    [((10, 120, 600), 600.0, "stop"), ((4, 26, 130), 77.7, "stop"), ((6, 40, 200), 300.0, "skip")],
    ids=str,
)
def test_optimus(capacity, interval, on_block):
    rows_of = tables_of(SETTINGS[0])
    with jax.enable_x64(True):
        env = OptimusIntervals(capacity=capacity, on_block=on_block, max_instants=200_000)
        params = env.params(to_tables(rows_of), interval=interval)
        episodes = jnp.arange(NUM_TABLES)
        outcome = run_episodes(
            env, optimus(env), rec.recorder(env), params, episodes, jax.random.key(0)
        )
        metrics = rec.summarise(env, params, np.asarray(episodes), outcome.records)
        given = np.asarray(first_allocations(env, params, episodes))
    assert outcome.finished.all()
    for k, rows in enumerate(rows_of):
        expected, decisions, jobs = oracle.play_optimus(rows, capacity, interval, on_block)
        for key, value in expected.items():
            np.testing.assert_allclose(metrics[key][k], value, rtol=1e-6, err_msg=f"{key} {k}")
        total = sum(job.finish - job.submit for job in jobs)
        np.testing.assert_allclose(metrics["total_reward"][k], -total / 1200.0, rtol=1e-6)
        for t, (_, units) in enumerate(decisions[: given.shape[1]]):
            at = {i: tuple(u) for i, u in enumerate(given[k, t].tolist()) if any(u)}
            assert at == units


@partial(jax.jit, static_argnames="env")
def first_allocations(env, params, episodes):
    """Of the first decisions of each episode, ``[E, 6, n, 2]``."""

    def one(episode):
        def step(state, _):
            units = allocate(env, state, params)
            return env.step(jax.random.key(0), state, units, params)[0], units

        state, _ = env.reset(jax.random.key(0), params, episode)
        return jax.lax.scan(step, state, length=6)[1]

    return jax.vmap(one)(episodes)


def test_an_interval_of_the_environment_comes_before_that_of_the_parameters():
    rows_of = tables_of(SETTINGS[0])[:4]
    found = []
    for env_interval, interval in ((None, 300.0), (300.0, 600.0), (None, 600.0)):
        env = OptimusIntervals(interval=env_interval)
        params = env.params(to_tables(rows_of), interval=interval)
        outcome = run_episodes(
            env, optimus(env), rec.recorder(env), params, jnp.arange(4), jax.random.key(0)
        )
        found.append(np.asarray(outcome.records.finish))
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()


@pytest.mark.parametrize("units", [[11, 1], [-1, 3], [2**30, 2**30], [0, 1]], ids=str)
def test_what_does_not_fit_or_train_changes_nothing(units):
    env = OptimusIntervals()
    params = env.params(to_tables([[(0.0, 0, 10), (5000.0, 1, 10)]]))
    state, _ = env.reset(jax.random.key(0), params, jnp.int32(0))
    after, seen = env.step(jax.random.key(0), state, jnp.array([units, [1, 1]]), params)
    np.testing.assert_array_equal(after.left, state.left)
    assert seen.elapsed == 600.0
    np.testing.assert_allclose(seen.reward, -0.5)
    assert seen.metrics.gpu_seconds == 0


def test_the_interval_view_ends_and_absorbs():
    env = OptimusIntervals()
    tables = to_tables([[(7.0, 0, 10), (5000.0, 1, 10)]])
    step = jax.jit(env.step)
    nothing = jnp.zeros((2, 2), jnp.int32)

    @jax.jit
    def decide(state, params):
        return allocate(env, state, params)

    for limit, idle in ((1e7, False), (900.0, True)):
        params = env.params(tables, max_time=limit)
        state, seen = jax.jit(env.reset)(jax.random.key(0), params, jnp.int32(0))
        assert state.instant == 0
        elapsed = []
        while not seen.done:
            units = nothing if idle else decide(state, params)
            state, seen = step(jax.random.key(0), state, units, params)
            elapsed.append(float(seen.elapsed))
        assert bool(seen.truncated) == idle
        # One instant, the idle ones until the second workload are skipped, one more.
        assert elapsed == ([600.0, 600.0] if idle else [5400.0, 600.0])
        after, again = step(jax.random.key(0), state, units, params)
        for one, other in zip(jax.tree.leaves(after), jax.tree.leaves(state), strict=True):
            np.testing.assert_array_equal(one, other)
        assert bool(again.done)
        assert again.reward == again.elapsed == 0
        assert not again.metrics.phase
        assert not again.metrics.trains.any()
