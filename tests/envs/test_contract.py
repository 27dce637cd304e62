"""What every registered environment promises to learners, evaluators and adapters.

Each system gives a few tiny instances; all tests run on each of them. Environments may draw
random numbers: nothing here assumes that two keys lead to the same transition.
"""

from dataclasses import fields, replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.core.environment import start, step_and_reset
from jaxsched.systems import registry
from jaxsched.types import ArraySpec, DiscreteSpec, TimeStep
from tests.instances import INSTANCES, Instance

MAX_STATE_BYTES = {"das": 8192, "mlfs": 40960}  # at the paper's size; others
FEW_STATE_BYTES = 1024
COPIES = 8  # environments played side by side, of each episode
JUNK = (-1, -(2**31), 2**31 - 1, 10**6)
JUNK_REALS = (float("nan"), float("inf"), float("-inf"), 1e38)


NAMES = [f"{name}-{kind}" for name in registry.names() for kind in INSTANCES.get(name, {})]


@cache
def build(name: str) -> Instance:
    system, kind = name.split("-")
    return INSTANCES[system][kind]()


@pytest.fixture(params=NAMES)
def case(request: pytest.FixtureRequest) -> Instance:
    return build(request.param)


def test_every_system_is_tested():
    assert set(INSTANCES) == set(registry.names())


# Helpers


def is_spec(value):
    return isinstance(value, DiscreteSpec | ArraySpec)


def action_leaves(env, params):
    return jax.tree.flatten(env.action_spec(params), is_leaf=is_spec)


def constant_action(env, params, value):
    leaves, tree = action_leaves(env, params)
    actions = [
        jnp.int32(value)
        if isinstance(spec, DiscreteSpec)
        else jnp.full(spec.shape, value, spec.dtype)
        for spec in leaves
    ]
    return jax.tree.unflatten(tree, actions)


def draw_action(specs, mask, key, illegal_share):
    """A random legal action; with probability ``illegal_share`` a masked or outlandish one."""
    leaves, tree = specs
    keys = jax.random.split(key, len(leaves))
    if isinstance(leaves[0], DiscreteSpec):
        masks = jax.tree.leaves(mask)
        actions = [
            _draw_number(leaf, key, illegal_share) for leaf, key in zip(masks, keys, strict=True)
        ]
    else:  # every action is legal
        actions = [
            _draw_reals(spec, key, illegal_share) for spec, key in zip(leaves, keys, strict=True)
        ]
    return jax.tree.unflatten(tree, actions)


def _draw_number(mask, key, illegal_share):
    legal_key, choice_key, illegal_key = jax.random.split(key, 3)
    legal = jax.random.categorical(legal_key, jnp.where(mask, 0.0, -jnp.inf))
    values = jnp.array([*JUNK, mask.shape[-1], 0, 0, 0], jnp.int32)
    values = values.at[-3:].set(jnp.argmin(mask))  # the first masked action, if there is one
    illegal = jax.random.choice(illegal_key, values)
    wild = jax.random.uniform(choice_key) < illegal_share
    return jnp.where(wild, illegal, legal).astype(jnp.int32)


def _draw_reals(spec, key, junk_share):
    value_key, choice_key, junk_key = jax.random.split(key, 3)
    values = jax.random.uniform(value_key, spec.shape, spec.dtype, -1.0, 1.0)
    junk = jax.random.choice(junk_key, jnp.array(JUNK_REALS, spec.dtype), spec.shape)
    return jnp.where(jax.random.uniform(choice_key, spec.shape) < junk_share, junk, values)


class Play(NamedTuple):
    """Every episode, ``COPIES`` times, for its step bound; leaves ``[T, E * COPIES, ...]``."""

    state: Any  # before each step
    action: Any
    key: Any  # of each step
    timestep: TimeStep  # of each step
    observed: Any  # what ``observe`` says of the state after it
    records: Any  # after each step


@partial(jax.jit, static_argnames=("system", "env"))
def play(system, env, params, key, illegal_share):
    num_episodes = env.num_episodes(params)
    recorder = system.recorder(env)
    specs = action_leaves(env, params)

    def one(episode, key):
        reset_key, loop_key = jax.random.split(key)
        state, timestep = env.reset(reset_key, params, episode)

        def step(carry, key):
            state, mask, records = carry
            act_key, step_key = jax.random.split(key)
            action = draw_action(specs, mask, act_key, illegal_share)
            after, timestep = env.step(step_key, state, action, params)
            records = recorder.update(records, timestep, True)
            observed = env.observe(after, params)
            row = Play(state, action, jax.random.key_data(step_key), timestep, observed, records)
            return (after, timestep.action_mask, records), row

        carry = (state, timestep.action_mask, recorder.init(params))
        keys = jax.random.split(loop_key, env.max_steps(params) + 3)
        return jax.lax.scan(step, carry, keys)[1]

    episodes = jnp.tile(jnp.arange(num_episodes), COPIES)
    return jax.vmap(one, out_axes=1)(episodes, jax.random.split(key, len(episodes)))


@cache
def played(name: str, illegal_share: float) -> Play:
    case = build(name)
    rows = play(case.system, case.env, case.params, jax.random.key(3), illegal_share)
    return jax.tree.map(plain, rows)


def plain(leaf):
    """As a NumPy array; keys by their data."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def state_of(env, params, leaves):
    """A state from the NumPy arrays of its leaves."""
    like, _ = jax.eval_shape(env.reset, jax.random.key(0), params)

    def restore(like, leaf):
        if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(jnp.asarray(leaf))
        return jnp.asarray(leaf)

    return jax.tree.map(restore, like, leaves)


@pytest.fixture(params=[(name, share) for name in NAMES for share in (0.0, 0.5)], ids=str)
def rows(request: pytest.FixtureRequest) -> tuple[Instance, Play]:
    name, share = request.param
    return build(name), played(name, share)


def spec_leaves(spec):
    return jax.tree.leaves(spec, is_leaf=is_spec)


def assert_same(one, other, rtol=None):
    """Equal trees: bit for bit, or floats to ``rtol``."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        a, b = plain(a), plain(b)
        assert a.dtype == b.dtype
        if rtol is None or not np.issubdtype(a.dtype, np.floating):
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6)


def at(tree, *index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def flat(tree):
    """A tree of arrays as one hashable value."""
    return tuple(value for leaf in jax.tree.leaves(tree) for value in np.ravel(leaf).tolist())


# Shapes


def described(tree):
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), tree)


def test_shapes_and_dtypes(case):
    key, episode = jax.random.key(0), jnp.int32(0)
    action = constant_action(case.env, case.params, 0)
    state, first = jax.eval_shape(case.env.reset, key, case.params, episode)
    later, timestep = jax.eval_shape(case.env.step, key, state, action, case.params)
    drawn, _ = jax.eval_shape(case.env.reset, key, case.params)
    assert described(later) == described(state) == described(drawn)
    assert described(timestep) == described(first)

    observation = case.env.observation_spec(case.params)
    for spec, leaf in zip(
        spec_leaves(observation), jax.tree.leaves(first.observation), strict=True
    ):
        assert (leaf.shape, leaf.dtype) == (spec.shape, spec.dtype)
        assert not spec.names or len(set(spec.names)) == int(np.prod(spec.shape))
    masks = jax.tree.leaves(first.action_mask)
    assert all(leaf.dtype == bool for leaf in masks)
    specs, _ = action_leaves(case.env, case.params)
    if isinstance(specs[0], DiscreteSpec):
        for spec, leaf in zip(specs, masks, strict=True):
            assert leaf.shape[-1] == spec.num_actions
    scalars = [getattr(first, name) for name in ("reward", "terminated", "truncated", "elapsed")]
    dtypes = [np.float32, bool, bool, np.float32]
    assert [(s.shape, s.dtype) for s in scalars] == [((), np.dtype(d)) for d in dtypes]
    assert case.env.specs(case.params) == (observation, case.env.action_spec(case.params))


def test_parameters_are_arrays(case):
    """Then no change of their values compiles anything."""
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(case.params))


@pytest.mark.parametrize("name", registry.names())
def test_state_is_small_at_the_papers_size(name):
    system = registry.get(name)
    env = system.environment()
    params = system.params(env, system.adapt(traces.get(system.traces.train, num_traces=1))[:1])
    state, _ = jax.eval_shape(env.reset, jax.random.key(0), params)
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    assert size <= MAX_STATE_BYTES.get(name, FEW_STATE_BYTES)


def hashable_value(value):
    """A number, a word, or a tuple of numbers."""
    members = value if isinstance(value, tuple) else (value,)
    return all(isinstance(member, int | float | str | bool | None) for member in members)


def test_environments_are_values(case):
    copy = replace(case.env)
    assert copy is not case.env
    assert copy == case.env
    assert hash(copy) == hash(case.env)
    assert case.other_env != case.env
    assert len({case.env, copy, case.other_env}) == 2
    for field in fields(case.env):
        assert hashable_value(getattr(case.env, field.name))
    with pytest.raises(AttributeError):
        setattr(case.env, fields(case.env)[0].name, 1)
    assert case.env.name == case.system.name
    assert case.env.behaviour_version == case.system.behaviour_version
    options = case.system.environment_options(case.env)
    assert case.system.environment(**options) == case.env


# Play


def test_there_is_always_a_legal_action(rows):
    _, played = rows
    for mask in jax.tree.leaves(played.timestep.action_mask):
        assert mask.any(axis=-1).all()


def test_everything_is_finite_and_within_its_bounds(rows):
    case, played = rows
    for leaf in jax.tree.leaves(played.timestep):
        assert np.isfinite(leaf).all()
    specs = spec_leaves(case.env.observation_spec(case.params))
    for spec, leaf in zip(specs, jax.tree.leaves(played.timestep.observation), strict=True):
        assert (leaf >= spec.minimum).all()
        assert (leaf <= spec.maximum).all()
    assert (played.timestep.elapsed >= 0).all()


def test_episodes_end_within_their_bound(rows):
    case, played = rows
    done = played.timestep.terminated | played.timestep.truncated
    assert done[case.env.max_steps(case.params) - 1].all()
    assert not (played.timestep.terminated & played.timestep.truncated).any()


def test_observe_agrees_with_step(rows):
    _, played = rows
    assert_same(played.observed, (played.timestep.observation, played.timestep.action_mask))


def test_a_finished_episode_absorbs(rows):
    """Whatever is done then changes no state and no record, and is worth nothing."""
    _, played = rows
    done = played.timestep.terminated | played.timestep.truncated
    ended = done[:-1]  # rows before which the episode had ended are those after the first
    assert ended.any(axis=0).all()
    assert (ended <= done[1:]).all()
    assert (played.timestep.terminated[1:][ended] == played.timestep.terminated[:-1][ended]).all()
    assert (played.timestep.reward[1:][ended] == 0).all()
    assert (played.timestep.elapsed[1:][ended] == 0).all()
    seen = (played.timestep.observation, played.timestep.action_mask, played.records)
    for leaf in jax.tree.leaves(seen):
        np.testing.assert_array_equal(leaf[1:][ended], leaf[:-1][ended])
    later = ended[:-1]  # ``state`` is the one before each step
    for leaf in jax.tree.leaves(played.state):
        np.testing.assert_array_equal(leaf[2:][later], leaf[1:-1][later])


@pytest.mark.parametrize("kind", INSTANCES["sched2"])
def test_sched2_starts_nothing_after_the_end(kind):
    timestep = played(f"sched2-{kind}", 0.5).timestep
    ended = timestep.terminated[:-1]
    assert not timestep.metrics.start.started[1:][ended].any()
    assert not timestep.metrics.invalid[1:][ended].any()
    assert timestep.metrics.start.started[0].any()


def test_reset_reports_a_fresh_episode(case):
    reset = jax.jit(case.env.reset)
    for episode in range(case.env.num_episodes(case.params)):
        state, timestep = reset(jax.random.key(0), case.params, jnp.int32(episode))
        assert not timestep.done
        assert timestep.reward == timestep.elapsed == 0
        seen = timestep.observation, timestep.action_mask
        assert_same(jax.jit(case.env.observe)(state, case.params), seen)


# Purity


@pytest.mark.parametrize("name", NAMES)
def test_same_key_same_bits(name):
    first = played(name, 0.5)
    again = played.__wrapped__(name, 0.5)
    assert again is not first
    assert_same(again, first)


def test_reset_draws_every_episode(case):
    keys = jax.random.split(jax.random.key(0), 64)
    _, timestep = jax.jit(jax.vmap(case.env.reset, (0, None)))(keys, case.params)
    drawn = {flat(at(timestep.observation, i)) for i in range(len(keys))}
    reset = jax.jit(case.env.reset)
    named = {
        flat(reset(keys[0], case.params, jnp.int32(episode))[1].observation)
        for episode in range(case.env.num_episodes(case.params))
    }
    assert len(named) > 1
    assert drawn == named


def test_vmap_is_a_loop(rows):
    """Bit for bit: the steps of a batched scan, one at a time."""
    case, played = rows
    step = jax.jit(case.env.step)
    for t, b in [(0, 0), (1, 1), (2, 2), (3, 3), (5, 4), (8, 0), (-1, 0)]:
        key = jax.random.wrap_key_data(jnp.asarray(at(played.key, t, b)))
        state = state_of(case.env, case.params, at(played.state, t, b))
        action = jax.tree.map(jnp.asarray, at(played.action, t, b))
        after, timestep = step(key, state, action, case.params)
        assert_same(timestep, at(played.timestep, t, b))
        if t >= 0:
            assert_same(after, at(played.state, t + 1, b))


def test_jit_changes_nothing(case):
    """Eager and compiled steps agree (XLA may fuse floating-point operations)."""
    key, episode = jax.random.key(1), jnp.int32(0)
    step, eager, compiled = jax.jit(case.env.step), case.env.reset, jax.jit(case.env.reset)
    state, timestep = eager(key, case.params, episode)
    assert_same((state, timestep), compiled(key, case.params, episode), rtol=1e-6)
    for value in (0, -1, 0):
        action = constant_action(case.env, case.params, value)
        expected = step(key, state, action, case.params)
        state, timestep = case.env.step(key, state, action, case.params)
        assert_same((state, timestep), expected, rtol=1e-6)


def test_compiled_once(case):
    """New states, actions, episodes and parameter values compile nothing."""
    traced = []

    @jax.jit
    def step(key, state, action, params):
        traced.append("step")
        return case.env.step(key, state, action, params)

    @jax.jit
    def reset(key, params, episode):
        traced.append("reset")
        return case.env.reset(key, params, episode)

    for seed, params in enumerate((case.params, case.other_params)):
        for episode in range(case.env.num_episodes(params)):
            key = jax.random.key(seed)
            state, timestep = reset(key, params, jnp.int32(episode))
            for value in (0, 1, -1):
                action = constant_action(case.env, params, value)
                state, timestep = step(key, state, action, params)
    assert sorted(traced) == ["reset", "step"]
    assert step._cache_size() == reset._cache_size() == 1


# Automatic reset


@partial(jax.jit, static_argnames=("env", "steps", "respect"))
def drive(env, params, key, episode, time_limit, steps, respect):
    """Random legal steps with automatic reset; ``respect`` episode and limit, or pass neither."""
    chosen = episode if respect else None
    limit = time_limit if respect else None
    start_key, loop_key = jax.random.split(key)
    current = start(env, start_key, params, chosen)

    def step(current, key):
        act_key, step_key = jax.random.split(key)
        _, mask = env.observe(current.state, params)
        action = draw_action(action_leaves(env, params), mask, act_key, 0.0)
        following, timestep = step_and_reset(
            env, step_key, current, action, params, time_limit=limit, episode=chosen
        )
        row = (current.steps, env.observe(current.state, params), timestep)
        return following, row

    return jax.lax.scan(step, current, jax.random.split(loop_key, steps))[1]


def driven(case, episode=0, time_limit=2**30, respect=True):
    """Steps so far and what was seen before each step, and its time step."""
    steps = 3 * case.env.max_steps(case.params) + 2
    which = jnp.int32(episode), jnp.int32(time_limit)
    rows = drive(case.env, case.params, jax.random.key(5), *which, steps, respect)
    return jax.tree.map(np.asarray, rows)


def test_auto_reset_starts_the_chosen_episode(case):
    reset = jax.jit(case.env.reset)
    for episode in range(case.env.num_episodes(case.params)):
        steps, seen, timestep = driven(case, episode)
        ends = np.flatnonzero(timestep.done)[:-1]
        assert ends.size >= 2
        _, fresh = reset(jax.random.key(0), case.params, jnp.int32(episode))
        for end in ends:
            assert_same(at(seen, end + 1), (fresh.observation, fresh.action_mask))
            assert steps[end + 1] == 0


def test_auto_reset_counts_steps(case):
    steps, _, timestep = driven(case)
    done = timestep.done
    expected = np.where(done[:-1], 0, steps[:-1] + 1)
    np.testing.assert_array_equal(steps[1:], expected)
    assert steps[0] == 0


def test_auto_reset_reports_the_state_before_the_reset(case):
    """The time step is that of a plain step, whatever follows."""
    _, seen, timestep = driven(case)
    end = int(np.flatnonzero(timestep.done)[0])
    final = timestep.observation, timestep.action_mask
    assert timestep.terminated[end]
    assert not timestep.truncated[end]
    assert flat(at(final, end)) != flat(at(seen, end + 1))
    going = np.flatnonzero(~timestep.done[:-1])
    for leaf, following in zip(jax.tree.leaves(final), jax.tree.leaves(seen), strict=True):
        np.testing.assert_array_equal(leaf[going], following[going + 1])


def test_auto_reset_draws_episodes(case):
    _, seen, timestep = driven(case, respect=False)
    firsts = [0, *(np.flatnonzero(timestep.done)[:-1] + 1)]
    assert len({flat(at(seen[0], t)) for t in firsts}) > 1


def test_time_limit_truncates(case):
    """Cut, not ended; the next step is in a new episode."""
    limit = 3
    steps, seen, timestep = driven(case, time_limit=limit)
    np.testing.assert_array_equal(timestep.truncated, steps == limit - 1)
    assert not timestep.terminated.any()  # no episode is as short as that
    assert steps.max() == limit - 1
    _, fresh = jax.jit(case.env.reset)(jax.random.key(0), case.params, jnp.int32(0))
    assert_same(at(seen, limit), (fresh.observation, fresh.action_mask))


def test_an_end_at_the_time_limit_is_an_end(case):
    steps, _, timestep = driven(case)
    end = int(np.flatnonzero(timestep.done)[0])
    _, _, limited = driven(case, time_limit=int(steps[end]) + 1)
    assert limited.terminated[end]
    assert not limited.truncated[end]
