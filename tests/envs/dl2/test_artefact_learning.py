"""Learning in DL2's published simulator: its jobs, the agent's view, teachers, recipes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.core import training
from jaxsched.envs.dl2.action_rules import action_rule
from jaxsched.envs.dl2.exploration import job_aware, shuffle_rows
from jaxsched.envs.dl2.networks import join_rows, split_rows
from jaxsched.envs.dl2.published import FIVE, TEN, published_claims, published_table
from jaxsched.envs.dl2.recipe import ARTEFACT, check, variants
from jaxsched.envs.dl2.traces import published_tables
from jaxsched.envs.dl2.workload import (
    ARTEFACT_ARRIVALS,
    ARTEFACT_EPOCHS,
    ARTEFACT_MODELS,
    ARTEFACT_SHARES,
    SLOT_S,
)
from jaxsched.errors import JaxschedError
from jaxsched.runs.overrides import override
from jaxsched.systems import registry
from jaxsched.systems.claims import NOT_REPRODUCED
from tests.envs.dl2.artefact_oracle import Simulator
from tests.envs.dl2.test_artefact import SMALL, chooser, jobs_for

SYSTEM = registry.get("dl2")
TINY = (
    "env.num_servers=4",
    "env.window=3",
    "network=mlp-8",
    "loop.num_envs=2",
    "loop.rollout_length=8",
    "loop.num_updates=2",
    "actor_critic.capacity=64",
    "actor_critic.batch_size=16",
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
        rule = SYSTEM.heuristic(name, ARTEFACT, 60, {})
        played = SYSTEM.play(rule.env, rule.policy, ARTEFACT.params(tables)).metrics
        assert played["avg_jct_coarse"].mean() == pytest.approx(coarse, abs=2e-3)
        assert played["avg_jct_slots"].mean() == pytest.approx(fine, abs=2e-3)


@pytest.mark.parametrize("stage", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_published_recipe_trains(drawn, stage):
    recipe = override(SYSTEM.preset("artefact"), TINY)
    setup = SYSTEM.stages(recipe, drawn[:2])[stage]
    loop = replace(setup.loop, num_envs=2, rollout_length=16, num_updates=2)
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
    assert variants(SYSTEM.preset("artefact")) == ()


def test_recipes_never_learn_from_the_published_sequences():
    for preset in ("artefact", "artefact-search"):
        used = SYSTEM.recipe_traces(SYSTEM.preset(preset))
        assert used.test == "dl2-artefact-published"
        assert used.train == used.validation == "dl2-artefact"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": "rows"}, "accepted: with the observation 'paper'"),
        ({"supervised": "drf"}, "accepted with rows 'window': drf_actions"),
    ],
)
def test_recipes_that_do_not_fit_are_refused(changes, message):
    recipe = SYSTEM.preset("artefact")
    if "supervised" in changes:
        changes = {"supervised": replace(recipe.supervised, teacher=changes["supervised"])}
    with pytest.raises(JaxschedError, match=message):
        check(replace(recipe, **changes))
    with pytest.raises(JaxschedError, match="accepted: comm 'ps'"):
        action_rule("probe_actions", SYSTEM.environment(comm="allreduce"))


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
    assert SYSTEM.published(SYSTEM.environment(), drawn, summary) is None
    assert set(SYSTEM.usual_policies(ARTEFACT)).isdisjoint(SYSTEM.usual_policies())
