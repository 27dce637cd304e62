"""The networks of DAS: symmetric in machines, blind to dummies, and evaluated as they sampled."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.policies import View
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learn import DASNetwork, Trunk
from jaxsched.envs.das.learn.agents import (
    affinity_of,
    das_agents,
    dl2_agents,
    fifo_priority,
    is_decision,
    job_groups,
    load_balance_rows,
    rifling_agents,
    with_history,
)
from jaxsched.envs.das.learn.policies import das_policy, forgetful_policy
from jaxsched.envs.das.rules.observation import Observation
from jaxsched.errors import JaxschedError
from jaxsched.types import ArraySpec, Specs
from jaxsched.wrappers.history import History, Remembered, push

N, M, B, T, TAU = 4, 3, 2, 5, 2
ENV = DAS(num_servers=M, window=N)
VARIANTS = ("DA", "DA+MC", "DA+RWGP", "DAS")
KEY = jax.random.key(0)
jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})  # compiles fast


def options(variant, **changes):
    small = {"width": 8, "heads": 2, "history": TAU, "walk_length": 4}
    return DASNetwork(**small | {"variant": variant} | changes)


NETWORKS = {
    "DA": options("DA"),
    "DA+MC": options("DA+MC"),
    "DA+RWGP": options("DA+RWGP", product="kronecker", basis="walk", mean="zero"),
    "DAS": options("DAS"),
    "extra": options("DAS", extra_features=True, kernel="graph"),
}
WALKS = [name for name, network in NETWORKS.items() if network.remembers]


@cache
def agents_of(name):
    if name in ("dl2", "rifling"):
        agents = {"dl2": dl2_agents, "rifling": rifling_agents}[name](ENV)
    else:
        agents = das_agents(ENV, NETWORKS[name])
    return agents._replace(
        init=jit(agents.init, static_argnums=1),
        sample=jit(agents.sample),
        greedy=jit(agents.greedy),
        evaluate=jit(agents.evaluate),
    )


OBSERVATION_SPEC = Observation(ArraySpec((N, 5)), ArraySpec((M, 5)), ArraySpec((N,), jnp.bool_))


@cache
def params_of(name):
    """Parameters moved away from where they start, so that everything matters."""
    params = agents_of(name).init(KEY, Specs(OBSERVATION_SPEC, None))
    leaves, structure = jax.tree.flatten(params)
    random = np.random.default_rng(0)
    moved = [x + 0.3 * random.normal(size=x.shape).astype("f4") for x in leaves]
    return jax.tree.unflatten(structure, moved)


def observations(seed, *lead, num_positions=N):
    """Whole requests and free resources, some dummy positions at the end of each window."""
    random = np.random.default_rng(seed)
    real = np.arange(num_positions) < random.integers(2, num_positions, size=(*lead, 1))
    jobs = np.stack(
        [
            random.integers(1, 9, (*lead, num_positions)) / 64,
            random.integers(1, 5, (*lead, num_positions)) / 8,
            random.integers(1, 40, (*lead, num_positions)) / 96,
            random.integers(1, 99, (*lead, num_positions)) / 384,
            random.integers(1, 9000, (*lead, num_positions)) / 86400,
        ],
        axis=-1,
    )
    free = random.integers(0, 9, (*lead, M)) / 8
    cpus, mem = random.integers(0, 97, (*lead, M)) / 96, random.integers(0, 385, (*lead, M)) / 384
    machines = np.stack([cpus, free, mem, random.uniform(size=(*lead, M)), 1 - free], axis=-1)
    jobs = np.where(real[..., None], jobs, 0)
    return Observation(jnp.asarray(jobs, "f4"), jnp.asarray(machines, "f4"), jnp.asarray(real))


def histories(seed, *lead):
    random = np.random.default_rng(seed)
    valid = np.arange(TAU) >= random.integers(0, TAU, (*lead, 1))
    action = random.normal(size=(*lead, TAU, N, M))
    return History(
        observations(seed + 1, *lead, TAU), jnp.asarray(action, "f4"), jnp.asarray(valid)
    )


def seen_by(name, seed=0, *lead):
    lead = lead or (B,)
    now = observations(seed, *lead)
    return Remembered(now, histories(seed + 7, *lead)) if name in WALKS else now


def plain(observation):
    return observation.observation if isinstance(observation, Remembered) else observation


def permuted(tree, order):
    """Machines in another order; they are the axis before last, or last in actions."""

    def of(observation):
        return observation._replace(machines=observation.machines[..., order, :])

    if not isinstance(tree, Remembered):
        return of(tree)
    history = tree.history
    history = history._replace(
        observation=of(history.observation), action=history.action[..., order]
    )
    return Remembered(of(tree.observation), history)


@pytest.mark.parametrize("name", [*NETWORKS, "rifling"])
def test_machines_may_come_in_any_order(name):
    order = jnp.array([2, 0, 1])
    agents, params, seen = agents_of(name), params_of(name), seen_by(name)
    action = agents.greedy(params, seen, None)
    other = agents.greedy(params, permuted(seen, order), None)
    np.testing.assert_allclose(other["priority"], action["priority"], atol=1e-5)
    np.testing.assert_allclose(other["affinity"], action["affinity"][..., order], atol=2e-5)
    assert jnp.std(action["affinity"], axis=-1)[plain(seen).real].max() > 1e-3


@cache
def gradient_of(name):
    def loss(params, observation, action):
        sequence = jax.tree.map(lambda x: x[None], (observation, action))
        result = agents_of(name).evaluate.__wrapped__(params, sequence[0], None, sequence[1])
        return sum(map(jnp.sum, [*result.log_prob.values(), *result.entropy.values()]))

    return jit(jax.grad(loss))


def junk_in_dummies(observation, value):
    return observation._replace(
        jobs=jnp.where(observation.real[..., None], observation.jobs, value)
    )


@pytest.mark.parametrize(
    ("value", "name"), [(7.0, "DAS"), *((jnp.nan, name) for name in [*NETWORKS, "dl2", "rifling"])]
)
def test_dummy_positions_reach_nothing(name, value):
    agents, params, seen = agents_of(name), params_of(name), seen_by(name)
    junk = seen
    if name in WALKS:
        history = seen.history
        entry = junk_in_dummies(history.observation, value)
        gone = ~history.valid
        entry = entry._replace(
            jobs=jnp.where(gone[..., None, None], value, entry.jobs),
            machines=jnp.where(gone[..., None, None], value, entry.machines),
        )
        counts = history.valid[..., None] & history.observation.real
        rows = jnp.where(counts[..., None], history.action, value)
        junk = Remembered(seen.observation, History(entry, rows, history.valid))
        junk = junk._replace(observation=junk_in_dummies(seen.observation, value))
    else:
        junk = junk_in_dummies(seen, value)
    real = plain(seen).real
    clean, dirty = (agents.sample(params, x, None, KEY) for x in (seen, junk))
    for part, axes in (("priority", real), ("affinity", real[..., None])):
        np.testing.assert_array_equal(
            jnp.where(axes, clean[0][part], 0), jnp.where(axes, dirty[0][part], 0)
        )
    jax.tree.map(np.testing.assert_array_equal, clean[1], dirty[1])

    action = {
        "priority": jnp.where(real, clean[0]["priority"], value),
        "affinity": jnp.where(real[..., None], clean[0]["affinity"], value),
    }
    gradient = jax.tree.leaves(gradient_of(name)(params, junk, action))
    assert all(jnp.isfinite(leaf).all() for leaf in gradient)
    assert any(jnp.any(leaf != 0) for leaf in gradient)


def played(name, decided, ends):
    """A sequence as the training loop meets it, with what was sampled at each step.

    Args:
      name: which agents.
      decided: bool [T, B], where a decision is due.
      ends: bool [T, B], after which steps a new episode starts.
    """
    agents, params = agents_of(name), params_of(name)
    seen = observations(3, T, B)
    seen = seen._replace(
        real=seen.real & decided[..., None],
        jobs=jnp.where(decided[..., None, None], seen.jobs, 0),
    )
    history, steps = histories(9, B), []
    add = jit(jax.vmap(push))
    for step in range(T):
        now = jax.tree.map(lambda x, step=step: x[step], seen)
        observation = Remembered(now, history) if name in WALKS else now
        action, log_prob = agents.sample(params, observation, None, jax.random.key(step))
        steps.append((observation, action, log_prob))
        history = add(history, now, affinity_of(action), jax.vmap(is_decision)(now))
        fresh = jax.tree.map(jnp.zeros_like, history)
        history = jax.tree.map(
            lambda a, b, end=ends[step]: jnp.where(end.reshape(-1, *[1] * (b.ndim - 1)), a, b),
            fresh,
            history,
        )
    return jax.tree.map(lambda *x: jnp.stack(x), *steps)


@pytest.mark.parametrize("name", [*NETWORKS, "dl2", "rifling"])
def test_sequences_are_evaluated_as_they_were_sampled(name):
    decided = jnp.ones((T, B), bool).at[1, 0].set(False).at[3, 1].set(False)
    ends = jnp.zeros((T, B), bool).at[1, 1].set(True)
    observation, action, log_prob = played(name, decided, ends)
    result = agents_of(name).evaluate(params_of(name), observation, None, action)
    assert set(result.log_prob) == set(log_prob)
    for agent, expected in log_prob.items():
        np.testing.assert_allclose(result.log_prob[agent], expected, atol=2e-4)
        real = plain(observation).real
        np.testing.assert_array_equal(result.active[agent], real)
        for values in (result.log_prob[agent], result.entropy[agent]):
            np.testing.assert_array_equal(values == 0, ~real)


@pytest.mark.parametrize("name", WALKS)
def test_the_history_matters_to_placement_only(name):
    agents, params, seen = agents_of(name), params_of(name), seen_by(name)
    action = agents.greedy(params, seen, None)
    nothing = seen.history._replace(valid=jnp.zeros_like(seen.history.valid))
    other = agents.greedy(params, Remembered(seen.observation, nothing), None)
    np.testing.assert_array_equal(other["priority"], action["priority"])
    assert jnp.abs(other["affinity"] - action["affinity"]).max() > 1e-3
    if NETWORKS[name].mean == "zero":
        np.testing.assert_array_equal(other["affinity"], 0.0)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_new_policy_is_near_zero(name):
    agents = agents_of(name)
    params = agents.init(jax.random.key(1), Specs(OBSERVATION_SPEC, None))
    seen = seen_by(name)
    if name in WALKS:
        nothing = jnp.zeros_like(seen.history.valid)
        seen = Remembered(seen.observation, seen.history._replace(valid=nothing))
    action = agents.greedy(params, seen, None)
    assert all(jnp.abs(part).max() < 0.2 for part in action.values())


def test_a_new_policy_spreads_as_asked():
    """Of both heads, the means being as they were."""
    seen, found = seen_by("DA+MC"), {}
    params = agents_of("DA+MC").init(KEY, Specs(OBSERVATION_SPEC, None))
    for std in (0.5, 0.1):
        trunk = Trunk(ENV, options("DA+MC", initial_std=std))
        found[std], _ = jit(trunk.apply)(params, seen)
    real = seen.real
    for std, embedding in found.items():
        np.testing.assert_allclose(embedding.priority_std[real], std, rtol=0.15)
        np.testing.assert_allclose(embedding.affinity_std[real], std, rtol=0.15)
        np.testing.assert_array_equal(embedding.priority_mean, found[0.5].priority_mean)


def test_messages_carry_the_machines_to_the_jobs():
    for name in VARIANTS:
        agents, params, seen = agents_of(name), params_of(name), seen_by(name)
        other = plain(seen)._replace(machines=0.5 * plain(seen).machines)
        other = Remembered(other, seen.history) if name in WALKS else other
        same = jnp.array_equal(
            agents.greedy(params, seen, None)["priority"],
            agents.greedy(params, other, None)["priority"],
        )
        assert bool(same) == (name in ("DA", "DA+RWGP"))


def test_load_balance_is_played_job_by_job():
    jobs = np.zeros((N, 5), "f4")
    jobs[0] = 2 / 64, 4 / 8, 1 / 96, 1 / 384, 0
    jobs[1] = 1 / 64, 8 / 8, 1 / 96, 1 / 384, 0
    jobs[2] = 9 / 64, 8 / 8, 1 / 96, 1 / 384, 0  # does not fit
    machines = np.ones((M, 5), "f4")
    machines[:, 1] = [6 / 8, 8 / 8, 5 / 8]
    seen = Observation(jnp.asarray(jobs), jnp.asarray(machines), jnp.arange(N) < 3)
    balanced = jit(partial(load_balance_rows, ENV))
    rows = balanced(seen, fifo_priority(ENV))
    np.testing.assert_array_equal(rows[:3], [[6, 8, 5], [6, 0, 5], [6, 0, 5]])
    rows = balanced(seen, -fifo_priority(ENV))
    np.testing.assert_array_equal(rows[:3], [[6, 0, 5], [6, 8, 5], [6, 8, 5]])


def test_groups_are_those_of_lloyd():
    grouped = jit(partial(job_groups, DAS(num_servers=M, window=6)))
    for seed in range(3):
        seen = observations(seed, num_positions=6)
        rows, real = np.asarray(seen.jobs), np.asarray(seen.real)
        count, groups = real.sum(), 2
        gpus = np.round(rows[:, 0] * 64) * np.round(rows[:, 1] * 8)
        order = sorted(range(count), key=lambda position: (gpus[position], position))
        centroids = rows[[order[(2 * q + 1) * count // (2 * groups)] for q in range(groups)]]
        for _ in range(10):
            member = ((rows[:, None] - centroids) ** 2).sum(-1).argmin(-1)
            centroids = np.array(
                [
                    rows[real & (member == q)].mean(0) if any(real & (member == q)) else c
                    for q, c in enumerate(centroids)
                ]
            )
        got, group = grouped(seen)
        np.testing.assert_allclose(got, centroids, atol=1e-6)
        np.testing.assert_array_equal(group[:count], member[:count])


def test_rivals_leave_the_other_part_to_the_rule():
    seen = seen_by("dl2")
    action, _ = agents_of("dl2").sample(params_of("dl2"), seen, None, KEY)
    rows = jit(jax.vmap(partial(load_balance_rows, ENV)))(seen, action["priority"])
    np.testing.assert_array_equal(action["affinity"], rows)
    action = agents_of("rifling").greedy(params_of("rifling"), seen, None)
    np.testing.assert_allclose(action["priority"], [-np.arange(N) / N] * B, rtol=1e-6)
    _, group = jit(partial(job_groups, ENV))(jax.tree.map(lambda x: x[0], seen))
    rows = np.asarray(action["affinity"][0])
    for position in range(N):
        first = int(jnp.argmax(group == group[position]))
        np.testing.assert_array_equal(rows[position], rows[first])


@pytest.mark.parametrize("name", ["DA", "DAS"])
def test_the_policy_of_one_environment_acts_as_the_agents(name):
    """Decision by decision, keeping what earlier ones tell in place of the decisions."""
    agents, params = agents_of(name), params_of(name)
    policy = das_policy(ENV, NETWORKS[name])
    act = jit(lambda seen, memory: policy.act(params, memory, View(seen, None, None, None), KEY))
    add = jit(jax.vmap(push))
    memory = policy.init(None)
    history = None
    for step in range(T):
        seen = seen_by(name, step, 1)
        if name in WALKS:
            history = history or jax.tree.map(jnp.zeros_like, seen.history)
            seen = Remembered(seen.observation, history)
        expected = agents.greedy(params, seen, None)
        action, memory = act(jax.tree.map(lambda x: x[0], plain(seen)), memory)
        for part, value in expected.items():
            np.testing.assert_allclose(action[part], value[0], atol=1e-4)
        if name in WALKS:
            due = jax.vmap(is_decision)(seen.observation)
            history = add(history, seen.observation, expected["affinity"], due)


def test_rivals_play_without_memory():
    policy = forgetful_policy("dl2", agents_of("dl2"))
    seen = seen_by("dl2")
    view = View(jax.tree.map(lambda x: x[0], seen), None, None, None)
    action, memory = policy.act(params_of("dl2"), policy.init(None), view, KEY)
    expected = agents_of("dl2").greedy(params_of("dl2"), seen, None)
    np.testing.assert_allclose(action["priority"], expected["priority"][0], atol=1e-6)
    assert memory == ()


def test_only_walks_need_the_history():
    for network in NETWORKS.values():
        env = with_history(ENV, network)
        assert (env is ENV) == (not network.remembers)
        assert hash(env) == hash(with_history(ENV, network))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"variant": "MC"}, "variant is 'MC'; accepted: DA, DA"),
        ({"kernel": "edge"}, "kernel is 'edge'; accepted: node, graph"),
        ({"width": 10}, "width is 10; it must be a multiple of twice the 4 heads"),
        ({"history": 0}, "history is 0; accepted: a whole number from 1 on"),
        ({"walk_length": 2}, "walk_length is 2; accepted: a whole number from 4 on"),
    ],
)
def test_impossible_options_are_refused(changes, words):
    with pytest.raises(JaxschedError, match=words):
        DASNetwork(**changes)
