"""What every registered environment promises to learners, evaluators and adapters.

Each system gives a few tiny instances; all tests run on each of them. Environments may draw
random numbers: nothing here assumes that two keys lead to the same transition.
"""

from dataclasses import fields, replace
from functools import cache, partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.core.environment import Current, step_and_reset
from jaxsched.systems import functions, registry
from jaxsched.types import ArraySpec, DiscreteSpec, TimeStep
from tests.instances import INSTANCES, Instance

MAX_STATE_BYTES = {"das": 8192, "mlfs": 40960, "cluster": 8192}  # at the paper's size; others
FEW_STATE_BYTES = 1024
COPIES = 8  # environments played side by side, of each episode
JUNK = (-1, -(2**31), 2**31 - 1, 10**6)
JUNK_REALS = (float("nan"), float("inf"), float("-inf"), 1e38)
NO_LIMIT, SHORT = 2**30, 3  # of time, steps; no episode is as short as the latter
SPARE = 64  # steps beyond the longest episode's bound: every lane is reset at least twice
EAGER = ("sched2-paper", "chic-paper")  # the others compile an operation at a time for long
# Options whose own rules are compared with those of the oracles, or that show more of the same.
SLOW = (
    *("mlfs-paced", "dl2-bundles", "dl2-allreduce", "dl2-published", "das-random", "das-events"),
    *("sched2-learner", "das-shown", "chic-pair", "cluster-suspends"),
    *("cluster-shares", "cluster-fails"),
)

EXTENDED = ("cluster-paper",)  # whose rules are those of the replay engine


NAMES = [f"{name}-{kind}" for name in registry.names() for kind in INSTANCES.get(name, {})]


def by_name(names, slow):
    """Parameters of a test, those in ``slow`` and ``EXTENDED`` marked."""
    marks = {name: [pytest.mark.extended] for name in EXTENDED}
    marks |= {name: [pytest.mark.slow] for name in slow}
    return [pytest.param(name, marks=marks.get(name, [])) for name in names]


@cache
def build(name: str) -> Instance:
    system, kind = name.split("-")
    return INSTANCES[system][kind]()


@pytest.fixture(params=by_name(NAMES, SLOW))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def case(name: str) -> Instance:
    return build(name)


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
    seen: Any  # what ``observe`` says of the state before it
    timestep: TimeStep  # of each step
    records: Any  # after each step


class Driven(NamedTuple):
    """Random legal steps with automatic reset; leaves ``[T, lanes, ...]``."""

    steps: Any  # so far, before each step
    seen: Any  # before each step
    timestep: TimeStep  # of each step


class Programs(NamedTuple):
    """What is compiled of an environment; ``traced`` grows by a name with each compilation."""

    reset: Any  # (key, params, episode)
    step: Any  # (key, state, action, params)
    play: Any  # see ``play_of``
    traced: list[str]


@cache
def programs(name: str) -> Programs:
    """Compiled once for all tests: compiling is what they would spend their time on."""
    case, traced = build(name), []

    def compiled_once(function, label):
        def run(*arguments):
            traced.append(label)
            return function(*arguments)

        return jax.jit(run)

    reset, step = compiled_once(case.env.reset, "reset"), compiled_once(case.env.step, "step")
    return Programs(reset, step, jax.jit(play_of(case)), traced)


def play_of(case):
    """``play(params, starts, key, illegal_share, limit)``: one step that serves three plays.

    It returns ``free``, a :class:`Play` that is never reset; ``chosen``, each lane :class:`Driven`
    and reset to an episode of its own, with no time limit but in two further lanes of episode 0,
    which have ``SHORT`` and ``limit``; and ``drawn``, reset to whichever episode is drawn.
    ``starts`` are the states of the episodes after their resets.
    """
    env, recorder = case.env, case.system.log.recorder(case.env)

    def reset_where_done(outcome, key, current, params, **options):
        """Automatic reset after a step that was taken already."""
        taken = SimpleNamespace(
            reset=env.reset, step=lambda *_: outcome, reset_on_demand=env.reset_on_demand
        )
        return step_and_reset(taken, key, current, None, params, **options)[:2]

    def play(params, starts, key, illegal_share, limit):
        num_episodes, bound = env.num_episodes(params), env.max_steps(params)
        num_free = COPIES * num_episodes
        own = jnp.array([*range(num_episodes), 0, 0])
        limits = jnp.array([NO_LIMIT] * num_episodes + [SHORT, limit])
        ends = num_free, num_free + len(own)
        first = jnp.concatenate([jnp.arange(num_free) % num_episodes, own, jnp.zeros_like(own)])
        shares = jnp.where(jnp.arange(len(first)) < num_free, illegal_share, 0.0)
        specs = action_leaves(env, params)

        def apart(tree):
            """The lanes of each play."""
            bounds = [0, *ends, len(first)]
            return [jax.tree.map(lambda x: x[a:b], tree) for a, b in pairwise(bounds)]  # noqa: B023

        def step(carry, key):
            current, records = carry
            keys = jax.random.split(key, (len(first), 3))
            keys = keys.at[ends[0] + num_episodes : ends[1]].set(keys[ends[0]])  # as episode 0
            act_keys, step_keys, reset_keys = keys[:, 0], keys[:, 1], keys[:, 2]
            seen = jax.vmap(env.observe, (0, None))(current.state, params)
            action = jax.vmap(partial(draw_action, specs))(seen[1], act_keys, shares)
            outcome = jax.vmap(env.step, (0, 0, 0, None))(step_keys, current.state, action, params)
            free, chosen, drawn = apart((outcome, reset_keys, current))
            (state, timestep), _, before = free
            records = jax.vmap(recorder.update, (0, 0, None))(records, timestep, True)
            row = Play(
                before.state,
                *apart((action, jax.random.key_data(step_keys), seen))[0],
                timestep,
                records,
            )
            after_chosen, chosen_timestep = jax.vmap(
                lambda part, limit, episode: reset_where_done(
                    *part, params, time_limit=limit, episode=episode
                )
            )(chosen, limits, own)
            after_drawn, drawn_timestep = jax.vmap(lambda part: reset_where_done(*part, params))(
                drawn
            )
            following = jax.tree.map(
                lambda *parts: jnp.concatenate(parts),
                Current(state, before.steps + 1),
                after_chosen,
                after_drawn,
            )
            _, chosen_before, drawn_before = apart((current.steps, seen))
            rows = (
                row,
                Driven(*chosen_before, chosen_timestep),
                Driven(*drawn_before, drawn_timestep),
            )
            return (following, records), rows

        current = Current(at(starts, first), jnp.zeros(len(first), jnp.int32))
        records = jax.tree.map(
            lambda x: jnp.broadcast_to(x, (num_free, *jnp.shape(x))), recorder.init(params)
        )
        keys = jax.random.split(key, bound + SPARE)
        free, chosen, drawn = jax.lax.scan(step, (current, records), keys)[1]
        return at(free, slice(bound + 3)), chosen, drawn

    return play


@cache
def played(name: str, illegal_share: float, limit: int) -> tuple[Play, Driven, Driven]:
    """Played by the compiled program, as NumPy arrays; see ``play_of``."""
    case = build(name)
    fresh = [state for state, _ in resets(name)]
    starts = jax.tree.map(lambda *leaves: jnp.stack(leaves), *fresh)
    key = jax.random.key(3)
    rows = programs(name).play(case.params, starts, key, illegal_share, jnp.int32(limit))
    return jax.tree.map(plain, rows)


@cache
def resets(name: str) -> list[Any]:
    """State and time step of each episode after its reset."""
    case, reset = build(name), programs(name).reset
    episodes = range(case.env.num_episodes(case.params))
    return [reset(jax.random.key(0), case.params, jnp.int32(episode)) for episode in episodes]


def driven(name: str) -> Driven:
    """Lanes reset to the episode of their number, the first ``E`` without limit."""
    return played(name, 0.0, NO_LIMIT)[1]


def first_end(name: str) -> int:
    """Steps of the first episode of lane 0 of ``driven``."""
    return int(np.flatnonzero(driven(name).timestep.done[:, 0])[0]) + 1


def limited(name: str) -> tuple[Play, Driven, Driven]:
    """Half illegal free play; the last ``chosen`` lane's limit is where it would end anyway."""
    return played(name, 0.5, first_end(name))


def plain(leaf):
    """As a NumPy array; keys by their data."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def state_of(like, leaves):
    """A state like another one from the NumPy arrays of its leaves."""

    def restore(like, leaf):
        if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(jnp.asarray(leaf))
        return jnp.asarray(leaf)

    return jax.tree.map(restore, like, leaves)


@pytest.fixture(params=(0.0, 0.5))
def rows(name: str, request: pytest.FixtureRequest) -> tuple[Instance, Play]:
    share = request.param
    return build(name), (limited(name) if share else played(name, share, NO_LIMIT))[0]


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
    env = functions.environment(system)
    params = env.params(
        system.jobs.adapted(traces.get(functions.traces(system).train, num_traces=1))[:1]
    )
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
    assert case.env.behaviour_version == case.system.environment.behaviour_version
    options = functions.environment_options(case.system, case.env)
    assert functions.environment(case.system, **options) == case.env
    renamed = case.env.former_options
    assert set(renamed.values()) <= set(options) and not set(renamed) & set(options)
    before = {new: old for old, new in renamed.items()}
    old = {before.get(name, name): value for name, value in options.items()}
    assert functions.saved_environment(case.system, old) == case.env


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
    reported = played.timestep.observation, played.timestep.action_mask
    assert_same(at(played.seen, slice(1, None)), at(reported, slice(-1)))


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
    timestep = limited(f"sched2-{kind}")[0].timestep
    ended = timestep.terminated[:-1]
    assert not timestep.metrics.start.started[1:][ended].any()
    assert not timestep.metrics.invalid[1:][ended].any()
    assert timestep.metrics.start.started[0].any()


def test_reset_reports_a_fresh_episode(name):
    seen = played(name, 0.0, NO_LIMIT)[0].seen
    for episode, (_, timestep) in enumerate(resets(name)):
        assert not timestep.done
        assert timestep.reward == timestep.elapsed == 0
        assert_same(at(seen, 0, episode), (timestep.observation, timestep.action_mask))


# Purity


def test_same_key_same_bits(name):
    first = limited(name)
    again = played.__wrapped__(name, 0.5, first_end(name))
    assert again is not first
    assert_same(again, first)


def test_reset_draws_every_episode(name):
    _, _, drawn = limited(name)
    starts = [t for t in np.argwhere(drawn.timestep.done[:-1])]
    found = {flat(at(drawn.seen[0], t + 1, lane)) for t, lane in starts}
    named = {flat(timestep.observation) for _, timestep in resets(name)}
    assert len(named) > 1
    assert found == named


def test_vmap_is_a_loop(name, rows):
    """Bit for bit: the steps of a batched scan, one at a time."""
    case, played = rows
    step, (like, _) = programs(name).step, resets(name)[0]
    for t, b in [(0, 0), (1, 1), (2, 2), (3, 3), (5, 4), (8, 0), (-1, 0)]:
        key = jax.random.wrap_key_data(jnp.asarray(at(played.key, t, b)))
        state = state_of(like, at(played.state, t, b))
        action = jax.tree.map(jnp.asarray, at(played.action, t, b))
        after, timestep = step(key, state, action, case.params)
        assert_same(timestep, at(played.timestep, t, b))
        if t >= 0:
            assert_same(after, at(played.state, t + 1, b))


@pytest.mark.parametrize("name", by_name(NAMES, set(NAMES) - set(EAGER)))
def test_jit_changes_nothing(name):
    """Eager and compiled steps agree (XLA may fuse floating-point operations)."""
    case, compiled = build(name), programs(name)
    key, episode = jax.random.key(1), jnp.int32(0)
    state, timestep = case.env.reset(key, case.params, episode)
    assert_same((state, timestep), compiled.reset(key, case.params, episode), rtol=1e-6)
    for value in (0, -1, 0):
        action = constant_action(case.env, case.params, value)
        expected = compiled.step(key, state, action, case.params)
        state, timestep = case.env.step(key, state, action, case.params)
        assert_same((state, timestep), expected, rtol=1e-6)


def test_compiled_once(name):
    """New states, actions, episodes and parameter values compile nothing."""
    case, (reset, step, _, traced) = build(name), programs(name)
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


def test_auto_reset_starts_the_chosen_episode(name):
    steps, seen, timestep = driven(name)
    for episode, (_, fresh) in enumerate(resets(name)):
        ends = np.flatnonzero(timestep.done[:-1, episode])
        assert ends.size >= 2
        for end in ends:
            assert_same(at(seen, end + 1, episode), (fresh.observation, fresh.action_mask))
            assert steps[end + 1, episode] == 0


def test_auto_reset_counts_steps(name):
    steps, _, timestep = driven(name)
    expected = np.where(timestep.done[:-1], 0, steps[:-1] + 1)
    np.testing.assert_array_equal(steps[1:], expected)
    assert (steps[0] == 0).all()


def test_auto_reset_reports_the_state_before_the_reset(name):
    """The time step is that of a plain step, whatever follows."""
    _, seen, timestep = at(driven(name), slice(None), 0)
    end = first_end(name) - 1
    final = timestep.observation, timestep.action_mask
    assert timestep.terminated[end]
    assert not timestep.truncated[end]
    assert flat(at(final, end)) != flat(at(seen, end + 1))
    going = np.flatnonzero(~timestep.done[:-1])
    for leaf, following in zip(jax.tree.leaves(final), jax.tree.leaves(seen), strict=True):
        np.testing.assert_array_equal(leaf[going], following[going + 1])


def test_auto_reset_draws_episodes(name):
    _, seen, timestep = at(played(name, 0.0, NO_LIMIT)[2], slice(None), 0)
    firsts = [0, *(np.flatnonzero(timestep.done[:-1]) + 1)]
    assert len({flat(at(seen[0], t)) for t in firsts}) > 1


def test_time_limit_truncates(name):
    """Cut, not ended; the next step is in a new episode."""
    steps, seen, timestep = at(driven(name), slice(None), -2)
    np.testing.assert_array_equal(timestep.truncated, steps == SHORT - 1)
    assert not timestep.terminated.any()
    assert steps.max() == SHORT - 1
    _, fresh = resets(name)[0]
    assert_same(at(seen, SHORT), (fresh.observation, fresh.action_mask))


def test_an_end_at_the_time_limit_is_an_end(name):
    limit = first_end(name)
    _, _, timestep = at(limited(name)[1], slice(None), -1)
    assert timestep.terminated[limit - 1]
    assert not timestep.truncated[limit - 1]
