"""Look-ahead over a base policy, on a wager whose best answers are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.evaluation import Recorder, run_episodes
from jaxsched.core.look_ahead import look_ahead
from jaxsched.core.monte_carlo import LookAhead, Weights, look_ahead_params
from jaxsched.core.policies import Policy, greedy_scores, no_memory
from jaxsched.errors import JaxschedError
from tests.probes import Dial, Probe, Wager, dials, wager

ENV = Wager()
PRIZES = np.tile([0.0, 4.0], 50)  # 2 on average, with a standard deviation of 2
TAKES = Policy("takes", no_memory, lambda w, memory, view, key: (jnp.int32(0), memory))
LEARNED = greedy_scores("learned", lambda weights, observation: observation @ weights)
WAITS = jnp.zeros((3, 3)).at[:, 1].set(1.0)
NOTHING = Recorder(lambda params: (), lambda records, timestep, playing: records)


def returns(params, config, base=TAKES, weights=(), **values):
    """Return of each episode under look-ahead from the base."""
    policy = look_ahead(ENV, base, config, "look_ahead")
    episodes = jnp.arange(ENV.num_episodes(params))
    given = Weights(weights, look_ahead_params(**values))
    outcome = run_episodes(ENV, policy, NOTHING, params, episodes, jax.random.key(3), given)
    return np.asarray(outcome.episode_return)


def test_plays_are_counted_at_their_full_length():
    assert LookAhead(futures=3, alternatives=2, max_steps=5).most_steps() == 30
    assert LookAhead(futures=0, alternatives=9).most_steps(4, 7) == 28
    assert LookAhead(futures=2, max_steps=5).most_steps(4, 7) == 40
    for unbounded in (LookAhead(alternatives=2), LookAhead(max_steps=5)):
        with pytest.raises(JaxschedError, match="max_steps or alternatives is None"):
            unbounded.most_steps()


def test_a_clairvoyant_waits_where_it_pays():
    found = returns(wager(PRIZES), LookAhead(futures=0), margin=0.0)
    assert found.tolist() == np.maximum(PRIZES, 1.0).tolist()


def test_redrawn_futures_tell_the_mean_and_not_the_truth():
    found = returns(wager(PRIZES), LookAhead(futures=256))
    assert np.array_equal(found, PRIZES)  # all wait: two is more than one, whoever is lucky
    found = returns(wager(PRIZES, sure=3.0), LookAhead(futures=256))
    assert np.all(found == 3.0)


def test_a_gain_within_the_margin_is_luck():
    waits = [
        np.mean(returns(wager(PRIZES), LookAhead(futures=256), margin=margin) == PRIZES)
        for margin in (2.0, 8.0, 16.0)
    ]  # the gain is one, which is eight standard errors
    assert waits[0] == 1.0 and 0.3 < waits[1] < 0.7 and waits[2] == 0.0


def test_few_futures_without_margin_are_worse_than_the_base():
    params = wager(np.linspace(0.0, 4.0, 200), sure=2.5)
    plain = returns(params, LookAhead(futures=2), margin=0.0)
    careful = returns(params, LookAhead(futures=2), margin=10.0)
    assert plain.mean() < 2.4 and careful.mean() > plain.mean() + 0.05


@pytest.mark.parametrize(("horizon_s", "waits"), [(101.0, True), (51.0, True), (49.0, False)])
def test_the_last_step_is_charged_in_proportion(horizon_s, waits):
    params = wager([2.0])  # after 100 s; half of it is as much as the sure sum
    found = returns(params, LookAhead(futures=0), margin=0.0, horizon_s=horizon_s)
    assert found == (2.0 if waits else 1.0)


def test_rewards_of_later_steps_are_discounted():
    two_steps = wager([2.0])._replace(elapsed_s=jnp.float32(0))
    assert returns(two_steps, LookAhead(futures=0), discount_s=1.0) == 2.0  # no time passes

    class Late(Wager):
        def step(self, key, state, action, params):
            after, timestep = super().step(key, state, action, params)
            waited = (state[0] == 0) & (action == 1)
            return after, timestep._replace(elapsed=jnp.where(waited, 100.0, 0.0))

    for discount_s, first in ((200.0, 1), (100.0, 0)):  # 2 exp(-1/2) > 1 > 2 exp(-1)
        policy = look_ahead(Late(), TAKES, LookAhead(futures=0), "late")
        given = Weights((), look_ahead_params(discount_s=discount_s))
        outcome = run_episodes(
            Late(), policy, NOTHING, two_steps, jnp.arange(1), jax.random.key(0), given
        )
        assert outcome.length == 1 + first


def test_a_number_of_alternatives_is_drawn_beside_the_base():
    found = returns(wager(np.full(200, 4.0)), LookAhead(futures=0, alternatives=2))
    assert 0.35 < np.mean(found == 4.0) < 0.65  # one of the other two actions is tried
    assert set(found.tolist()) == {1.0, 4.0}


def test_the_weights_are_the_bases():
    config = LookAhead(futures=0)
    better = returns(wager([0.0, 0.5]), config, base=LEARNED, weights=WAITS)
    assert better.tolist() == [1.0, 1.0]
    takes = jnp.zeros((3, 3)).at[:, 0].set(1.0)
    assert returns(wager([2.0]), config, base=LEARNED, weights=takes).tolist() == [2.0]


def test_rivals_propose_and_the_base_plays_on():
    """Only what a rival would do is tried: one leaves, one waits on odd episodes."""
    leaves = Policy("leaves", no_memory, lambda w, memory, view, key: (jnp.int32(2), memory))
    odd = Policy(
        "odd",
        lambda params: jnp.int32(0),
        lambda w, memory, view, key: (view.state[1] % 2, memory + 1),
        privileged=True,
    )
    params = wager(np.full(6, 4.0))
    policy = look_ahead(ENV, TAKES, LookAhead(futures=0), "rivals", (leaves, odd))
    given = Weights((), look_ahead_params())
    outcome = run_episodes(ENV, policy, NOTHING, params, jnp.arange(6), jax.random.key(0), given)
    assert outcome.episode_return.tolist() == [1.0, 4.0] * 3


def test_nothing_is_played_beyond_the_bound():
    found = returns(wager([4.0]), LookAhead(futures=0, max_steps=1))
    assert found.tolist() == [1.0]  # the prize comes with the second step


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: LookAhead(futures=1), "futures is 1; accepted: at least 2"),
        (lambda: LookAhead(futures=-1), "futures is -1"),
        (lambda: LookAhead(alternatives=1), "alternatives is 1; accepted: at least 2"),
        (lambda: LookAhead(max_steps=0), "max_steps is 0"),
        (lambda: look_ahead_params(horizon_s=0.0), "horizon_s is 0.0; accepted: a number above 0"),
        (lambda: look_ahead_params(discount_s=float("nan")), "discount_s is nan"),
        (lambda: look_ahead_params(margin=-1.0), "margin is -1.0; accepted: a number from 0 on"),
        (lambda: look_ahead(Probe(), TAKES, LookAhead(), "x"), "probe: does not redraw futures"),
    ],
)
def test_bad_values_are_refused(make, says):
    with pytest.raises(JaxschedError, match=says):
        make()


def test_actions_must_be_one_choice():
    env = Dial()
    policy = look_ahead(env, TAKES, LookAhead(futures=0), "x")
    with pytest.raises(JaxschedError, match="one choice of several"):
        run_episodes(
            env,
            policy,
            NOTHING,
            dials(),
            jnp.arange(1),
            jax.random.key(0),
            Weights((), look_ahead_params()),
        )
