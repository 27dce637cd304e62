"""Tiny decision processes whose values are known in closed form, to test learners and the loop.

Each isolates one thing that a learner can get wrong. All are one environment, :class:`Probe`, with
the process in its parameters, so a learner is compiled once for all of them. A linear network
without bias over their observations represents the true values exactly.

Axes: ``S`` = 4 states (the last is the end), ``F`` = 4 features, ``A`` = 3 actions, ``E`` episodes.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.algorithms.agents import Normal
from jaxsched.core import training
from jaxsched.core.environment import Environment
from jaxsched.types import ArraySpec, DiscreteSpec, TimeStep

NUM_ACTIONS = 3
END = 3
STEPS = np.eye(4, dtype=np.float32)  # observation: the state, one-hot
CONSTANT = np.tile(STEPS[:1], (4, 1))  # observation: the same everywhere


class ProbeParams(NamedTuple):
    """A deterministic process; the next state does not depend on the action."""

    observation: jax.Array  # float32 [S, F]
    mask: jax.Array  # bool [S, A]
    reward: jax.Array  # float32 [S, A]
    elapsed_s: jax.Array  # float32 [S], time that a step from this state takes
    following: jax.Array  # int32 [S]
    first: jax.Array  # int32 [E], where each episode starts
    truncates: jax.Array  # bool, whether reaching the end is a cut


@dataclass(frozen=True)
class Probe(Environment):
    """Walks through the states of its parameters; the state is the number of the state."""

    name = "probe"
    behaviour_version = 1

    def reset(self, key, params, episode=None):
        """Go to the first state of an episode."""
        if episode is None:
            episode = jax.random.randint(key, (), 0, params.first.shape[0], jnp.int32)
        state = params.first[episode]
        return state, self._report(state, jnp.float32(0), jnp.float32(0), params)

    def step(self, key, state, action, params):
        """Go to the next state; the end absorbs."""
        live = state != END
        reward = jnp.where(live, params.reward[state, action], 0.0)
        elapsed = jnp.where(live, params.elapsed_s[state], 0.0)
        state = jnp.where(live, params.following[state], END)
        return state, self._report(state, reward, elapsed, params)

    def _report(self, state, reward, elapsed, params):
        observation, mask = self.observe(state, params)
        ended = state == END
        terminated, truncated = ended & ~params.truncates, ended & params.truncates
        return TimeStep(observation, mask, reward, terminated, truncated, elapsed, metrics=())

    def observe(self, state, params):
        """Look up."""
        return params.observation[state], params.mask[state]

    def num_episodes(self, params):
        """Number of first states."""
        return params.first.shape[0]

    def max_steps(self, params):
        """Every state but the end once."""
        return params.observation.shape[0] - 1

    def observation_spec(self, params):
        """Features."""
        return ArraySpec((params.observation.shape[1],))

    def action_spec(self, params):
        """Numbered actions."""
        return DiscreteSpec(params.mask.shape[1])


def process(observation=STEPS, mask=None, reward=0.0, elapsed_s=0.0, first=(0, 0), truncates=False):
    """Parameters of a process; the state before the end is ``END - 1``, lengths follow ``first``.

    Rewards are given per state (the same for all actions) or as ``[3, A]``.
    """
    reward = np.asarray(reward, np.float32)
    if reward.ndim == 1:
        reward = reward[:, None]
    table = np.zeros((4, NUM_ACTIONS), np.float32)
    table[:END] = reward
    legal = np.ones((4, NUM_ACTIONS), bool)
    if mask is not None:
        legal[:END] = mask
    seconds = np.zeros(4, np.float32)
    seconds[:END] = elapsed_s
    return ProbeParams(
        observation=jnp.asarray(observation),
        mask=jnp.asarray(legal),
        reward=jnp.asarray(table),
        elapsed_s=jnp.asarray(seconds),
        following=jnp.array([1, 2, END, END], jnp.int32),
        first=jnp.asarray(first, jnp.int32),
        truncates=jnp.asarray(truncates),
    )


def constant_reward():
    """One step, reward 1: the value of state 2 is 1."""
    return process(reward=1.0, first=(2, 2))


def observed_reward():
    """One step, reward as the observation shows: the values are the feature, +1 or -1."""
    params = process(reward=[0, 1, -1], first=(1, 2))
    return params._replace(following=jnp.full(4, END, jnp.int32))


def delayed_reward():
    """Three steps, reward 1 at the last: values ``gamma**2, gamma, 1``."""
    return process(reward=[0, 0, 1])


def timed_reward():
    """As :func:`delayed_reward`; the steps take 3600 s, 0 s, 99 s.

    Discounted by time with horizon 7200 s the values are ``exp(-1/2), 1, 1``: the first step
    discounts what follows it, a decision at the same instant does not, nor does the last step.
    """
    return process(reward=[0, 0, 1], elapsed_s=[3600, 0, 99])


def forbidden_best():
    """The action that looks best is forbidden in the state that is bootstrapped from.

    Two steps that look alike. First only action 2 is legal (reward 5), then only actions 0 and 1
    (rewards 0 and 1). So ``q = [0, 1, 5 + gamma]``; a bootstrap without the mask would give
    ``5 / (1 - gamma)`` for action 2.
    """
    mask = [[1, 1, 1], [0, 0, 1], [1, 1, 0]]
    return process(observation=CONSTANT, mask=mask, reward=[[0, 1, 5]], first=(1, 1))


def endless():
    """Reward 1 for ever, cut after two steps; all states look alike: ``1 / (1 - gamma)``."""
    return process(observation=CONSTANT, reward=1.0, first=(1, 1), truncates=True)


def ending():
    """Reward 1 at each of three steps, then a termination: ``1 + gamma + gamma**2, ...``."""
    return process(reward=1.0)


class GroupedParams(NamedTuple):
    """What a :class:`Grouped` bandit pays."""

    pay: jax.Array  # float32 [A], per action of a group
    elapsed_s: jax.Array  # float32, time between groups


@dataclass(frozen=True)
class Grouped(Environment):
    """Groups of decisions at one instant that are paid together when the group closes.

    The state is the step of the episode and what the group has earned so far. The last action is
    never legal; an episode is ``groups`` groups of ``size`` decisions.
    """

    size: int = 3
    groups: int = 2

    name = "grouped"
    behaviour_version = 1

    def reset(self, key, params, episode=None):
        """Start with the first group."""
        state = (jnp.int32(0), jnp.float32(0))
        return state, self._report(state, jnp.float32(0), jnp.float32(0), params)

    def step(self, key, state, action, params):
        """Add to the group; pay and move on when it is full."""
        step, earned = state
        live = step < self.size * self.groups
        earned = earned + jnp.where(live, params.pay[action], 0.0)
        step = step + live
        closes = live & (step % self.size == 0)
        state = (step, jnp.where(closes, 0.0, earned))
        reward = jnp.where(closes, earned, 0.0)
        return state, self._report(state, reward, jnp.where(closes, params.elapsed_s, 0.0), params)

    def _report(self, state, reward, elapsed, params):
        observation, mask = self.observe(state, params)
        terminated = state[0] >= self.size * self.groups
        return TimeStep(observation, mask, reward, terminated, jnp.bool_(False), elapsed, ())

    def observe(self, state, params):
        """Which decision of the group it is, one-hot."""
        mask = jnp.arange(NUM_ACTIONS) < NUM_ACTIONS - 1
        return jax.nn.one_hot(state[0] % self.size, self.size), mask

    def num_episodes(self, params):
        """All the same."""
        return 1

    def max_steps(self, params):
        """All decisions of all groups."""
        return self.size * self.groups

    def observation_spec(self, params):
        """One-hot."""
        return ArraySpec((self.size,))

    def action_spec(self, params):
        """Numbered actions."""
        return DiscreteSpec(NUM_ACTIONS)


def grouped_pay():
    """Action 1 is the better one of the two legal actions; the illegal one would pay most."""
    return GroupedParams(jnp.array([0.0, 1.0, 9.0]), jnp.float32(60.0))


class WagerParams(NamedTuple):
    """What a :class:`Wager` pays."""

    prize: jax.Array  # float32 [E], what waiting brings in each episode
    sure: jax.Array  # float32, what taking brings
    elapsed_s: jax.Array  # float32, time until the prize


@dataclass(frozen=True)
class Wager(Environment):
    """Take a sure sum now (action 0), wait (1) for a prize that nobody can know, or leave (2).

    The state is the stage (0, waiting, ended) and the episode. Redrawn futures draw the prize from
    those of all episodes. Who waits earns the mean prize, a clairvoyant the mean of the larger sum.
    """

    name = "wager"
    behaviour_version = 1

    def reset(self, key, params, episode=None):
        """Nothing is taken."""
        if episode is None:
            episode = jax.random.randint(key, (), 0, params.prize.shape[0])
        state = (jnp.int32(0), episode)
        return state, self._report(state, jnp.float32(0), jnp.float32(0), params)

    def step(self, key, state, action, params):
        """Take, wait, or be paid."""
        stage, episode = state
        reward = jnp.where((stage == 0) & (action == 0), params.sure, 0.0)
        reward = jnp.where(stage == 1, params.prize[episode], reward)
        elapsed = jnp.where(stage == 1, params.elapsed_s, 0.0)
        after = (jnp.where((stage == 0) & (action == 1), 1, 2), episode)
        return after, self._report(after, reward, elapsed, params)

    def resample_future(self, key, state, params):
        """Draw the prize of a waiting or undecided episode."""
        prize = jax.random.choice(key, params.prize)
        return (state[0], jnp.int32(0)), params._replace(prize=prize[None])

    def _report(self, state, reward, elapsed, params):
        observation, mask = self.observe(state, params)
        ended = state[0] == 2
        return TimeStep(observation, mask, reward, ended, jnp.bool_(False), elapsed, metrics=())

    def observe(self, state, params):
        """The stage, one-hot."""
        return jax.nn.one_hot(state[0], 3), jnp.ones(NUM_ACTIONS, bool)

    def num_episodes(self, params):
        """One per prize."""
        return params.prize.shape[0]

    def max_steps(self, params):
        """Wait and be paid."""
        return 2

    def observation_spec(self, params):
        """One-hot."""
        return ArraySpec((3,))

    def action_spec(self, params):
        """Numbered actions."""
        return DiscreteSpec(NUM_ACTIONS)


def wager(prize, sure=1.0, elapsed_s=100.0):
    """Parameters of a :class:`Wager`."""
    return WagerParams(jnp.asarray(prize, jnp.float32), jnp.float32(sure), jnp.float32(elapsed_s))


class DialParams(NamedTuple):
    """What a :class:`Dial` wants and pays."""

    goal: jax.Array  # float32 [U]
    active: jax.Array  # bool [U], units whose dials have an effect
    base: jax.Array  # float32, reward of each step with the dials at their best
    slope: jax.Array  # float32, price of the squared distance from there
    elapsed_s: jax.Array  # float32, time that a step takes
    length: jax.Array  # int32, steps of an episode, at most 4
    truncates: jax.Array  # bool, whether episodes are cut


@dataclass(frozen=True)
class Dial(Environment):
    """Two agents turn dials, ``left`` one and ``right`` two per unit, and are paid together.

    With ``x, y, z`` the dials of a unit, it pays ``-(x + y + z - goal)**2 - (x - y)**2 -
    (y - z)**2``: best where all three are a third of the goal, which neither agent reaches alone.
    The state is the step of the episode.
    """

    units: int = 2

    name = "dial"
    behaviour_version = 1

    def reset(self, key, params, episode=None):
        """Start with step 0."""
        return jnp.int32(0), self._report(jnp.int32(0), 0.0, 0.0, params)

    def step(self, key, state, action, params):
        """Pay for the dials."""
        live = state < params.length
        x, (y, z) = action["left"], jnp.moveaxis(action["right"], -1, 0)
        missed = (x + y + z - params.goal) ** 2 + (x - y) ** 2 + (y - z) ** 2
        reward = params.base - params.slope * jnp.sum(jnp.where(params.active, missed, 0.0))
        state = state + live
        elapsed = jnp.where(live, params.elapsed_s, 0.0)
        return state, self._report(state, jnp.where(live, reward, 0.0), elapsed, params)

    def _report(self, state, reward, elapsed, params):
        observation, mask = self.observe(state, params)
        ended = state >= params.length
        terminated, truncated = ended & ~params.truncates, ended & params.truncates
        reward, elapsed = jnp.float32(reward), jnp.float32(elapsed)
        return TimeStep(observation, mask, reward, terminated, truncated, elapsed, metrics=())

    def observe(self, state, params):
        """The step, one-hot; the same everywhere where episodes are cut."""
        step = jnp.where(params.truncates, 0, state)
        return jax.nn.one_hot(step, 4), params.active

    def num_episodes(self, params):
        """All the same."""
        return 1

    def max_steps(self, params):
        """As many as can be told apart."""
        return 4

    def observation_spec(self, params):
        """One-hot."""
        return ArraySpec((4,))

    def action_spec(self, params):
        """The dials."""
        return {"left": ArraySpec((self.units,)), "right": ArraySpec((self.units, 2))}


def dials(goal=(0.9, -0.6), active=(True, True), base=0.0, slope=1.0, elapsed_s=1.0, length=1):
    """Parameters of a :class:`Dial` whose episodes end; ``._replace(truncates=...)`` cuts them."""
    return DialParams(
        goal=jnp.asarray(goal, jnp.float32),
        active=jnp.asarray(active),
        base=jnp.float32(base),
        slope=jnp.float32(slope),
        elapsed_s=jnp.float32(elapsed_s),
        length=jnp.int32(length),
        truncates=jnp.bool_(False),
    )


class Always(nn.Module):
    """A critic that says the same of everything."""

    value: float

    @nn.compact
    def __call__(self, observation):
        """One number for each row."""
        bias = self.param("bias", nn.initializers.constant(self.value), ())
        return jnp.full(len(observation), bias)


class Hands(nn.Module):
    """A table of means by step for :class:`Dial`, with one deviation per agent."""

    units: int = 2
    log_std: float = -1.0

    @nn.compact
    def __call__(self, observation):
        """Normal distributions by agent."""
        found = {}
        for name, shape in (("left", (self.units,)), ("right", (self.units, 2))):
            flat = nn.Dense(int(np.prod(shape)), use_bias=False, name=name)(observation)
            log_std = self.param(f"{name}_log_std", nn.initializers.constant(self.log_std), ())
            mean = flat.reshape(-1, *shape)
            found[name] = Normal(mean, jnp.broadcast_to(jnp.exp(log_std), mean.shape))
        return found


def hands(observation, mask):
    """Units of both agents that have an effect."""
    return {"left": mask, "right": mask}


def updated(env, learner, loop, carry, params, updates):
    """The learner's state and the metrics after so many updates, by one program for any number."""
    parts = []
    for _ in range(updates):
        carry, metrics = training.chunk(env, learner, loop, carry, params, num_updates=1)
        parts.append(metrics)
    parts = jax.device_get(parts)
    return carry.learner_state, jax.tree.map(lambda *x: np.concatenate(x), *parts)


@cache
def _update_of(learner):
    return jax.jit(learner.update)


def update(learner, state, rollout, key):
    """A learner's update as one program, kept; operation by operation all of them compile."""
    return _update_of(learner)(state, rollout, key)
