"""Functions over lanes give what ``jax.vmap`` gives, each rule and whole environments."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxsched.bench.loops import at_random, environment_loop, lowering_of, start_many
from jaxsched.core.environment import step_and_reset
from jaxsched.errors import JaxschedError
from jaxsched.ops import target
from jaxsched.ops.lanes import LaneFunction
from jaxsched.systems import golden, registry
from tests.golden_check import GOLDEN, load
from tests.instances import INSTANCES

LANES, BLOCK = 5, 256
TABLE = jnp.arange(24, dtype=jnp.int32).reshape(4, 6) * 7 % 11
FUNCTIONS = {
    "arithmetic": lambda t, n, x: (n * 3 - t[0, :4] // 2, x / 2.0 + n, -n % 5, jnp.abs(n) ** 2),
    "comparisons": lambda t, n, x: (n < 2, (n == 3) | ~(n >= 1), jnp.clip(n, 0, 3), jnp.sign(n)),
    "bits": lambda t, n, x: (n << 2, n >> 1, n & 6, n ^ 3, lax.population_count(n)),
    "reductions": lambda t, n, x: (n.sum(), n.max(), x.min(), (n > 1).any(), (n > -9).all()),
    "running": lambda t, n, x: (jnp.cumsum(n), lax.cummax(n, reverse=True), jnp.cumprod(n)),
    "positions": lambda t, n, x: (jnp.argmax(n), jnp.argmin(x), jnp.argmax(n > 2)),
    "shapes": lambda t, n, x: (
        n.reshape(2, 2).T,
        jnp.flip(n),
        jnp.pad(n, (1, 2), constant_values=4),
        jnp.stack([n, n + 1]),
        jnp.concatenate([n, t[1]]),
        jnp.broadcast_to(n[:, None], (4, 3)),
        n[::2],
    ),
    "own array": lambda t, n, x: (n[n[0] % 4], lax.dynamic_slice(x, (n[1],), (2,)), x[n[2] - 9]),
    "shared table": lambda t, n, x: (
        t[n[0] % 4],
        t[n % 4, 2],
        t.at[n[3], n[0]].get(mode="fill", fill_value=-1),
        jnp.take(t.reshape(-1), n, mode="clip"),
        lax.dynamic_slice(t, (n[0], n[1]), (2, 3)),
    ),
    "outside": lambda t, n, x: (t.at[n * 9, 0].get(mode="fill"), x.at[n * 9].get(mode="fill")),
    "rows side by side": lambda t, n, x: jnp.take_along_axis(t, (n % 6)[:, None], 1),
    "calls": lambda t, n, x: (jax.jit(jnp.where)(n > 2, n, t[2, :4]), jax.nn.relu(x)),
    "not a number": lambda t, n, x: (
        jnp.argmax(jnp.where(n > 1, jnp.nan, x)),
        jnp.argmin(jnp.where(n > 1, jnp.nan, x)),
    ),
    "promised in range": lambda t, n, x: (x[n * 9], t[n * 3, n - 7], n[jnp.array([9, -7])]),
    "large places": lambda t, n, x: (
        x.at[n.astype(jnp.uint32)].get(mode="clip"),
        x.at[n.astype(jnp.uint8)].get(mode="fill", fill_value=7),
    ),
    "products of small numbers": lambda t, n, x: (
        lax.dot(
            jnp.full((1, 4), 100, jnp.int8) * (n > 0).astype(jnp.int8),
            jnp.full((4, 1), 100, jnp.int8),
            preferred_element_type=jnp.int32,
        ),
        x.astype(jnp.bfloat16) @ jnp.ones(4, jnp.float32),
    ),
    "checkpointed": lambda t, n, x: jax.checkpoint(lambda y: jnp.where(y > 0, y, 2 * y))(x),
    "chosen by number": lambda t, n, x: lax.select_n(n % 2, n, 5 * n),
    "products": lambda t, n, x: (x @ t[:, :2].astype(jnp.float32), n @ n, jnp.outer(x, x)),
    "known table": lambda t, n, x: jnp.asarray(np.arange(5) ** 2)[n % 5],
    "one-hot": lambda t, n, x: jnp.sum(jnp.where(jnp.arange(4) == n[0] % 4, n, 0)),
    "shared alone": lambda t, n, x: (jnp.sort(t.reshape(-1))[:3], t.sum() + 0 * n[0]),
    "nothing of the lanes": lambda t, n, x: (jnp.arange(3), t[0]),
    "counted types": lambda t, n, x: (
        n.astype(jnp.float32) * x,
        x.astype(jnp.int32),
        (n > 1).astype(jnp.uint8),
        lax.bitcast_convert_type(x, jnp.int32),
    ),
}


def own_arguments():
    rng = np.random.default_rng(0)
    n = jnp.asarray(rng.integers(-3, 6, (LANES, 4)), jnp.int32)
    return n, jnp.asarray(rng.normal(size=(LANES, 4)), jnp.float32)


def last(tree):
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), tree)


def first(tree):
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), tree)


def over_lanes(function, shared, *own):
    """``jax.vmap(function, (None, 0, ...))(shared, *own)``."""
    one = [jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in own]
    return first(LaneFunction(function, shared, *one)(*last(own)))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("traced", [False, True], ids=["operations", "a program"])
def test_equals_vmap(name, traced):
    function, own = FUNCTIONS[name], own_arguments()
    expected = jax.vmap(function, (None, 0, 0))(TABLE, *own)
    run = lambda table, *own: over_lanes(function, table, *own)  # noqa: E731
    got = (jax.jit(run) if traced else run)(TABLE, *own)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if jnp.issubdtype(one.dtype, jnp.floating):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        else:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("function", "primitive"),
    [
        (lambda t, n, x: jnp.sort(n), "sort"),
        (lambda t, n, x: lax.while_loop(lambda k: k < 3, lambda k: k + 1, n[0]), "while"),
        (lambda t, n, x: jax.random.uniform(jax.random.key(n[0])), "random_seed"),
        (lambda t, n, x: jnp.zeros(4).at[n[0]].set(1.0), "scatter"),
    ],
)
def test_names_what_is_not_covered(function, primitive):
    with pytest.raises(JaxschedError, match=f"no rule for the primitive '{primitive}'"):
        over_lanes(function, TABLE, *own_arguments())


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda t, n, x: n[:0].sum(), "of arrays without numbers"),
        (lambda t, n, x: (n, x[:0]), "arrays without numbers"),
        (lambda t, n, x: lax.bitcast_convert_type(x, jnp.uint8), "to another width"),
        (lambda t, n, x: lax.pad(x, 0.0, [(-1, 0, 0)]), "cuts off"),
    ],
)
def test_refuses_in_one_line(function, words):
    with pytest.raises(JaxschedError, match=words) as caught:
        over_lanes(function, TABLE, *own_arguments())
    assert "\n" not in str(caught.value)


def test_steps_that_lanes_cannot_write_are_vectorised_on_a_gpu():
    case = INSTANCES["sched2"]["paper"]()
    env = replace(case.env, reward="dense")
    chooser = at_random(env.action_spec(case.params))
    with target.tracing_for("gpu"):
        assert lowering_of(case.env, case.params, chooser) == "lanes"
        assert lowering_of(env, case.params, chooser) == "vmap"
        with target.lowered_by("lanes"):
            assert lowering_of(env, case.params, chooser) == "lanes"


def test_needs_no_rule_for_what_no_result_needs():
    def function(t, n, x):
        jax.random.split(jax.random.key(n[0]))
        return n + 1

    over_lanes(function, TABLE, *own_arguments())


def test_same_operations_are_written_once():
    def function(t, n, x):
        return (n[0] + n[1]) * (n[1] + n[0]), (n[0] + n[1]) * 2

    spec = jax.ShapeDtypeStruct((4,), jnp.int32), jax.ShapeDtypeStruct((4,), jnp.float32)
    program = LaneFunction(function, TABLE, *spec)
    written = jax.make_jaxpr(program.of_vectors)([[*last(leaf)] for leaf in own_arguments()])
    names = [each.primitive.name for each in written.eqns]
    assert (names.count("add"), names.count("mul")) == (1, 2)


def transitions(env, step, params, states, actions):
    """What a step makes of states and actions ``[B, ...]``: over lanes, and by ``jax.vmap``.

    Operation by operation, as XLA takes minutes to compile thousands of them for a processor, and
    ``BLOCK`` at a time, so that each of these compiles once.
    """

    def one(params, state, action):
        following, timestep = step(env, jax.random.key(0), state, action, params)
        return following, timestep.reward, timestep.terminated, timestep.truncated

    with target.tracing_for("gpu"):
        own = states, actions
        plain = jax.jit(jax.vmap(one, (None, 0, 0)))(params, *own)
        spec = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), own)
        lanes, count = LaneFunction(one, params, *spec), len(jax.tree.leaves(states)[0])
        places = [jnp.arange(at, at + BLOCK) % count for at in range(0, count, BLOCK)]
        got = [first(lanes(*last(jax.tree.map(lambda x, at=at: x[at], own)))) for at in places]
        together = jax.tree.map(lambda *blocks: jnp.concatenate(blocks)[:count], *got)
        return together, plain


def assert_alike(got, expected):
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        if jnp.issubdtype(one.dtype, jnp.floating):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["sched2", "dl2", "chic"])
def test_environments_step_alike(name):
    """At random, from reset to reset."""
    case = INSTANCES[name]["paper"]()
    env, params = case.env, case.params
    act = at_random(env.action_spec(params)).act

    def step(self, key, current, action, params):
        return step_and_reset(self, key, current, action[0], params, episode=action[1])

    def play(current, draw):
        seen = jax.vmap(lambda state: env.observe(state, params))(current.state)
        chosen, _ = jax.vmap(act)(draw, *seen, ())
        action = chosen, (draw >> 16).astype(jnp.int32) % env.num_episodes(params)
        following, timestep = jax.vmap(lambda c, a: step(env, jax.random.key(0), c, a, params))(
            current, action
        )
        return following, (current, action, timestep.done)

    draws = jax.random.bits(jax.random.key(2), (STEPS[name], LANES), jnp.uint32)
    begun = start_many(env, params, LANES)
    _, played = jax.jit(lambda begun: lax.scan(play, begun, draws))(begun)
    currents, actions, done = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), played)
    assert done.any()
    assert_alike(*transitions(env, step, params, currents, actions))


def test_timed_loop_over_lanes():
    """The loop that is timed gives the same by either lowering, and takes lanes on a GPU."""
    case = INSTANCES["sched2"]["paper"]()
    chooser = at_random(case.env.action_spec(case.params))
    found = {}
    with target.tracing_for("gpu"):
        begun = start_many(case.env, case.params, LANES)
        for lowering in ("vmap", "lanes", None):
            with target.lowered_by(lowering):
                loop = environment_loop(case.env, case.params, chooser, batch=LANES, num_steps=60)
                if lowering is None:
                    program = jax.make_jaxpr(loop)(jax.random.key(1), begun)
                else:
                    found[lowering] = jax.jit(loop)(jax.random.key(1), begun)
    assert_alike(found["lanes"], found["vmap"])
    assert (found["vmap"][0].steps < 60).all()
    scanned = next(e for e in program.jaxpr.eqns if e.primitive.name == "scan")
    assert any(leaf.aval.shape == (2, 4, LANES) for leaf in scanned.outvars)  # servers, GPUs, lanes


def test_lowering_by_device():
    assert target.lowering(10, alone=True) == "vmap"
    with target.tracing_for("gpu"):
        assert target.lowering(target.MOST_IN_LANES, alone=True) == "lanes"
        assert target.lowering(target.MOST_IN_LANES + 1, alone=True) == "vmap"
        assert target.lowering(10, alone=False) == "vmap"
        with target.lowered_by("vmap"):
            assert target.lowering(10, alone=True) == "vmap"
    with target.lowered_by("kernel"):
        assert target.lowering(10_000, alone=False) == "kernel"
    with (
        pytest.raises(JaxschedError, match="lowering: 'warps'; accepted: vmap, lanes, kernel"),
        target.lowered_by("warps"),
    ):
        pass


WITH_LOOPS = {"09_auto_advance", "18_dense_reward", "no_overlap_measured_bundle_start"}
STEPS = {"sched2": 60, "dl2": 200, "chic": 400}
STEMS = [
    (name, path.stem)
    for name in ("sched2", "dl2", "chic")
    for path in sorted((GOLDEN / name).glob("*.json"))
]


@pytest.mark.parametrize(("name", "stem"), STEMS, ids=[stem for _, stem in STEMS])
def test_golden_cases(name, stem, monkeypatch):
    """Every transition of a case that is an episode; with a loop in a step there is no program."""
    case, system = load(GOLDEN / name / f"{stem}.json"), registry.get(name)
    step, seen = system.environment.step, []

    def stepped(self, key, state, action, params):
        jax.debug.callback(lambda *given: seen.append(given), state, action)
        return step(self, key, state, action, params)

    try:
        episode = golden.episode_of(system, case)
    except JaxschedError:
        pytest.skip("no episode")
    if type(episode.env) is not system.environment:
        pytest.skip("whole slots or intervals as steps")
    monkeypatch.setattr(system.environment, "step", stepped)
    with golden.precision(system):
        jax.clear_caches()
        golden.play(system, episode)
        jax.effects_barrier()
        jax.clear_caches()
        monkeypatch.undo()
        states, actions = jax.tree.map(lambda *leaves: jnp.stack(leaves), *seen)
        given = episode.env, step, episode.params, states, actions
        if stem in WITH_LOOPS:
            with pytest.raises(JaxschedError, match="no rule for the primitive 'while'"):
                transitions(*given)
        else:
            assert_alike(*transitions(*given))
