"""Plans of a slot while they are learnt: drawn by their weights, and pair by pair."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.core import training
from jaxsched.envs.mlfs import MLFS, heuristics, plans
from jaxsched.envs.mlfs.heuristics import WEIGHTS
from jaxsched.envs.mlfs.plans import PLAN_STD, DrawnWeights, PairWeights, policy_model
from jaxsched.envs.mlfs.rules import dynamics
from jaxsched.envs.mlfs.rules.state import RUNNING
from jaxsched.envs.mlfs.rules.tables import SLOT_S, jobs_at
from jaxsched.errors import JaxschedError
from jaxsched.runs.overrides import override
from jaxsched.systems import functions, presets, registry
from jaxsched.systems.stages import stages_of
from tests.envs.mlfs.heuristics.test_pairs import ENV, crowded, random_weights
from tests.envs.mlfs.rules.test_env_oracle import random_tables, to_params

SYSTEM = registry.get("mlfs")
TEMPERATURE = 0.3


def test_the_plan_of_a_slot_is_learnt_by_policy_gradient():
    tables = traces.get("mlfs-small-x3", seed=2, num_traces=2, num_jobs=12)
    changes = ["loop.num_envs=4", "loop.rollout_length=8", "loop.num_updates=2"]
    recipe = override(presets.preset(SYSTEM, "plan"), changes)
    (setup,) = stages_of(SYSTEM, recipe, tables)
    params = setup.params_at(0.0)
    carry = training.init(setup.env, setup.learner, setup.loop, jax.random.key(0), params)
    observation, mask = jnp.zeros((500, 8)), jnp.ones((500, 1), bool)
    drawn, _ = setup.learner.act(
        carry.learner_state, observation, mask, jax.random.key(1), greedy=False
    )
    assert drawn.shape == (500, len(WEIGHTS))
    np.testing.assert_allclose(np.std(drawn), PLAN_STD, rtol=0.02)
    greedy, _ = setup.learner.act(
        carry.learner_state, observation, mask, jax.random.key(1), greedy=True
    )
    assert not np.any(greedy)  # MLF-H
    carry, _ = training.chunk(setup.env, setup.learner, setup.loop, carry, params, num_updates=2)
    weights = setup.learner.policy_params(carry.learner_state)
    assert np.all(np.asarray(weights["params"]["weights"]["bias"]) != 0)
    played = functions.play(SYSTEM, setup.play_env, setup.policy, params, weights)
    assert played.metrics["finished"].tolist() == [12, 12]


def test_plans_may_begin_at_random_with_the_deviation_asked_for():
    def begins(number, *start):
        plans = DrawnWeights(PairWeights(), *start)
        params = plans.init(jax.random.key(number), jnp.zeros((1, 8)))
        return np.asarray(params["params"]["weights"]["bias"])

    drawn = np.array([begins(number, 0.5) for number in range(40)])
    assert drawn.shape == (40, len(WEIGHTS))
    assert drawn.std() == pytest.approx(0.5, rel=0.1) and abs(drawn.mean()) < 0.05
    assert not begins(0).any()
    with pytest.raises(JaxschedError, match="start_std is -1; it must be 0 or more"):
        policy_model(MLFS(decide="slot"), "plans", start_std=-1.0)
    recipe = override(presets.preset(SYSTEM, "plan"), ["network_options.start_std=1"])
    assert "the weights begin at random, with deviation 1" in SYSTEM.recipes.departures.of(recipe)


def test_the_critic_of_plans_reads_the_whole_state_where_it_is_told():
    tables = traces.get("mlfs-small-x3", seed=2, num_traces=2, num_jobs=12)
    changes = ["loop.num_envs=2", "loop.rollout_length=8", "loop.num_updates=1"]
    widths = []
    for critic in ("observation", "state"):
        recipe = override(presets.preset(SYSTEM, "plan"), [*changes, f"critic={critic}"])
        (setup,) = stages_of(SYSTEM, recipe, tables)
        params = setup.params_at(0.0)
        carry = training.init(setup.env, setup.learner, setup.loop, jax.random.key(0), params)
        layers = carry.learner_state.params.value["params"]
        widths.append(layers["hidden_0"]["kernel"].shape[0])
    assert widths[0] == 8 < widths[1]
    other = override(recipe, ["value_network=mlp-64"])
    with pytest.raises(JaxschedError, match="value_network is 'mlp-64'; accepted for plans: none"):
        stages_of(SYSTEM, other, tables)


def scores_of(weights, rules, params, state):
    """Scores of all pairs at the beginning of a slot, and its jobs."""
    order = partial(heuristics.order_by_weights, weights)
    opened = dynamics.open_slot(rules, params, state, lambda rules, params, state: state, order)
    jobs = jobs_at(params, state.episode, state.active.job)
    worth = jax.lax.bitcast_convert_type(opened.tasks.priority, jnp.float32)
    pairing = heuristics.pairing_of(rules, opened, worth, weights)
    return heuristics.all_scores(rules, jobs, opened, pairing), opened, jobs


def test_the_gradient_of_a_drawn_plan_is_that_of_its_probability(monkeypatch):
    """The plan's choices one by one, each a draw among the pairs that then had room."""
    params, state = crowded()
    rules, weights = ENV.rules._replace(max_offers=64), jnp.asarray(random_weights(1))
    choices, settled = [], plans.off.settled

    def recorded(rules, params, state, offer, server, placed):
        choices.append((state, int(server), int(offer.place), int(offer.task)))
        assert placed and offer.valid[server]
        return settled(rules, params, state, offer, server, placed)

    monkeypatch.setattr(plans.off, "settled", recorded)
    with jax.disable_jit():
        after, gradient = plans.drawn(rules, params, state, weights, jax.random.key(3), TEMPERATURE)
    placed, _, jobs = scores_of(weights, rules, params, state)
    left = [heuristics.possible_pairs(rules, jobs, before) & (placed > 0) for before, *_ in choices]
    assert len(choices) > 3 and not heuristics.possible_pairs(rules, jobs, after).any()
    assert sum(int(pairs.sum()) for pairs in left) > 3 * len(choices)

    def log_probability(weights):
        worth = heuristics.worth_of(weights, jobs, state, jnp.ones_like(state.tasks.priority))
        _, opened, _ = scores_of(jnp.asarray(random_weights(1)), rules, params, state)
        pairing = heuristics.pairing_of(rules, opened, worth, weights)
        found = heuristics.all_scores(rules, jobs, opened, pairing)
        known = jax.lax.stop_gradient(placed / jnp.where(placed > 0, found, 1.0))  # priorities
        logits = jnp.log(jnp.where(placed > 0, known * found, 1.0)) / TEMPERATURE
        chances = [
            logits[pair] - jax.nn.logsumexp(jnp.where(among, logits, -jnp.inf))
            for (_, *pair), among in zip(choices, left, strict=True)
            for pair in [tuple(pair)]
        ]
        return sum(chances)

    expected = jax.grad(log_probability)(weights)
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-3)


def test_draws_of_the_first_pair_are_in_proportion_to_powers_of_scores():
    params, state = crowded()
    rules, weights = ENV.rules._replace(max_offers=1), jnp.asarray(random_weights(2))
    scores, opened, _ = scores_of(weights, rules, params, state)
    keys = jax.random.split(jax.random.key(0), 4000)
    draw = jax.jit(
        jax.vmap(lambda key: plans.drawn(rules, params, state, weights, key, TEMPERATURE))
    )
    after, gradients = draw(keys)
    new = (after.tasks.state == RUNNING) & (opened.tasks.state != RUNNING)
    assert np.all(np.sum(new, axis=(1, 2)) == 1)
    server = np.where(new, after.tasks.server, 0).sum((1, 2))
    share = np.stack([(new & (server == i)[:, None, None]).mean(0) for i in range(len(scores))])
    logits = np.where(scores > 0, np.log(np.maximum(scores, 1e-9)) / TEMPERATURE, -np.inf)
    expected = np.exp(logits - logits.max())
    expected /= expected.sum()
    assert np.sort(expected.ravel())[-2] > 0.02  # not one pair alone
    np.testing.assert_allclose(share, expected, atol=4 * 0.5 / len(keys) ** 0.5)
    error = np.std(gradients, axis=0) / len(keys) ** 0.5
    often = error > 1e-3  # others hang on pairs that are hardly drawn
    assert often.sum() > 5
    assert np.all(np.abs(np.mean(gradients, axis=0))[often] <= 4.5 * error[often])


def test_cold_draws_take_the_pair_of_the_highest_score():
    params, state = crowded()
    rules, weights = ENV.rules._replace(max_offers=1), jnp.asarray(random_weights(0))
    scores, opened, _ = scores_of(weights, rules, params, state)
    after, _ = plans.drawn(rules, params, state, weights, jax.random.key(1), 1e-4)
    new = (after.tasks.state == RUNNING) & (opened.tasks.state != RUNNING)
    ((place, task),) = np.argwhere(np.asarray(new))
    chosen = float(scores[int(after.tasks.server[place, task]), place, task])
    assert chosen == pytest.approx(float(scores.max()), rel=1e-3)  # alike tasks are drawn among
    assert np.sum(scores > 0.99 * scores.max()) < 0.5 * np.sum(scores > 0)


def test_episodes_of_drawn_plans():
    """The first step draws a plan alone; from then on each ends a slot; rewards are the slots'."""
    planned = plans.PlannedByPair(ENV, 0.1)
    params = to_params(ENV, random_tables("crowded", ENV, count=1))
    weights, step = jnp.zeros(len(WEIGHTS)), jax.jit(planned.step)
    state, timestep = planned.reset(jax.random.key(0), params, jnp.int32(0))
    assert not timestep.observation.gradient.any() and not state.planned
    elapsed, drew, slots, first = 0.0, 0, 0, int(state.inner.slot)
    while not timestep.done:
        before = state
        state, timestep = step(jax.random.key(slots), state, weights, params)
        if not slots:
            assert timestep.elapsed == 0 and timestep.reward == 0 and state.planned
        elif not bool(timestep.done):
            assert timestep.elapsed >= SLOT_S
            assert int(timestep.metrics.decides) == int(before.inner.offers.made)
        np.testing.assert_array_equal(timestep.observation.before, state.plan.before)
        drew += bool(timestep.observation.gradient.any())
        elapsed, slots = elapsed + float(timestep.elapsed), slots + 1
    assert timestep.terminated and int(state.inner.finished) == int(params.num_jobs[0])
    assert elapsed == SLOT_S * (int(state.inner.slot) - first) and drew > 10
    assert not timestep.observation.gradient.any() and not state.planned
    again, timestep = step(jax.random.key(0), state, weights, params)  # nothing happens any more
    assert timestep.reward == 0 and int(again.inner.slot) == int(state.inner.slot)


def test_plans_drawn_pair_by_pair_are_learnt_by_policy_gradient():
    tables = traces.get("mlfs-small-x3", seed=2, num_traces=2, num_jobs=12)
    changes = ["loop.num_envs=4", "loop.rollout_length=8", "loop.num_updates=2"]
    recipe = override(presets.preset(SYSTEM, "plan-pairs"), changes)
    assert "a plan is drawn pair by pair, by weights of pairs of task and server" in (
        SYSTEM.recipes.departures.of(recipe)
    )
    (setup,) = stages_of(SYSTEM, recipe, tables)
    params = setup.params_at(0.0)
    carry = training.init(setup.env, setup.learner, setup.loop, jax.random.key(0), params)
    seen = plans.Plan(jnp.zeros((3, 8)), jnp.ones((3, len(WEIGHTS))))
    action, extras = setup.learner.act(
        carry.learner_state, seen, jnp.ones((3, 1), bool), jax.random.key(1), greedy=False
    )
    assert action.shape == (3, len(WEIGHTS)) and not np.any(action)  # MLF-H
    assert extras.log_prob[plans.PLAN].shape == (3, 1)
    carry, _ = training.chunk(setup.env, setup.learner, setup.loop, carry, params, num_updates=2)
    weights = setup.learner.policy_params(carry.learner_state)
    moved = np.asarray(weights["params"]["weights"]["bias"])
    assert np.sum(moved != 0) > 20
    layers = carry.learner_state.params.value["params"]
    assert layers["hidden_0"]["kernel"].shape[0] == 8  # a critic sees what was before the plan
    played = functions.play(SYSTEM, setup.play_env, setup.policy, params, weights)
    assert played.metrics["finished"].tolist() == [12, 12]
    with pytest.raises(JaxschedError, match="has no privileged state for critics"):
        stages_of(SYSTEM, override(recipe, ["critic=state"]), tables)


def test_what_is_no_temperature_or_environment_of_drawn_plans():
    with pytest.raises(JaxschedError, match="temperature is 0; it must be above 0"):
        plans.PlannedByPair(ENV, 0.0)
    with pytest.raises(JaxschedError, match="plans are drawn where mlfs' decide is 'slot'"):
        plans.PlannedByPair(replace(ENV, decide="offer"))
