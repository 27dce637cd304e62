"""Learning in DL2's published simulator: its jobs, the agent's view, teachers, recipes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.core import training
from jaxsched.core.policies import View
from jaxsched.envs.dl2.heuristics.published import action_rule
from jaxsched.envs.dl2.jobs import (
    ARTEFACT_ARRIVALS,
    ARTEFACT_EPOCHS,
    ARTEFACT_MODELS,
    ARTEFACT_SHARES,
    SLOT_S,
    published_tables,
)
from jaxsched.envs.dl2.learn import join_rows, policy_network, split_rows, value_network
from jaxsched.envs.dl2.learn.hooks import (
    Counted,
    Counts,
    fitted,
    forced_actions,
    job_aware,
    shuffle_rows,
    unlabelled_end,
)
from jaxsched.envs.dl2.learn.presets import ARTEFACT, NOT_AS_PUBLISHED
from jaxsched.envs.dl2.rules import BUNDLE, KINDS, PS, WORKER
from jaxsched.envs.dl2.show.paper import FIVE, TEN, published_claims, published_table
from jaxsched.errors import JaxschedError
from jaxsched.networks import description as nd
from jaxsched.runs.overrides import override
from jaxsched.systems import functions, presets, registry
from jaxsched.systems.claims import NOT_REPRODUCED
from jaxsched.systems.stages import stages_of
from jaxsched.wrappers.privileged_state import Whole
from tests.envs.dl2.rules.artefact_oracle import Simulator
from tests.envs.dl2.rules.test_artefact import SMALL, chooser, jobs_for

SYSTEM = registry.get("dl2")
TINY = (
    "env.num_servers=4",
    "env.window=3",
    "network=mlp-8",
    "loop.num_envs=2",
    "loop.rollout_length=8",
    "loop.num_updates=2",
    "learner.capacity=64",
    "learner.batch_size=16",
    "learner.held=16",
    "learner.fill_first=false",
)


OTHERWISE = (
    "learner.gradient_at=current",
    "learner.importance=batch",
    "learner.priority_most=1",
    "wrap.failed=true",
    "wrap.counted=false",
)


@pytest.fixture(scope="module")
def drawn():
    return traces.get("dl2-artefact", num_traces=100)


def test_drawn_jobs_are_the_simulators(drawn):
    """Type and length are one draw; as many per slot as the pattern says, from one of 5 places."""
    length = dict(zip(ARTEFACT_MODELS.tolist(), ARTEFACT_EPOCHS.tolist(), strict=True))
    model = np.concatenate([table["model"] for table in drawn])
    epochs = np.concatenate([table["epochs"] for table in drawn])
    assert (epochs == [length[kind] for kind in model.tolist()]).all()
    share = np.bincount(model, minlength=8)[ARTEFACT_MODELS] / len(model)
    assert np.abs(share - ARTEFACT_SHARES).max() < 0.02
    patterns = set()
    for table in (*drawn, *published_tables()):
        counts = np.bincount(table["submit_time"] // SLOT_S)
        full = np.minimum(3, -(-3 * ARTEFACT_ARRIVALS // 82))
        fits = [off for off in range(5) if (full[off:][: len(counts) - 1] == counts[:-1]).all()]
        assert fits and len(table) == 60 and counts[-1] <= full.max()
        patterns |= set(fits[:1])
    assert len(patterns) > 2


def test_a_mask_of_what_fits_changes_no_schedule():
    """Played again where misfits end the slot, with a void at each end, all jobs end as before."""
    for seed in range(6):
        jobs = jobs_for(seed)
        masked = Simulator(SMALL | {"misfit": "mask"}, jobs)
        rows = masked.play(chooser(seed))
        plain = Simulator(SMALL, jobs)
        plain.open_slot()
        for row in rows:
            legal = 0 <= row["action"] < len(row["mask"]) and row["mask"][row["action"]]
            _, ended = plain.step(row["action"] if legal else len(row["mask"]) - 1)
            if row["slot_ended"] and not ended:
                assert plain.step(len(row["mask"]) - 1)[1]
        assert [job["fine"] for job in plain.jobs] == [job["fine"] for job in masked.jobs]


def test_rows_of_the_simulators_observation_are_split_and_shuffled():
    env = replace(ARTEFACT, window=4)
    names = np.array(env.observation_spec(env.params(published_tables()[:1])).names)
    rows = split_rows(jnp.arange(24.0), 4, "artefact")
    for number, row in enumerate(names[np.asarray(rows).astype(int)]):
        assert [name.split(".")[1] for name in row] == [
            "type", "slots", "fraction", "share", "workers", "ps"]  # fmt: skip
        assert all(name.startswith(f"row{number}.") for name in row)
    assert (join_rows(rows, "artefact") == jnp.arange(24.0)).all()
    augment = jax.jit(shuffle_rows(4, "artefact"))
    seen, _, label = augment(jax.random.key(3), jnp.arange(24.0), jnp.ones(13, bool), jnp.int32(7))
    place = np.asarray(split_rows(seen, 4, "artefact"))[:, 0].tolist().index(2.0)
    assert int(label) == 3 * place + 1
    raw = jnp.zeros((300, 4, 6)).at[:, 1, -2].set(3.0)  # three workers, no parameter server
    explore = jax.jit(job_aware(4, 32, 32, "artefact"))
    mask, void = jnp.ones((300, 13), bool), jnp.full(300, 12, jnp.int32)
    acted = explore(jax.random.key(0), join_rows(raw, "artefact"), mask, void, jnp.int32(0))
    assert set(np.unique(acted)) == {4, 12}


@pytest.mark.optimised
def test_rules_through_the_actions_come_to_the_known_times():
    """On the five sequences; Optimus' gains lose little by the window, the probe beats them."""
    tables = published_tables()
    for name, coarse, fine in (("optimus_actions", 3.537, 2.839), ("probe_actions", 2.947, 2.797)):
        rule = functions.heuristic(SYSTEM, name, ARTEFACT, 60, {})
        played = functions.play(SYSTEM, rule.env, rule.policy, ARTEFACT.params(tables)).metrics
        assert played["avg_jct_coarse"].mean() == pytest.approx(coarse, abs=2e-3)
        assert played["avg_jct_slots"].mean() == pytest.approx(fine, abs=2e-3)


@pytest.mark.parametrize(
    ("stage", "changes"),
    [
        (0, ()),
        pytest.param(1, (), marks=pytest.mark.slow),
        pytest.param(1, OTHERWISE, marks=pytest.mark.slow),
    ],
)
def test_the_published_recipe_trains(drawn, stage, changes):
    recipe = override(presets.preset(SYSTEM, "artefact"), (*TINY, *changes))
    setup = stages_of(SYSTEM, recipe, drawn[:2])[stage]
    loop = replace(setup.loop, num_envs=2, rollout_length=16, num_updates=2, head_start=None)
    params = setup.params_at(0.0)
    carry = training.init(setup.env, setup.learner, loop, jax.random.key(0), params)
    before = jax.tree.leaves(setup.learner.policy_params(carry.learner_state))
    before = [np.array(leaf) for leaf in before]
    carry, metrics = training.chunk(setup.env, setup.learner, loop, carry, params, num_updates=1)
    after = jax.tree.leaves(setup.learner.policy_params(carry.learner_state))
    assert all(np.isfinite(np.asarray(value)).all() for value in metrics.values())
    assert any((np.asarray(new) != old).any() for new, old in zip(after, before, strict=True))
    assert setup.play == "sampled"
    assert {"networks of mlp-8", "sees 3 jobs in place of 20"} <= set(setup.variants)
    variants = SYSTEM.recipes.departures.of
    assert variants(presets.preset(SYSTEM, "artefact")) == NOT_AS_PUBLISHED
    text = set(variants(presets.preset(SYSTEM, "artefact-text"))) - set(NOT_AS_PUBLISHED)
    summed = "the entropy is summed over the actions, not their mean"
    assert {"teacher: drf_actions", summed} <= text


def test_the_teacher_labels_a_worker_then_its_server_and_never_the_end(drawn):
    """A slot that starts with nothing: rows get worker, PS in turn, first each job one of both."""
    env = replace(ARTEFACT, num_servers=4, window=3, assign_bundle=False)
    rule, params = action_rule("drf_tasks_actions", env), env.params(drawn[:1])
    step = jax.jit(env.step)
    state, _ = jax.jit(env.reset)(jax.random.key(0), params, jnp.int32(0))
    labels, ended = [], False
    while not ended:
        label, _ = rule.act((), (), View(None, None, state, params), jax.random.key(0))
        labels.append(int(label))
        state, timestep = step(jax.random.key(0), state, label, params)
        ended = bool(timestep.metrics.slot_ended)
    jobs = int((drawn[0]["submit_time"] < SLOT_S).sum())
    first = [KINDS * row + kind for row in range(min(jobs, 3)) for kind in (WORKER, PS)]
    assert labels[: len(first)] == first
    assert labels[-1] == 9  # void, or what did not fit
    assert [label % KINDS for label in labels[:-1]] == [WORKER, PS] * (len(labels) // 2)
    mask = jnp.array([True, True, True, False, False, False, True, False, False, True])
    mask_of = unlabelled_end(3)
    assert mask_of(mask, jnp.int32(4)).all()  # the published loss is over all actions
    assert np.flatnonzero(mask_of(mask, jnp.int32(9))).tolist() == [9]  # no choice, no weight


def test_forced_actions_by_hand():
    """Workers and servers of three rows -> what can be forced, beside the void that was drawn."""
    explore = jax.jit(forced_actions(3, 32, 32, "artefact"))
    mask, void, draws = jnp.ones((400, 10), bool), jnp.full(400, 9, jnp.int32), {}
    cases = {
        ((2, 0), (2, 1), (2, 1)): {2},  # lacks servers: a bundle, always
        ((1, 1), (2, 1), (2, 1)): {0, 9},
        ((5, 1), (4, 3), (4, 3)): {1, 2, 9},  # five times as many workers
        ((3, 2), (4, 3), (20, 10)): {0, 2},  # six times as many tasks as the poorest: always
    }
    for rows, forced in cases.items():
        raw = jnp.zeros((400, 3, 6)).at[:, :, -2:].set(jnp.array(rows, float))
        acted = explore(jax.random.key(1), join_rows(raw, "artefact"), mask, void, jnp.int32(0))
        draws[rows] = np.bincount(acted, minlength=10) / 400
        assert set(np.flatnonzero(draws[rows])) == forced, rows
    halves = draws[((1, 1), (2, 1), (2, 1))]
    assert halves[0] == pytest.approx(0.5, abs=0.1)
    many = draws[((5, 1), (4, 3), (4, 3))]
    assert many[2] / (many[1] + many[2]) == pytest.approx(0.33, abs=0.1)
    full = mask.at[:, 0].set(False)
    raw = jnp.zeros((400, 3, 6)).at[:, 0, -2:].set(jnp.array([1.0, 1.0]))
    full = full.at[:, 3:9].set(False)
    acted = explore(jax.random.key(1), join_rows(raw, "artefact"), full, void, jnp.int32(0))
    assert (acted == 9).all()  # nothing illegal, nothing for empty rows


def test_what_is_rare_in_a_sequence_is_forced_first_and_ratios_are_the_slots():
    explore = jax.jit(forced_actions(3, 32, 32, "artefact"))
    raw = jnp.zeros((400, 3, 6)).at[:, :, -2:].set(jnp.array([(2, 0), (4, 1), (4, 3)], float))
    rows, void = join_rows(raw, "artefact"), jnp.full(400, 9, jnp.int32)

    def forced(kinds, ratio, mask):
        one = Counts(jnp.array(kinds), jnp.int32(ratio), jnp.bool_(False))
        counts = jax.tree.map(lambda x: jnp.broadcast_to(x, (400, *x.shape)), one)
        masks = jnp.broadcast_to(mask, (400, 10))
        acted = explore(jax.random.key(1), Whole(rows, counts), masks, void, jnp.int32(0))
        return set(np.unique(acted).tolist())

    full = jnp.ones(10, bool)
    assert forced((97, 1, 2), 3, full) == {1}  # a server for the first row, before its bundle
    assert forced((97, 1, 2), 3, full.at[1].set(False)) == {2}  # which it may not have
    assert forced((98, 0, 2), 3, full) == {2}  # what was never asked for is not rare
    assert forced((90, 5, 5), 3, full) == {2}
    second = full.at[:3].set(False)
    assert forced((90, 5, 5), 4, second) == {4, 5, 9}  # four times as many workers as servers
    assert forced((90, 5, 5), 5, second) == {9}


def test_what_is_asked_for_is_counted_and_what_did_not_fit_is_told(drawn):
    env = Counted(replace(ARTEFACT, num_servers=1, window=3))
    params, step = env.env.params(drawn[:1]), jax.jit(env.step)
    state, timestep = jax.jit(env.reset)(jax.random.key(0), params, jnp.int32(0))
    kinds, ratios, kept = np.zeros(3, int), set(), set()
    for number, action in enumerate([WORKER, PS, BUNDLE, BUNDLE, BUNDLE, 9, PS, PS, 9] * 4):
        before = timestep.observation.rest
        state, timestep = step(jax.random.key(number), state, jnp.int32(action), params)
        happened, found = timestep.metrics, timestep.observation.rest
        kinds[action % KINDS] += action < 9
        np.testing.assert_array_equal(found.kinds, kinds)
        assert bool(fitted(timestep.observation)) == (not happened.increment.failed)
        if not happened.slot_ended:
            assert int(found.ratio) == int(before.ratio)
        ratios.add(int(found.ratio))
        kept.add(bool(fitted(timestep.observation)))
    assert ratios == {3, 4, 5}
    assert kept == {True, False}
    specs, observed = (
        jax.tree.flatten(env.observation_spec(params))[0],
        jax.tree.leaves(timestep.observation),
    )
    assert [(spec.shape, spec.dtype) for spec in specs] == [(x.shape, x.dtype) for x in observed]


def test_the_published_network():
    """Narrow normal weights; ReLU, then a factor and a summand; described as it computes."""
    policy, value = (make(ARTEFACT, "published") for make in (policy_network, value_network))
    seen = jnp.linspace(0, 3, 120)[None]
    weights = policy.init(jax.random.key(0), seen)
    own = weights["params"]
    assert own["hidden_0"]["kernel"].shape == (120, 120)
    assert float(jnp.abs(own["hidden_0"]["kernel"]).max()) <= 0.04
    assert float(own["hidden_0"]["kernel"].std()) == pytest.approx(0.0176, abs=5e-4)
    own["hidden_0_affine"]["scale"] *= 2.0
    own["hidden_0_affine"]["offset"] += 0.5
    hidden = 2 * np.maximum(seen @ own["hidden_0"]["kernel"], 0) + 0.5
    expected = np.asarray(hidden @ own["head"]["kernel"])[0]
    np.testing.assert_allclose(policy.apply(weights, seen)[0], expected, atol=1e-5)
    named = {f"{layer}.{part}": np.asarray(x) for layer, rest in own.items()
             for part, x in rest.items()}  # fmt: skip
    assert set(nd.weight_names(policy.describe())) == set(named)
    found = nd.evaluate(policy.describe(), named, np.asarray(seen[0]))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    drawn = value.init(jax.random.key(0), seen)["params"]["hidden_0"]["kernel"]
    assert float(jnp.abs(drawn).max()) <= 0.04


def test_recipes_never_learn_from_the_published_sequences():
    for preset in ("artefact", "artefact-search"):
        used = presets.recipe_traces(SYSTEM, presets.preset(SYSTEM, preset))
        assert used.test == "dl2-artefact-published"
        assert used.train == used.validation == "dl2-artefact"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("network=rows", "accepted: with the observation 'paper'"),
        ("supervised.teacher=drf", "accepted where it is asked at every .*drf_actions"),
        ("explore.kind=all", "not one of paper, published, none"),
    ],
)
def test_recipes_that_do_not_fit_are_refused(change, message, drawn):
    with pytest.raises(JaxschedError, match=message):
        stages_of(SYSTEM, override(presets.preset(SYSTEM, "artefact"), [change]), drawn[:1])
    with pytest.raises(JaxschedError, match="accepted: comm 'ps'"):
        action_rule("probe_actions", functions.environment(SYSTEM, comm="allreduce"))


def test_published_figures_stand_beside_those_measured(drawn):
    here = dict.fromkeys(("avg_jct_coarse", "avg_jct_slots", "makespan_coarse"), 7.3734)
    here["mean_slot_reward"] = 1.0
    summary = {"drf_artefact": here, "optimus_artefact": here, "learned": here}
    table = published_table(published_tables(), summary)
    assert "these five" in table["title"]
    rows = {row[0]: row[1:] for row in table["rows"]}
    assert rows["drf_artefact"][:4] == ["7.373", "7.373", "6.774", "7.373"]
    assert rows["learned"][:2] == ["", "7.373"]
    assert rows["fifo_artefact"][:2] == [f"{FIVE['fifo_artefact'].coarse:g}", ""]
    other = {row[0]: row[1:] for row in published_table(drawn, summary)["rows"]}
    assert other["drf_artefact"][0] == f"{TEN['drf_artefact'].coarse:g}"
    claims = published_claims(summary, "learned")
    assert {row["verdict"] for row in claims} == {NOT_REPRODUCED}
    assert claims[1]["paper"] == FIVE["DL2, saved at step 500"].coarse
    assert SYSTEM.paper.published(functions.environment(SYSTEM), drawn, summary) is None
    assert set(functions.usual_policies(SYSTEM, ARTEFACT)).isdisjoint(
        functions.usual_policies(SYSTEM)
    )
