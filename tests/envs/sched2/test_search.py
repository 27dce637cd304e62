"""The search recipe on a small cluster: episodes, reward and policy fit together."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.core import training
from jaxsched.core.training import LoopConfig
from jaxsched.envs.sched2.environment import Sched2
from jaxsched.envs.sched2.learn import SEARCH, SEARCH_SHORT, last_stage
from jaxsched.errors import JaxschedError
from jaxsched.systems import functions, presets, registry
from jaxsched.systems.recipe import Episodes
from jaxsched.systems.stages import stages_of

SYSTEM = registry.get("sched2")
NUM_JOBS, LENGTH = 24, 80
SMALL = last_stage(
    replace(SEARCH, env=Sched2(4, 4, 3, auto_advance=True, reward="lost", outlook=True)),
    loop=LoopConfig(num_envs=16, rollout_length=LENGTH, num_updates=3, num_random_streams=2),
    learner=EvolutionConfig(members=8, episodes=2, initial_std=0.2, follow="gradient"),
    episodes=Episodes(jobs=NUM_JOBS),
)
TABLES = traces.get("sched2-mixed", seed=1, num_traces=3, num_jobs=2 * NUM_JOBS + 5)


def test_members_play_whole_episodes_and_the_mean_moves():
    (setup,) = stages_of(SYSTEM, SMALL, TABLES)
    params = setup.params_at(0.0)
    carry = training.init(setup.env, setup.learner, setup.loop, jax.random.key(0), params)
    before = jax.tree.map(np.asarray, setup.learner.policy_params(carry.learner_state))
    carry, metrics = training.chunk(
        setup.env, setup.learner, setup.loop, carry, params, num_updates=3
    )
    assert not np.any(metrics["incomplete"])
    assert np.all(metrics["episodes"] == 16) and np.all(metrics["mean_return"] < 0)
    after = setup.learner.policy_params(carry.learner_state)
    assert jax.tree.structure(after) == jax.tree.structure(before)
    moved = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), after, before)
    assert max(jax.tree.leaves(moved)) > 0
    played = functions.play(SYSTEM, setup.play_env, setup.policy, SMALL.env.params(TABLES), after)
    assert played.metrics["finished"].tolist() == [2 * NUM_JOBS + 5] * 3


def test_tables_are_cut_into_episodes():
    (setup,) = stages_of(SYSTEM, SMALL, TABLES)
    params = setup.params_at(0.0)
    assert params.jobs.num_jobs.tolist() == [NUM_JOBS] * 6  # two of each, the rest is left out
    assert float(params.delay_weight) == pytest.approx(0.1)
    assert params.jobs.submit_time[:, 0].tolist() == [0] * 6


def test_mixed_traces_have_loads_between_the_bounds():
    gpus, total = 120, []
    for table in traces.get("sched2-mixed", seed=4, num_traces=40):
        work = float((table["num_gpus"] * table["duration"]).sum())
        total.append(work / (gpus * table["submit_time"][-1]))
    assert 0.75 < np.mean(total) < 1.0  # 0.85 in the middle, single traces scatter
    assert np.corrcoef(total, np.arange(40) * (5**0.5 - 1) / 2 % 1)[0, 1] > 0.5


@pytest.mark.parametrize("kind", ["scoring", "linear"])
def test_the_network_needs_the_outlook(kind):
    with pytest.raises(JaxschedError, match=r"set env\.outlook"):
        functions.network(SYSTEM, Sched2(), kind)


def test_the_mask_and_the_discount_are_departures_that_runs_name():
    """The paper has neither, so that no run of its learner is without departures."""
    literal = " / ".join(SYSTEM.recipes.departures.of(presets.preset(SYSTEM, "literal")))
    assert literal == (
        "actions that cannot be carried out are masked (the paper has no mask) / "
        "discount 0.99 per decision (the paper has none)"
    )
    assert "horizon 300 s (the paper has none)" in " / ".join(
        SYSTEM.recipes.departures.of(presets.preset(SYSTEM, "paper"))
    )


def test_what_differs_is_said():
    words = " / ".join(stages_of(SYSTEM, SMALL, TABLES)[0].variants)
    assert "outlook" in words and "search" in words and "0.1 effectiveness" in words
    assert "discount" not in words


def test_the_demo_is_the_search_for_a_minute():
    assert SEARCH_SHORT.env == SEARCH.env and SEARCH_SHORT.network == SEARCH.network
    (short,), (full,) = SEARCH_SHORT.stages, SEARCH.stages
    few, many = short.loop, full.loop
    assert 6 * few.num_updates * few.steps_per_update < many.num_updates * many.steps_per_update
    assert few.num_envs == short.learner.batch
    congested = traces.get("sched2-congested", num_traces=2)
    mixed = traces.get("sched2-mixed", num_traces=2)
    scale = [
        b["submit_time"][-1] / a["submit_time"][-1] for a, b in zip(congested, mixed, strict=True)
    ]
    assert scale == pytest.approx(
        [0.85 / 0.6, (0.85 + 0.25 * 0.618) / (0.6 + 0.5 * 0.618)], rel=1e-3
    )


def test_validation_and_test_of_the_demo_share_a_program():
    """As many traces, and the same policy object, so that what plays it is compiled once."""
    names = SEARCH_SHORT.traces
    assert names.num_validation == names.num_test
    played = [
        functions.network_policy(SYSTEM, SEARCH_SHORT.env, "linear", "search", "greedy")
        for _ in "ab"
    ]
    assert played[0] is played[1]
    assert played[0] != functions.network_policy(
        SYSTEM, SEARCH_SHORT.env, "linear", "search", "sampled"
    )
