"""Chic by hand: the worked examples, the options, and what is refused."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.evaluation import run_episodes
from jaxsched.elastic.models import CHIC_COEFFICIENTS
from jaxsched.envs.chic import CHIC_JOBS, Chic, OptimusIntervals
from jaxsched.envs.chic.heuristics import baseline
from jaxsched.envs.chic.learn import PRESETS
from jaxsched.envs.chic.show import log as rec
from jaxsched.envs.chic.system import SYSTEM
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.runs.overrides import override
from jaxsched.systems import functions, registry

KEY = jax.random.key(0)
RESNET, VGG, RESNEXT = range(3)


def table(*rows):
    names = [column.name for column in CHIC_JOBS]
    return JobTable(dict(zip(names, zip(*rows, strict=True), strict=True)), schema=CHIC_JOBS)


@partial(jax.jit, static_argnames="env")
def step_and_record(env, state, action, params, records):
    state, seen = env.step(KEY, state, action, params)
    return state, seen, rec.recorder(env).update(records, seen, jnp.bool_(True))


@partial(jax.jit, static_argnames="env")
def reset(env, params):
    return env.reset(KEY, params, jnp.int32(0))


def play(env, actions, *rows, coefficients=CHIC_COEFFICIENTS, **scalars):
    """Time steps of one table under these actions, the first of the reset; and the records."""
    filler = table(*[(0, VGG, 1)] * 2)  # so that all tables here have one shape
    params = env.params([table(*rows), filler], coefficients=coefficients, **scalars)
    state, seen = reset(env, params)
    records, all_seen = rec.recorder(env).init(params), [seen]
    for action in actions:
        state, seen, records = step_and_record(env, state, jnp.int32(action), params, records)
        all_seen.append(seen)
    return all_seen, records, (env, state, params)


def rewards(seen):
    return [float(s.reward) for s in seen[1:]]


def test_one_workload():
    """g(2, 1) = 11.5 + 1.9 + 2.6 + 0.40 + 0.42 = 16.82: 100 iterations take 1682 s."""
    seen, records, (env, _, params) = play(Chic(), [0, 0, 1, 6], (0, RESNET, 100))
    np.testing.assert_allclose(rewards(seen), [-1.0, 0.0, 1.0, -1682 / 1200], rtol=1e-6)
    assert [bool(s.terminated) for s in seen] == [False] * 4 + [True]
    np.testing.assert_allclose([float(s.elapsed) for s in seen], [0, 0, 0, 0, 1682.0], rtol=1e-6)
    batched = jax.tree.map(lambda x: np.asarray(x)[None], records)
    metrics = rec.summarise(env, params, [0], batched)
    np.testing.assert_allclose(metrics["avg_jct"], 1682.0, rtol=1e-6)
    np.testing.assert_allclose(metrics["utilization"], 0.2, rtol=1e-6)
    assert not seen[-1].observation.any()
    assert seen[-1].action_mask.tolist() == [False] * 6 + [True]


def test_an_arrival_ends_the_phase():
    """ResNeXt-110 with one of each: g = 19.86, so 600 s are 30 iterations and 70 remain."""
    seen, _, _ = play(Chic(), [0, 1, 6], (0, RESNEXT, 100), (600, RESNET, 50))
    np.testing.assert_allclose(float(seen[3].elapsed), 600.0)
    np.testing.assert_allclose(seen[3].observation[3], 0.7, rtol=1e-6)
    np.testing.assert_allclose(seen[3].observation[9], 0.5, rtol=1e-6)
    np.testing.assert_allclose(rewards(seen)[-1], -0.5, rtol=1e-6)


def test_pairs():
    """One action gives a worker and a PS, without bonus."""
    seen, _, _ = play(Chic(pair=True), [0, 0, 3], (0, RESNET, 100))
    np.testing.assert_allclose(seen[2].observation[:5], [1, 0, 0, 1.0, 0.2], rtol=1e-6)
    seconds = 100 * (23.0 / 2 + 1.9 + 1.3 + 0.4 + 0.84)
    np.testing.assert_allclose(rewards(seen), [0.0, 0.0, -seconds / 1200], rtol=1e-6)


def test_condition_2_ends_the_decisions():
    """A pair more makes ResNet-50 no faster from six pairs on: any action trains then."""
    rows = (0, RESNET, 100)
    seen, _, _ = play(Chic(pair=True), [0] * 7, rows)
    assert seen[6].action_mask.tolist() == [False, False, False, True]
    assert bool(seen[7].metrics.phase)
    seen, _, _ = play(Chic(pair=True, stop_on_cond2=False), [0] * 7, rows)
    assert seen[6].action_mask.tolist() == [True, False, False, True]
    assert not bool(seen[7].metrics.phase)


def test_the_most_decisions_of_a_phase():
    seen, _, _ = play(Chic(max_decisions=2), [5, 5, 5], (0, RESNET, 100))
    assert [bool(s.metrics.phase) for s in seen] == [False, False, False, True]
    assert [bool(s.metrics.missed) for s in seen] == [False, True, True, False]
    np.testing.assert_allclose(rewards(seen), [-5, -5, -1.0], rtol=1e-6)


def test_void_outside_its_phase():
    """It ends the phase with what is allocated, or is a decision without effect."""
    actions, rows = [0, 6, 1, 9, 6, 6], (0, RESNET, 100)
    seen, _, _ = play(Chic(), actions, rows)
    assert [bool(s.metrics.phase) for s in seen[1:]] == [False, True, False, True, True, True]
    seen, records, _ = play(Chic(void_outside="inert", max_decisions=5), actions, rows)
    assert [bool(s.metrics.phase) for s in seen[1:]] == [False] * 5 + [True]
    assert [bool(s.metrics.decides) for s in seen[1:]] == [True] * 5 + [False]
    assert rewards(seen)[:5] == [-1.0, 0.0, 1.0, 0.0, 0.0]
    np.testing.assert_array_equal(seen[4].observation, seen[3].observation)
    assert seen[5].action_mask.tolist() == [False] * 6 + [True]
    seconds = 100 * (23.0 + 1.9 + 1.3 + 0.2 + 0.42)
    np.testing.assert_allclose(records.finish[0], seconds, rtol=1e-6)


def test_recipes_say_how_void_differs_from_the_paper():
    inert = override(PRESETS["paper"], ["env.void_outside=inert"])
    assert SYSTEM.recipes.departures.of(inert) == ()
    assert "void ends the decision phase" in SYSTEM.recipes.departures.of(PRESETS["paper"])[0]
    with pytest.raises(JaxschedError, match="one of ends, inert"):
        override(PRESETS["paper"], ["env.void_outside=waits"])


def test_rules_end_their_phases_in_any_environment():
    """Their void comes once the allocation is complete, so that it may end the phase."""
    env = Chic(void_outside="inert")
    for name in ("random", "round_robin", "optimus_event", "search"):
        assert functions.heuristic(registry.get("chic"), name, env, 3, {}).env == Chic()


def test_a_unit_that_does_not_fit():
    seen, _, _ = play(Chic(capacity=(2, 12, 60)), [0, 0, 0], (0, RESNET, 100))
    assert seen[2].action_mask.tolist() == [False, True] + [False] * 4 + [True]
    assert [bool(s.metrics.blocked) for s in seen] == [False, False, False, True]
    assert float(seen[3].reward) == 0.0


def test_free_choice_changes_the_reported_mask_only():
    rows = [(0, RESNET, 100), (700, VGG, 60)]
    actions = [0, 4, 0, 1, 1, 0, 6, 2, 3, 6, 0, 1, 6]
    seen, records, _ = play(Chic(), actions, *rows)
    free, free_records, _ = play(Chic(free_choice=True), actions, *rows)
    for one, other in zip(seen, free, strict=True):
        assert one.reward == other.reward
        np.testing.assert_array_equal(one.observation, other.observation)
        void_only = not one.action_mask[:-1].any()
        assert other.action_mask.tolist() == [not void_only] * 6 + [True]
    np.testing.assert_array_equal(records.finish, free_records.finish)


def test_truncation_absorbs():
    """Nobody ever trains; the third stall passes the limit."""
    seen, records, _ = play(Chic(), [6] * 6, (0, RESNET, 100), max_time=3000.0)
    assert [bool(s.truncated) for s in seen] == [False, False, False, True, True, True, True]
    assert not any(bool(s.terminated) for s in seen)
    assert rewards(seen)[3:] == [0.0] * 3
    assert [float(s.elapsed) for s in seen[1:]] == [1200.0] * 3 + [0.0] * 3
    assert int(records.phases) == 3


def test_decisions_beyond_the_time_limit_do_not_truncate():
    """Only a training phase does (section 3)."""
    actions, scalars = [0, 1, 0, 6], {"decision_seconds": 10.0, "max_time": 15.0}
    seen, _, _ = play(Chic(), actions, (0, RESNET, 100), (5000, VGG, 100), **scalars)
    assert [bool(s.truncated) for s in seen] == [False] * 4 + [True]


def test_the_step_bound_holds():
    """Of policies that waste everything they can."""
    env = Chic(window=1, max_decisions=2, max_stalls=5)
    params = env.params([table((0, RESNET, 3), (900, VGG, 2))], max_time=5000.0, stall_seconds=1000)
    state, seen = reset(env, params)

    @jax.jit
    def done_before_each_step(action):
        def step(carry, _):
            state, done = carry
            state, seen = env.step(KEY, state, action, params)
            return (state, seen.done), done

        return jax.lax.scan(step, (state, seen.done), length=env.max_steps(params) + 1)[1]

    for action in (-1, 0, 1):
        before = done_before_each_step(jnp.int32(action))
        assert before[-1]
        assert not before[0]


def test_random_is_uniform_over_units():
    env = Chic(window=2, free_choice=True)
    params = env.params([table((0, RESNET, 100))])
    state, _ = reset(env, params)
    policy = baseline("random", env)
    view = type("View", (), {"state": state, "params": params})
    keys = jax.random.split(KEY, 400)
    actions = jax.vmap(lambda key: policy.act((), (), view, key)[0])(keys)
    counts = np.bincount(np.asarray(actions), minlength=5)
    assert counts[2:].tolist() == [0, 0, 0]
    assert 150 < counts[0] < 250


@pytest.mark.parametrize("name", ["random", "round_robin", "search"])
@pytest.mark.parametrize("pair", [False, True])
def test_rules_finish_everything(name, pair):
    env = Chic(window=2, pair=pair, capacity=(4, 30, 200))
    params = env.params([table((0, VGG, 30), (0, RESNET, 20), (5, RESNEXT, 9), (2000, VGG, 3))])
    outcome = run_episodes(
        env, baseline(name, env), rec.recorder(env), params, jnp.zeros(1, jnp.int32), KEY
    )
    assert outcome.finished.all()
    assert (outcome.records.finish > 0).all()


def test_coefficients_may_be_given():
    coefficients = np.array([[10.0, 1, 0, 0, 0]] * 3)
    seen, _, _ = play(Chic(), [0, 1, 6], (0, RESNET, 100), coefficients=coefficients)
    np.testing.assert_allclose(float(seen[-1].elapsed), 1100.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Chic(window=0), "window is 0; accepted: a whole number from 1 to 1024"),
        (lambda: Chic(max_decisions=-1), "max_decisions is -1"),
        (lambda: Chic(free_choice=1), "free_choice is 1; accepted: true or false"),
        (lambda: Chic(void_outside="x"), "void_outside is 'x'; accepted: ends, inert"),
        (lambda: Chic(capacity=(1, 2)), "accepted: three whole numbers (gpus, cpus, memory_gb)"),
        (lambda: Chic(capacity=(0, 0, 0)), "capacity"),
        (lambda: Chic(capacity=(2**11, 2**11, 2**11)), "bits"),
        (lambda: OptimusIntervals(on_block="x"), "on_block is 'x'; accepted: stop, skip"),
        (lambda: OptimusIntervals(interval=0), "interval is 0; accepted: a number above 0"),
        (lambda: OptimusIntervals(max_instants=0), "max_instants is 0"),
        (lambda: baseline("drf", Chic()), "unknown policy 'drf'; known are random"),
        (lambda: baseline("optimus_event", Chic(pair=True)), "accepted: pair false"),
        (lambda: baseline("search", Chic(window=10)), "search would compare"),
        (lambda: Chic().params([]), "no job tables"),
        (lambda: Chic().params([table((0, 0, 1))], p3=1.0), "no parameter 'p3'"),
        (lambda: Chic().params([table((0, 0, 1))], stall_seconds=1.0), "at most max_stalls"),
        (lambda: Chic().params([table((0, 0, 1))], coefficients=-np.ones((3, 5))), "positive"),
        (lambda: Chic().params([table((0, 0, 1))], coefficients=np.ones((2, 5))), "[3, 5]"),
        (lambda: Chic(capacity=(10, 5, 99)).params([table((0, 0, 1), (3, 1, 1))]), "job 1"),
        (
            lambda: OptimusIntervals().params([table((0, 0, 1))], interval=1.0),
            "max_time / interval is 10000000.0",
        ),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(JaxschedError) as refusal:
        make()
    text = str(refusal.value)
    assert message in text
    assert "\n" not in text


def test_a_capacity_from_a_file_is_the_same():
    assert Chic(capacity=[10, 120, 600]) == Chic()
    assert hash(Chic(capacity=[10, 120, 600])) == hash(Chic())
