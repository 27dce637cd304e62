"""MLFS against an independent plain-Python simulator, on random small tables and actions."""

import random
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.peers.simulators import mlfs_rules as rules
from benchmarks.peers.simulators.mlfs import BASELINES, Simulator
from jaxsched.core.policies import View
from jaxsched.envs.mlfs import MLFS
from jaxsched.envs.mlfs.heuristics import HOSTS
from jaxsched.envs.mlfs.heuristics.baselines import heuristic
from jaxsched.envs.mlfs.jobs import TASK_JOBS
from jaxsched.envs.mlfs.rules.dynamics import before_first
from jaxsched.envs.mlfs.rules.offers import offered
from jaxsched.envs.mlfs.rules.tables import with_room
from jaxsched.envs.mlfs.show import log as rec
from jaxsched.envs.mlfs.show.cases import shared
from jaxsched.jobs import from_records

NUM_TABLES = 12
NUM_JOBS = 8
CHUNK = 128
MOST_DECISIONS = 2048
JUNK = (-1, -(2**31), 2**31 - 1)
QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Compiles fast: without the second, a program takes twice as long."""
MAX_GPUS, MAX_RUNNING = 4, 96  # of the programs that settings share
COUNTERS = ("finished", "bandwidth_mb", "overloads", "migrations", "evictions", "iterations")

SMALL = {
    "gpus": (2, 1, 3),
    "cpus_per_server": 32,
    "mem_per_server": 244,
    "bandwidth_per_server": 80_000,
    "flow_rate": 10_000,
    "max_active": 5,
    "max_offers": 6,
}
TIGHT = {
    **SMALL,
    "cpus_per_server": 6,
    "mem_per_server": 32,
    "flow_rate": 1000,
    "bandwidth_per_server": 2000,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "mixed": {**SMALL, "gpus": (4, 1, 2), "bandwidth_per_server": 20_000},
    "tight": {**TIGHT, "use_mlfc": True, "busy_threshold": 300, "move_mb": 0},
    "hopeless": {**TIGHT, "use_mlfc": True, "early_stop": "hopeless", "waiting_unit": "hour"},
    "window": {
        **TIGHT,
        "cpus_per_server": 16,
        "max_active": 2,
        "max_offers": 2,
        "migrant_share": 60,
        "waiting_unit": "hour",
    },
    "no_terms": {
        **TIGHT,
        "use_urgency": False,
        "use_deadline": False,
        "overload_threshold": 1000,
        "reward": "standing",
    },
    "no_moves": {
        **{**SMALL, "use_bandwidth": False, "use_migration": False, "max_slots": 45},
        **{
            "move_work": 700,
            "deadline_weight": 300,
            "importance_share": 70,
            "children_share": 107,
            "comm_rounds": 174,
        },
    },
    "rl": {
        **{**TIGHT, "gpus": (2, 3), "order": "fifo", "reward": "backlog"},
        **{"max_offers": 3, "max_slots": 150},
    },
}
PACED = (("tight", 5), ("rl", 16))
LEGAL, HEURISTIC = -2, -3  # in place of actions


CASE_KEY = {option: key for key, option in MLFS.former_options.items()}


def in_cases(options):
    """Options under the names that cases, and with them the simulator, have for them."""
    return {CASE_KEY.get(name, name): value for name, value in options.items()}


def config_of(env):
    """The environment's options as the simulator reads them, under its names."""
    names = set(MLFS.__dataclass_fields__) - {"order", "decide", "reward", "slot_every"}
    return in_cases({name: getattr(env, name) for name in names})


def random_tables(seed, env, count=NUM_TABLES, sizes=rules.SIZES, iterations=3):
    """Rows of legal tables: bursts, pauses, and demands that share servers or fill them."""
    draw = random.Random(seed)
    tables = []
    for _ in range(count):
        time = draw.choice((0, 0, 59, 60, 1230))
        rows = []
        for _ in range(NUM_JOBS):
            row = rules.random_row(draw, config_of(env), time, draw.choice(sizes), iterations)
            if env.comm_rounds > 300 and draw.random() < 0.2:
                row |= {"vol_worker": 2**10, "vol_ps": 2**10}
            rows.append(row)
            time += draw.choice((0, 0, 1, 59, 60, 61, 180, 400, draw.randint(0, 900), 9000))
        tables.append(rows)
    return tables


def to_params(env, tables, **scalars):
    return env.params([from_records(rows, schema=TASK_JOBS) for rows in tables], **scalars)


class Seen(NamedTuple):
    """What each step of an episode showed; leaves ``[E, T, ...]`` once played."""

    decides: Any
    slot: Any
    job: Any
    task: Any
    migrating: Any
    mask: Any
    obs: Any
    action: Any
    reward: Any
    done: Any
    truncated: Any
    elapsed: Any
    after: Any  # observation after the step


def start_of(env, params, episode=0):
    """An empty slot before the first, which the next step ends."""
    start = before_first(env.rules_of(params), params, jnp.int32(episode))
    return start._replace(pace=jnp.int32(max(env.slot_every - 1, 0)))


def starts_of(env, params):
    """Every episode before its first slot; with observation, mask and records."""
    episodes, start = jnp.arange(env.num_episodes(params)), start_of(env, params)
    seen = jnp.zeros(env.observation_spec().shape, jnp.float32)
    mask = jnp.zeros(env.num_servers + 1, bool)
    carry = start, seen, mask, rec.recorder(env).init(params)
    state, *rest = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(episodes), *x.shape)), carry)
    return state._replace(episode=episodes), *rest


@partial(jax.jit, static_argnames="env", compiler_options=QUICK)
def go_on(env, params, carry, choices):
    """``CHUNK`` steps of every episode; the k-th decision of an episode takes its k-th choice."""
    steps = jax.vmap(
        lambda *given: jax.lax.scan(one_step(env, params, *given[1:]), given[0], None, CHUNK)
    )
    return steps(carry, *choices)


def one_step(env, params, rank, instead):
    def step(carry, _):
        state, observation, mask, records = carry
        rules = env.rules_of(params)
        offer = offered(rules, params, state)
        which = jnp.minimum(records.decisions, MOST_DECISIONS - 1)
        turn = rank[which] % jnp.maximum(jnp.sum(offer.valid), 1)
        legal = jnp.argmax(jnp.cumsum(offer.valid) > turn)
        action = jnp.where(instead[which] == LEGAL, legal, instead[which])
        best = HOSTS[env.order](rules, params, state, offer)
        action = jnp.where(instead[which] == HEURISTIC, best, action)
        after, timestep = env.step(jax.random.key(0), state, action, params)
        records = rec.after_step(records, timestep, jnp.bool_(True))
        seen = Seen(
            timestep.metrics.decides,
            state.slot,
            offer.which,
            offer.number,
            offer.migrant,
            mask,
            observation,
            action,
            timestep.reward,
            timestep.terminated | timestep.truncated,
            timestep.truncated,
            timestep.elapsed,
            timestep.observation,
        )
        return (after, timestep.observation, timestep.action_mask, records), seen

    return step


def played(env, params, choices):
    """All steps of all episodes and at least one more, and the records.

    From offer to offer settings of one size share a program; at a pace it is the setting's own, as
    users compile it.
    """
    if not env.slot_every:
        env, params = shared(env, with_room(params, params.max_jobs, MAX_RUNNING), MAX_GPUS)
    carry, parts = starts_of(env, params), []
    while not parts or not parts[-1].done[:, -2].all():
        carry, seen = go_on(env, params, carry, choices)
        parts.append(jax.tree.map(np.asarray, seen))
        assert len(parts) < 100
    records = jax.tree.map(np.asarray, carry[-1])
    assert (records.decisions < MOST_DECISIONS).all()
    return jax.tree.map(lambda *x: np.concatenate(x, axis=1)[:, 1:], *parts), records


class Case(NamedTuple):
    """A setting played by the library."""

    env: MLFS
    tables: list
    params: Any
    seen: Seen
    records: rec.Records


@cache
def library(name, slot_every=0, how="random"):
    env = MLFS(**SETTINGS[name], slot_every=slot_every)
    tables = random_tables(name, env)
    params = to_params(env, tables)
    choices = choices_of(name, how)
    return Case(env, tables, params, *played(env, params, choices))


@cache
def choices_of(name, how):
    """For each decision a rank among the valid servers, and what is taken in place of it."""
    rng = np.random.default_rng(len(name))
    shape = NUM_TABLES, MOST_DECISIONS
    count = len(SETTINGS[name]["gpus"])
    instead = rng.choice([*range(count + 1), count, count + 3, *JUNK], shape)
    instead = np.where(rng.random(shape) < 0.75, LEGAL, instead)
    if how == "heuristic":
        instead = np.full(shape, HEURISTIC)
    return jnp.asarray(rng.integers(0, 2**20, shape), jnp.int32), jnp.asarray(instead, jnp.int32)


def simulator(env, rows, policy=None):
    if policy is None:
        policy = "mlfs" if env.use_mlfc else "mlf_h"
    order = "fifo" if env.order == "fifo" and policy == "mlf_h" else "priority"
    return Simulator(config_of(env), rows, policy, order, snapshot_slots=(), reward=env.reward)


def actions_of(case, episode):
    decides = case.seen.decides[episode]
    return case.seen.action[episode][decides].tolist()


@cache
def oracle(name, how="random"):
    """Every table of a setting, played with the actions that the library took."""
    case = library(name, how=how)
    simulators = []
    for episode, rows in enumerate(case.tables):
        sim = simulator(case.env, rows)
        for action in actions_of(case, episode):
            assert sim.offer is not None
            assert how == "random" or sim.answer() == action
            sim.act(action)
        assert sim.offer is None and sim.done()
        simulators.append(sim)
    return simulators


def shown(env, observations):
    """Without what a policy of the FIFO order does not get to see."""
    observations = np.array(observations, np.float64)
    if env.order == "fifo":
        observations[..., list(rules.HIDDEN_FROM_RL)] = 0
    return observations


def check_records(env, params, records, simulators):
    found = rec.summarise(env, params, np.arange(len(simulators)), records)
    for episode, sim in enumerate(simulators):
        got = {name: getattr(records, name)[episode].tolist() for name in rec.Records._fields[:6]}
        expect = rules.job_records(sim)
        for name in ("start", "finish"):
            wanted = [row[name] for row in expect]
            assert [60 * x if x >= 0 else None for x in got[name]] == wanted
        for name in ("home", "iterations", "run_slots"):
            assert got[name] == [row[name] for row in expect]
        assert got["by_deadline"] == [row["iters_by_deadline"] for row in expect]
        assert records.slots[episode] == sim.t
        metrics = rules.metrics(sim)
        for name, value in metrics.items():
            assert found[name][episode] == pytest.approx(value, rel=1e-5, abs=1e-6), name
        for name in COUNTERS:
            assert found[name][episode] == metrics[name], name


FURTHER = ("window", "no_terms", "no_moves")
"""Slow settings: the rules of the others with other numbers."""


def setting_of(name, *others):
    return pytest.param(name, *others, marks=[pytest.mark.slow] * (name in FURTHER))


every_setting = pytest.mark.parametrize(
    ("name", "how"), [setting_of(name, how) for name in SETTINGS for how in ("random", "heuristic")]
)


@every_setting
def test_offers(name, how):
    """The same task is on offer, and the same servers can take it, whatever was answered."""
    case = library(name, how=how)
    for episode, sim in enumerate(oracle(name, how)):
        seen = jax.tree.map(lambda x, e=episode: x[e][case.seen.decides[e]], case.seen)
        assert len(seen.slot) == len(sim.trajectory)
        for key in ("slot", "job", "task", "migrating"):
            assert getattr(seen, key).tolist() == [row[key] for row in sim.trajectory]
        assert seen.mask.astype(int).tolist() == [row["mask"] for row in sim.trajectory]


@every_setting
def test_observations(name, how):
    """Of every decision, and of the end."""
    case = library(name, how=how)
    for episode, sim in enumerate(oracle(name, how)):
        decides = case.seen.decides[episode]
        expect = shown(case.env, [row["obs"] for row in sim.trajectory])
        got = shown(case.env, case.seen.obs[episode][decides])
        np.testing.assert_allclose(got, expect, rtol=1e-5, atol=1e-7)
        got = shown(case.env, case.seen.after[episode][-1])
        expect = shown(case.env, rules.observation(sim))
        np.testing.assert_allclose(got, expect, rtol=1e-5, atol=1e-7)


@every_setting
def test_rewards_and_clock(name, how):
    case = library(name, how=how)
    for episode, sim in enumerate(oracle(name, how)):
        decides = case.seen.decides[episode]
        count = len(sim.trajectory)
        assert decides.tolist() == [step < count for step in range(len(decides))]
        expect = [row["reward"] for row in sim.trajectory]
        got = case.seen.reward[episode]
        np.testing.assert_allclose(got[:count], expect, rtol=2e-5, atol=1e-6)
        assert not got[count:].any()
        done = case.seen.done[episode]
        assert done.tolist() == [step >= count - 1 for step in range(len(done))]
        unfinished = sim.finished < len(sim.all_jobs)
        assert case.seen.truncated[episode][count - 1] == unfinished
        slots = [*(row["slot"] for row in sim.trajectory), sim.t]
        elapsed = case.seen.elapsed[episode]
        assert elapsed[:count].tolist() == (60 * np.diff(slots)).tolist()
        assert not elapsed[count:].any()


@every_setting
def test_records_and_metrics(name, how):
    case = library(name, how=how)
    check_records(case.env, case.params, case.records, oracle(name, how))


def check_same_decisions(expect, seen):
    """Those of the steps ``seen``, all or the first, and their rewards; one episode each."""
    at, of = expect.decides, seen.decides
    count = min(at.sum(), of.sum())
    for field in ("slot", "job", "task", "migrating", "mask", "action"):
        wanted, got = getattr(expect, field)[at][:count], getattr(seen, field)[of][:count]
        np.testing.assert_array_equal(got, wanted, err_msg=field)
    np.testing.assert_allclose(seen.obs[of][:count], expect.obs[at][:count], rtol=1e-6)
    total = np.zeros(of.sum())
    np.add.at(total, np.cumsum(of) - 1, seen.reward)
    complete = count if seen.done[-1] else count - 1
    wanted = expect.reward[at][:complete]
    np.testing.assert_allclose(total[:complete], wanted, rtol=2e-5, atol=1e-6)
    return complete


@pytest.mark.parametrize(
    ("name", "slot_every"), [pytest.param(*PACED[0], marks=pytest.mark.slow), PACED[1]]
)
def test_pace(name, slot_every):
    """Steps that end slots at certain times only: the same decisions, rewards and records."""
    case, paced = library(name), library(name, slot_every)
    for field in rec.Records._fields:
        got, expect = getattr(paced.records, field), getattr(case.records, field)
        np.testing.assert_array_equal(got, expect, err_msg=field)
    waits = 0
    for episode in range(NUM_TABLES):
        expect, seen = (jax.tree.map(lambda x, e=episode: x[e], c.seen) for c in (case, paced))
        assert check_same_decisions(expect, seen) == expect.decides.sum() == seen.decides.sum()
        ended = np.flatnonzero(seen.elapsed)
        assert not ((ended + 1) % slot_every).any()
        waits += (~seen.decides[: np.argmax(seen.done)]).sum()
    assert waits > 0


@partial(jax.jit, static_argnames="env", compiler_options=QUICK)
def play_alone(env, params, episode, rank, instead):
    """From a reset on, without an axis of copies."""
    state, timestep = env.reset(jax.random.key(0), params, episode)
    carry = state, timestep.observation, timestep.action_mask, rec.recorder(env).init(params)
    return jax.lax.scan(one_step(env, params, rank, instead), carry, None, 2 * CHUNK)[1]


@pytest.mark.slow  # golden cases play so
def test_one_table_alone():
    """Slots of one step each, without copies; the same decisions and rewards."""
    case = library("tight")
    env = replace(case.env, slot_every=1)
    for episode in (0, 7):
        rank, instead = (x[episode] for x in choices_of("tight", "random"))
        seen = play_alone(env, case.params, jnp.int32(episode), rank, instead)
        expect, seen = jax.tree.map(lambda x, e=episode: x[e], case.seen), jax.device_get(seen)
        assert check_same_decisions(expect, seen) > 30


# Heuristics

POOR = {
    **{**TIGHT, "cpus_per_server": 12, "mem_per_server": 40, "max_offers": 12, "max_active": 6},
    "tiresias_threshold": 1200,
}
"""A cluster for the baselines: those of ``SETTINGS`` have their heuristics there."""


@partial(jax.jit, static_argnames="env", compiler_options=QUICK)
def play_heuristic(env, params):
    policy, recorder = heuristic(env), rec.recorder(env)

    def one(episode):
        def step(carry):
            state, records, _ = carry
            view = View(None, None, state, params)
            action, _ = policy.act((), (), view, jax.random.key(0))
            state, timestep = env.step(jax.random.key(0), state, action, params)
            records = recorder.update(records, timestep, jnp.bool_(True))
            return state, records, timestep.done

        state = start_of(env, params)._replace(episode=episode)
        carry = state, recorder.init(params), jnp.bool_(False)
        return jax.lax.while_loop(lambda carry: ~carry[-1], step, carry)[1]

    return jax.vmap(one)(jnp.arange(env.num_episodes(params)))


@cache
def heuristic_case(name):
    env = MLFS(**POOR, order=name)
    tables = random_tables(name, env)
    params = to_params(env, tables)
    simulators = []
    for rows in tables:
        sim = simulator(env, rows, name)
        sim.run()
        simulators.append(sim)
    return env, tables, params, simulators


IN_GOLDEN_CASES = ("fair", "graphene", "hypersched", "slaq")  # which the default suite plays


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in IN_GOLDEN_CASES else name
        for name in BASELINES
        if name != "fifo"
    ],
)
def test_heuristics(name):
    env, _, params, simulators = heuristic_case(name)
    records = jax.tree.map(np.asarray, play_heuristic(env, params))
    check_records(env, params, records, simulators)
    if name == "gandiva":
        assert sum(sim.migrations > 0 for sim in simulators) >= 3


# What the tables reach


def told(sim):
    rows = [{k: v for k, v in row.items() if k != "obs"} for row in sim.trajectory]
    return rows, [row["obs"] for row in sim.trajectory], rules.job_records(sim)


def changed(name, how="random", **config):
    """Tables of a setting whose decisions another value of an option changes."""
    count = 0
    for sim in oracle(name, how):
        other = Simulator({**sim.config, **in_cases(config)}, sim.rows, sim.policy, sim.order, ())
        actions = [row["action"] for row in sim.trajectory]
        other.run(actions if how == "random" else ())
        count += told(other)[:2] != told(sim)[:2]
    return count


@pytest.mark.parametrize(
    ("name", "option"),
    [
        setting_of("window", {"migrant_share": 1}),
        setting_of("window", {"migrant_share": 100}),
        setting_of("tight", {"busy_threshold": 4000}),
        setting_of("tight", {"move_mb": 1}),
        setting_of("mixed", {"use_bandwidth": False}),
        setting_of("mixed", {"use_migration": False}),
        setting_of("mixed", {"use_urgency": False}),
        setting_of("mixed", {"use_deadline": False}),
        setting_of("tight", {"use_mlfc": False}),
        setting_of("no_moves", {"use_bandwidth": True}),
        setting_of("no_terms", {"overload_threshold": 999}),
    ],
    ids=str,
)
def test_options_matter(name, option):
    how = "heuristic" if "use_bandwidth" in option else "random"
    if option == {"use_mlfc": False}:
        sims = oracle(name)
        assert sum(any(j.it < j.row["iterations"] for j in s.all_jobs) for s in sims) >= 3
    else:
        assert changed(name, how, **option) >= 1


def test_candidates_have_waited():
    """So that the 0 that they show in place of it is seen."""
    assert any(
        row["migrating"] and job_of(sim, row).wait_since != row["slot"]
        for sim in oracle("mixed")
        for row in sim.trajectory
    )


def job_of(sim, row):
    return sim.all_jobs[row["job"]].tasks[row["task"]]


def differs(name, monkeypatch, rule, mutant):
    """Tables on which a heuristic's records change with a rule."""
    _, tables, _, simulators = heuristic_case(name)
    monkeypatch.setattr(rules, rule, mutant)
    count = 0
    for rows, sim in zip(tables, simulators, strict=True):
        other = Simulator(sim.config, rows, name, snapshot_slots=())
        other.run()
        count += rules.job_records(other) != rules.job_records(sim)
    return count


def test_packing_counts_cpus_and_memory(monkeypatch):
    original = rules.job_key

    def mutant(sim, job):
        row, (cpu, mem, _) = job.row, sim.loads.caps
        packs = row["gpu_demand"], 1000 * row["cpus"] // cpu, 1000 * row["mem"] // mem
        (key,) = original(sim, job)
        return (key + max(packs) - packs[0],)

    assert differs("graphene", monkeypatch, "job_key", mutant) >= 1


@pytest.mark.parametrize("resource", [0, 1])
def test_moves_need_cpus_and_memory(monkeypatch, resource):
    original = rules.gandiva_moves

    def mutant(sim, nominal):
        caps = nominal.caps
        nominal.caps = [10**9 if i == resource else cap for i, cap in enumerate(caps)]
        original(sim, nominal)
        nominal.caps = caps

    assert differs("gandiva", monkeypatch, "gandiva_moves", mutant) >= 1
