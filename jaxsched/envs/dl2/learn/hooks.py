"""What stages of DL2's recipes have beside a learner: exploration, labels, rewards, teachers.

The paper pays once per slot. ``Shaped`` pays each inference the change of what the slot would earn
if it ended at once, ``phi(after) - phi(before)`` with ``phi`` at the allocation so far. Within a
slot nothing is discounted, so the payments of a slot add up to ``phi`` at its end and the best
policies stay the best (Ng et al., Policy Invariance under Reward Transformations, 1999); only the
credit is plain. Two units of ``phi`` are known:

    shares   sum over jobs of trained_j / E_j, the paper's reward (Eq. 1)
    epochs   sum over jobs of trained_j * (100 / remaining_j) ** urgency, times 0.05

In shares an epoch of a short job is worth more than one of a long job, and a policy that looks no
further than the slot starves the long ones. In epochs all are worth the same: about the time that
they will take later, which is what the mean JCT counts.

A teacher that plans whole slots is recorded for the supervised stage (section 10). The agent
decides inference by inference, batch by batch, so a plan's increments are regrouped: for each batch
in turn those of the batch's jobs, in their order, then a void unless nothing more of the batch
fits. Increments that no longer fit after regrouping are dropped.

Axes: ``E`` episodes, ``L`` increments of a plan, ``N`` recorded decisions.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.algorithms.imitation import Augment
from jaxsched.core.environment import Environment
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.heuristics import DL2Slots, LastSlot, Plan, SlotsState
from jaxsched.envs.dl2.heuristics.baselines import plan_rule
from jaxsched.envs.dl2.learn import join_rows, split_rows
from jaxsched.envs.dl2.rules import BUNDLE, KINDS, PS, WORKER, dynamics
from jaxsched.envs.dl2.rules.dynamics import (
    ClusterState,
    held_after,
    is_active,
    parameter_servers,
    workers,
)
from jaxsched.envs.dl2.rules.observation import ObservationKind
from jaxsched.envs.dl2.rules.tables import Params, whole
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import select
from jaxsched.types import Array, ArraySpec, PRNGKey, PyTree, TimeStep
from jaxsched.wrappers.privileged_state import Whole, WholeEnvState
from jaxsched.wrappers.recorded import RecordedParams
from jaxsched.wrappers.wrapper import Wrapper

MOST_UNEQUAL = 10  # workers per parameter server, or the reverse, beyond which a job is poor
EPSILON_FLOOR = 0.1
EPSILON_HEIGHT, EPSILON_STEPS = 1.2, 500.0
WORKERS_AT, PS_AT = -2, -1  # among the entries of a row


@dataclass(frozen=True)
class Exploration:
    """How the actor-critic explores; as it draws its actions where there are no parameter servers.

    Attributes:
      kind: by the ``paper``'s job-aware exploration (:func:`job_aware`), by the actions that the
        ``published`` learner forces (:func:`forced_actions`), or by ``none`` of both.
    """

    kind: Literal["paper", "published", "none"] = "paper"

    def __call__(self, env: DL2) -> Callable[..., Array] | None:
        """How actions that explore are drawn; None: as the learner does."""
        if self.kind == "none" or env.comm != "ps":
            return None
        make = forced_actions if self.kind == "published" else job_aware
        return make(env.window, env.max_workers, env.max_ps, env.observation)


@dataclass(frozen=True)
class Labels:
    """How a teacher's decisions are changed before they are learnt from.

    Attributes:
      shuffle: put the rows of each decision in random order.
      end: the teacher's void is a label like others, and actions that are illegal have probability
        0. Otherwise decisions to void teach nothing, and the loss is that of the softmax over all
        actions, as in the published learner.
    """

    shuffle: bool = True
    end: bool = True

    def __call__(self, env: DL2) -> Augment | None:
        """The change of one decision; None: there is none."""
        shuffled = shuffle_rows(env.window, env.observation) if self.shuffle else None
        if self.end:
            return shuffled
        mask_of = unlabelled_end(env.window)

        def augment(
            key: PRNGKey, observation: Array, mask: Array, label: Array
        ) -> tuple[Array, Array, Array]:
            if shuffled is not None:
                observation, mask, label = shuffled(key, observation, mask, label)
            return observation, mask_of(mask, label), label

        return augment


def epsilon(step: Array) -> Array:
    """Probability of mending a poor state: ``max(0.1, 1.2 / (1 + exp(step / 500)))``."""
    return jnp.maximum(EPSILON_FLOOR, EPSILON_HEIGHT / (1.0 + jnp.exp(step / EPSILON_STEPS)))


def mending_action(w: Array, p: Array) -> tuple[Array, Array]:
    """The action that mends the first row in a poor state.

    A row is poor with several workers and no parameter server (PS), several PS and no worker, or
    more than ten of one per one of the other.

    Args:
      w: int32 ``[J]``, workers.
      p: int32 ``[J]``, parameter servers.

    Returns:
      The action, int32, and whether there is such a row.
    """
    short_of_ps = ((w >= 2) & (p == 0)) | ((p >= 1) & (w > MOST_UNEQUAL * p))
    short_of_workers = ((p >= 2) & (w == 0)) | ((w >= 1) & (p > MOST_UNEQUAL * w))
    poor = short_of_ps | short_of_workers
    row = jnp.argmax(poor).astype(jnp.int32)
    return KINDS * row + short_of_ps[row].astype(jnp.int32), jnp.any(poor)


def job_aware(
    num_rows: int, max_workers: int, max_ps: int, kind: ObservationKind = "paper"
) -> Callable[[PRNGKey, Array, Array, Array, Array], Array]:
    """Job-aware exploration (section 10) for a cluster with parameter servers.

    Returns:
      ``explore(key, observation, mask, action, step) -> action`` over a batch: with probability
      ``epsilon(step)`` the mending action, if there is one and it is legal.
    """

    def explore(key: PRNGKey, observation: Array, mask: Array, action: Array, step: Array) -> Array:
        rows = split_rows(observation, num_rows, kind)
        w, p = _tasks(rows, max_workers, max_ps, kind)
        mending, poor = jax.vmap(mending_action)(w, p)
        legal = jnp.take_along_axis(mask, mending[:, None], axis=-1)[:, 0]
        chance = jax.random.uniform(key, action.shape, jnp.float32) < epsilon(step)
        return jnp.where(poor & legal & chance, mending, action).astype(action.dtype)

    return explore


LEAST_RATIO, MOST_RATIO = 3, 5  # of tasks or kinds, drawn from these whole numbers
RARE = 0.02  # share of a sequence's actions below which a kind of task is rare
FORCED = 0.5  # probability of each of the tasks that follow
BUNDLE_SHARE = 0.33  # of what a job with many workers gets; the rest are parameter servers


def forced_actions(
    num_rows: int, max_workers: int, max_ps: int, kind: ObservationKind = "paper"
) -> Callable[[PRNGKey, Array, Array, Array, Array], Array]:
    """The actions that DL2's published learner forces (its copy of 2018, ``rl_env.py``).

    At each decision, in place of the action drawn:

    1. the first row for which one of these holds acts: a kind of task (worker, PS, bundle) makes up
       less than 2 % of the sequence's actions so far, but some: that kind; it lacks workers or
       parameter servers: a bundle; it has no more workers than PS: with probability 1/2 a worker;
       it has ``ratio`` times as many workers as PS or more: with probability 1/2 a bundle (one of
       three times) or a PS;
    2. where no row does, and the row with most tasks has more than ``ratio`` times (in whole
       numbers) as many as that with fewest: a worker or a bundle for the latter.

    ``ratio`` is 3, 4 or 5, in the first rule one for each slot. Only legal actions are forced.
    Observations without ``Counts`` do not tell what is rare, nor the slot's ratio: no kind is
    forced for being rare then, and each decision draws a ratio of its own.

    Returns:
      ``explore(key, observation, mask, action, step) -> action`` over a batch.
    """

    def one(key: PRNGKey, observation: Array, counts: Any, mask: Array, action: Array) -> Array:
        w, p = _tasks(split_rows(observation, num_rows, kind), max_workers, max_ps, kind)
        legal = mask[:-1].reshape(num_rows, KINDS)
        present = jnp.any(legal, axis=-1)
        keys = jax.random.split(key, 5)
        ratios = jax.random.randint(keys[0], (2,), LEAST_RATIO, MOST_RATIO + 1)
        coins = jax.random.uniform(keys[1], (2, num_rows), jnp.float32) < FORCED
        rare, ratio = jnp.zeros(num_rows, bool), ratios[1]
        if counts is not None:
            scarce, ratio = jnp.argmin(counts.kinds), counts.ratio
            fewest = counts.kinds[scarce]
            rare = (fewest > 0) & (fewest < RARE * jnp.sum(counts.kinds)) & legal[:, scarce]

        tasks = w + p
        most = jnp.max(jnp.where(present, tasks, 0))
        poorest = jnp.argmin(jnp.where(present, tasks, jnp.iinfo(jnp.int32).max))
        unequal = most // jnp.maximum(tasks[poorest], 1) > ratios[0]
        unequal &= legal[poorest, WORKER] & legal[poorest, BUNDLE]
        either = jnp.where(jax.random.bernoulli(keys[2]), BUNDLE, WORKER)
        action = jnp.where(unequal, KINDS * poorest + either, action)

        lacks = ((w == 0) | (p == 0)) & legal[:, BUNDLE]
        level = ~lacks & (p >= w) & legal[:, WORKER] & coins[0]
        many = ~lacks & ~level & present & (w >= p * ratio) & coins[1]
        row = jnp.argmax(rare | lacks | level | many)
        bundle = jax.random.uniform(keys[3], (), jnp.float32) < BUNDLE_SHARE
        more = jnp.where(bundle, BUNDLE, PS)
        chosen = jnp.where(lacks[row], BUNDLE, jnp.where(level[row], WORKER, more))
        able = lacks[row] | level[row] | (many[row] & legal[row, BUNDLE] & legal[row, PS])
        if counts is not None:
            chosen, able = jnp.where(rare[row], scarce, chosen), able | rare[row]
        return jnp.where(able, KINDS * row + chosen, action)

    def explore(
        key: PRNGKey, observation: PyTree, mask: Array, action: Array, step: Array
    ) -> Array:
        del step
        rows, counts = observation if isinstance(observation, Whole) else (observation, None)
        keys = jax.random.split(key, action.shape[0])
        return jax.vmap(one)(keys, rows, counts, mask, action).astype(action.dtype)

    return explore


def _tasks(
    rows: Array, max_workers: int, max_ps: int, kind: ObservationKind
) -> tuple[Array, Array]:
    """Workers and parameter servers of each row, int32 ``[..., J]``."""
    units = (1, 1) if kind == "artefact" else (max_workers, max_ps)
    w = jnp.round(rows[..., WORKERS_AT] * units[0]).astype(jnp.int32)
    p = jnp.round(rows[..., PS_AT] * units[1]).astype(jnp.int32)
    return w, p


def unlabelled_end(num_rows: int) -> Callable[[Array, Array], Array]:
    """The mask of a decision whose void is no label, as in DL2's published learner.

    Returns:
      ``(mask, label) -> mask`` of one decision: where the label is void, nothing else is legal, so
      that there is no choice and the decision has no weight; elsewhere all is legal, as the
      published loss is that of the softmax over all actions.
    """

    def mask_of(mask: Array, label: Array) -> Array:
        void = KINDS * num_rows
        return (label != void) | (jnp.arange(mask.shape[0]) == void)

    return mask_of


def shuffle_rows(
    num_rows: int, kind: ObservationKind = "paper"
) -> Callable[[PRNGKey, Array, Array, Array], tuple[Array, Array, Array]]:
    """Data augmentation of the supervised stage: the same decision with its rows in random order.

    Returns:
      ``augment(key, observation, mask, label) -> (observation, mask, label)`` of one decision.
    """

    def augment(
        key: PRNGKey, observation: Array, mask: Array, label: Array
    ) -> tuple[Array, Array, Array]:
        order = jax.random.permutation(key, num_rows)
        place = jnp.argsort(order)  # where each row went
        observation = join_rows(split_rows(observation, num_rows, kind)[order], kind)
        tasks = mask[:-1].reshape(num_rows, KINDS)[order].reshape(-1)
        row = jnp.minimum(label // KINDS, num_rows - 1)
        moved = KINDS * place[row] + label % KINDS
        label = jnp.where(label == KINDS * num_rows, label, moved).astype(label.dtype)
        return observation, jnp.append(tasks, mask[-1]), label

    return augment


Unit = Literal["shares", "epochs"]
USUAL_EPOCHS = 100.0
EPOCH_SLOTS = 0.05  # share of a slot that an epoch takes with four workers and four servers


@dataclass(frozen=True)
class Paid:
    """What is paid while learning, and when.

    Attributes:
      unit: at the end of each ``slot`` as in the paper; or there, but by the epochs trained, not by
        shares of each job's (``slot_epochs``); or there, but each inference by its own job's share
        (``own``, ablation C13); or in parts with each inference, as ``shares`` of
        the epochs expected (the same sum) or as ``epochs``.
      urgency: with ``epochs``, the exponent by which those of jobs near their end count for more.
      failed: inferences that asked for what did not fit are decisions like others; otherwise, as in
        the published learner, nothing is learnt from them. With ``slot`` only.
      counted: the ``published`` exploration knows what the sequence's actions were, and the slot's
        ratio (:func:`forced_actions`). With ``slot`` only.
    """

    unit: Literal["slot", "slot_epochs", "own", "shares", "epochs"] = "slot"
    urgency: float = 0.0
    failed: bool = True
    counted: bool = False

    def __post_init__(self) -> None:
        """Check that urgency is of epochs, and counts of slots.

        Raises:
          JaxschedError: they are not.
        """
        if self.unit != "slot" and (self.counted or not self.failed):
            name = "counted" if self.counted else "failed"
            value = str(getattr(self, name)).lower()
            raise JaxschedError(
                f"{name} is {value} and unit {self.unit!r}; accepted with it: 'slot'"
            )
        if self.urgency and self.unit != "epochs":
            raise JaxschedError(
                f"urgency is {self.urgency:g} and unit {self.unit!r}; accepted with urgency: "
                "'epochs'"
            )

    @property
    def credit(self) -> Callable[..., Array] | None:
        """What single inferences are paid; None: what their slot earns."""
        return own_share if self.unit == "own" else None

    @property
    def kept(self) -> Callable[..., Array] | None:
        """Which inferences are learnt from; None: all."""
        return None if self.failed else fitted

    @property
    def told(self) -> bool:
        """Observations are a ``Whole``, for the learner alone."""
        return self.unit == "own" or self.counted or not self.failed

    def __call__(self, env: DL2) -> Environment:
        """The environment that is learned in."""
        if self.counted or not self.failed:
            return Counted(env)
        if self.unit == "slot":
            return env
        if self.unit == "slot_epochs":
            return replace(env, reward="epochs")
        if self.unit == "own":
            return ByJob(env)
        return Shaped(env, self.unit, self.urgency)


class Payments(NamedTuple):
    """Whom inferences are for, and what jobs earn.

    Attributes:
      rows: int32 ``[J]``, the job in each row of the window; N in empty ones.
      earned: float32 ``[N + 1]``, epochs trained over epochs expected of each job in the slot that
        has just ended, 0 of no job; all 0 inside a slot.
    """

    rows: Any
    earned: Any


@dataclass(frozen=True)
class ByJob(Wrapper):
    """``DL2`` whose observations are a ``Whole`` with ``Payments``; all else is the same."""

    env: DL2

    name = "dl2-by-job"
    behaviour_version = 1

    def reset(
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[WholeEnvState, TimeStep]:
        """As ``DL2``."""
        return self._report(self.env.reset(key, params, episode), params)

    def step(
        self, key: PRNGKey, state: WholeEnvState, action: Array, params: Params
    ) -> tuple[WholeEnvState, TimeStep]:
        """As ``DL2``, with what the jobs earned where a slot ends."""
        return self._report(self.env.step(key, state.inner, action, params), params)

    def observe(self, state: WholeEnvState, params: Params) -> tuple[Whole, Array]:
        """The observation with the jobs of its rows, and the mask."""
        observation, mask = self.env.observe(state.inner, params)
        nothing = jnp.zeros(self.env.max_jobs(params) + 1, jnp.float32)
        return Whole(observation, Payments(state.inner.rows, nothing)), mask

    def observation_spec(self, params: Params) -> Whole:
        """Specs of all parts."""
        jobs = self.env.max_jobs(params)
        rest = Payments(
            ArraySpec((self.env.window,), jnp.int32, 0, jobs),
            ArraySpec((jobs + 1,), jnp.float32, 0),
        )
        return Whole(self.env.observation_spec(params), rest)

    def _report(
        self, answer: tuple[ClusterState, TimeStep], params: Params
    ) -> tuple[WholeEnvState, TimeStep]:
        cluster, timestep = answer
        shares = timestep.metrics.job_reward[: self.env.max_jobs(params)]
        earned = jnp.append(shares.astype(jnp.float32), 0.0)
        whole = Whole(timestep.observation, Payments(cluster.rows, earned))
        return WholeEnvState(cluster), timestep._replace(observation=whole)


def own_share(observation: Whole, action: Array, following: Whole) -> Array:
    """What one inference is paid by its own job (ablation C13), float32 scalar.

    Args:
      observation: before it, with ``Payments``.
      action: int32; void is paid the mean over the jobs that trained.
      following: after its slot.
    """
    rows, earned = observation.rest.rows, following.rest.earned
    row = jnp.minimum(action // KINDS, rows.shape[0] - 1)
    trained = jnp.maximum(jnp.sum(earned > 0), 1)
    return jnp.where(action < KINDS * rows.shape[0], earned[rows[row]], jnp.sum(earned) / trained)


class Counts(NamedTuple):
    """What DL2's published learner counts while a sequence is played.

    Attributes:
      kinds: int32 ``[3]``, how many workers, parameter servers and bundles were asked for.
      ratio: int32, 3 to 5, drawn for the slot.
      failed: bool, what was asked for last did not fit.
    """

    kinds: Any
    ratio: Any
    failed: Any


class CountedState(NamedTuple):
    """State of a :class:`Counted` environment."""

    inner: ClusterState
    counts: Counts


@dataclass(frozen=True)
class Counted(Wrapper):
    """``DL2`` whose observations are a ``Whole`` with ``Counts``; all else is the same."""

    env: DL2

    name = "dl2-counted"
    behaviour_version = 1

    def reset(
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[CountedState, TimeStep]:
        """As ``DL2``; nothing is counted yet."""
        cluster, timestep = self.env.reset(key, params, episode)
        counts = Counts(jnp.zeros(KINDS, jnp.int32), _ratio(key), jnp.bool_(False))
        return self._report(cluster, counts, timestep)

    def step(
        self, key: PRNGKey, state: CountedState, action: Array, params: Params
    ) -> tuple[CountedState, TimeStep]:
        """As ``DL2``; what is asked for counts, whether it fits or not."""
        cluster, timestep = self.env.step(key, state.inner, action, params)
        happened, before = timestep.metrics, state.counts
        asked = (action < KINDS * self.env.window) & (jnp.arange(KINDS) == action % KINDS)
        ratio = jnp.where(happened.slot_ended, _ratio(key), before.ratio)
        counts = Counts(before.kinds + asked, ratio, happened.increment.failed)
        return self._report(cluster, counts, timestep)

    def observe(self, state: CountedState, params: Params) -> tuple[Whole, Array]:
        """The observation with the counts, and the mask."""
        observation, mask = self.env.observe(state.inner, params)
        return Whole(observation, state.counts), mask

    def observation_spec(self, params: Params) -> Whole:
        """Specs of all parts."""
        rest = Counts(
            ArraySpec((KINDS,), jnp.int32, 0),
            ArraySpec((), jnp.int32, LEAST_RATIO, MOST_RATIO),
            ArraySpec((), jnp.bool_),
        )
        return Whole(self.env.observation_spec(params), rest)

    def _report(
        self, cluster: ClusterState, counts: Counts, timestep: TimeStep
    ) -> tuple[CountedState, TimeStep]:
        whole = Whole(timestep.observation, counts)
        return CountedState(cluster, counts), timestep._replace(observation=whole)


def _ratio(key: PRNGKey) -> Array:
    return jax.random.randint(key, (), LEAST_RATIO, MOST_RATIO + 1, jnp.int32)


def fitted(following: Whole) -> Array:
    """Whether what an inference asked for did fit, or it was void; bool scalar.

    Args:
      following: the observation after it, with ``Counts``.
    """
    return ~following.rest.failed


class ShapedState(NamedTuple):
    """State of a :class:`Shaped` environment."""

    inner: ClusterState
    potential: Array  # float, what the slot would earn if it ended now


@dataclass(frozen=True)
class Shaped(Wrapper):
    """``DL2`` with a reward for every inference; all else is the same.

    Attributes:
      env: the environment.
      unit: what rewards count.
      urgency: with epochs, how much more those of jobs near their end are worth.
    """

    env: DL2
    unit: Unit = "shares"
    urgency: float = 0.0

    name = "dl2-shaped"
    behaviour_version = 1

    def resample_future(
        self, key: PRNGKey, state: ShapedState, params: Params
    ) -> tuple[ShapedState, Params]:
        """As ``DL2``; what the slot would earn is told by what was drawn."""
        inner, drawn = self.env.resample_future(key, state.inner, params)
        return ShapedState(inner, self.potential(inner, drawn)), drawn

    def potential(self, cluster: ClusterState, params: Params) -> Array:
        """What the slot would earn with the allocation so far, float scalar."""
        _, report = dynamics.train_slot(
            self.env.rules, cluster, params.jobs, params.speed, jnp.bool_(True)
        )
        return jnp.sum(report.trained * self.worth(cluster, params))

    def worth(self, cluster: ClusterState, params: Params) -> Array:
        """What an epoch of each job is worth in this slot, float ``[N]``."""
        expected = whole(params.jobs.expected, cluster.episode)
        if self.unit == "shares":
            return 1.0 / expected
        left = jnp.maximum(expected - cluster.progress, 1.0)
        return EPOCH_SLOTS * (USUAL_EPOCHS / left) ** self.urgency

    def reset(
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[ShapedState, TimeStep]:
        """As ``DL2``."""
        cluster, timestep = self.env.reset(key, params, episode)
        return ShapedState(cluster, self.potential(cluster, params)), timestep

    def step(
        self, key: PRNGKey, state: ShapedState, action: Array, params: Params
    ) -> tuple[ShapedState, TimeStep]:
        """As ``DL2``, paid at once."""
        cluster, timestep = self.env.step(key, state.inner, action, params)
        over = timestep.metrics.slot_ended | timestep.done
        potential = self.potential(cluster, params)
        trained = timestep.metrics.report.trained
        earned = jnp.sum(trained * self.worth(state.inner, params))
        earned = jnp.where(over, earned, potential)
        timestep = timestep._replace(reward=earned - state.potential)
        return ShapedState(cluster, potential), timestep

    def observe(self, state: ShapedState, params: Params) -> tuple[Array, Array]:
        """As ``DL2``."""
        return self.env.observe(state.inner, params)


INFERENCES = 64  # played between two looks at whether all slots have ended


@dataclass(frozen=True)
class Schedules:
    """A teacher that plans whole slots schedules training tables once; its decisions are the data.

    Attributes:
      tables: how many, the first ones.
      by_task: a bundle is labelled as a worker and then a parameter server, though one action
        could place both.
    """

    tables: int = 20
    by_task: bool = False

    def __call__(self, env: DL2, teacher: str, params: Params) -> Callable[[], RecordedParams]:
        """What records them, see :func:`record`.

        Raises:
          JaxschedError: no such teacher, or rows that move up within a slot.
        """
        plan_rule(teacher, DL2Slots(**asdict(env)))
        if env.rows != "batches":
            raise JaxschedError(
                f"dl2: schedules of {teacher} are recorded and env.rows is {env.rows!r}; accepted: "
                "'batches'"
            )
        episodes = np.arange(min(self.tables, env.num_episodes(params)))
        return partial(record, env, teacher, params, episodes, self.by_task)


class Queue(NamedTuple):
    """The actions that carry out a plan, leaves ``[2 L]``; done or dropped ones do not wait."""

    action: Array  # int32
    batch: Array  # int32, in which it can be taken
    waiting: Array  # bool


class Sample(NamedTuple):
    """One decision of the teacher."""

    observation: Array
    mask: Array
    label: Array
    valid: Array  # bool: a decision was taken


def queue_of(env: DL2, plan: Plan, cluster: ClusterState, by_task: bool = False) -> Queue:
    """A plan's increments as the agent's actions, in their order.

    Where bundles are off, or ``by_task``, a bundle is a worker and then a parameter server.
    """
    place = (jnp.cumsum(is_active(cluster)) - 1)[plan.job]
    batch, row = place // env.window, place % env.window
    index = jnp.arange(plan.job.shape[0])
    planned = index < plan.count
    kind = plan.kind.astype(jnp.int32)
    split = (kind == BUNDLE) & (by_task or not env.bundle_action)
    first = KINDS * row + jnp.where(split, WORKER, kind)
    second = KINDS * row + PS
    return Queue(
        action=jnp.stack([first, second], axis=1).reshape(-1),
        batch=jnp.repeat(batch, 2),
        waiting=jnp.stack([planned, planned & split], axis=1).reshape(-1),
    )


def next_action(env: DL2, queue: Queue, cluster: ClusterState, mask: Array) -> tuple[Array, Queue]:
    """The first waiting action of the current batch that still fits, else void."""
    possible = queue.waiting & (queue.batch == cluster.batch)
    possible &= mask[jnp.minimum(queue.action, mask.shape[0] - 1)]
    chosen = jnp.argmax(possible)
    void = jnp.int32(KINDS * env.window)
    action = jnp.where(jnp.any(possible), queue.action[chosen], void)
    done = jnp.arange(possible.shape[0]) == chosen
    return action, queue._replace(waiting=queue.waiting & ~(done & possible))


class Lesson(NamedTuple):
    """Where the teaching of one episode stands."""

    cluster: ClusterState
    queue: Queue
    last: LastSlot  # what was measured in the slot that ended last
    done: Array  # bool, the episode is over
    ended: Array  # bool, the slot is over


def record(
    env: DL2,
    teacher: str,
    params: Params,
    episodes: Sequence[int] | np.ndarray,
    by_task: bool = False,
) -> RecordedParams:
    """Let a teacher schedule episodes and note every decision.

    Args:
      env: the environment whose actions are recorded.
      teacher: a rule-based policy, by name.
      params: environment parameters.
      episodes: which ones, played side by side.
      by_task: a bundle is labelled as a worker and then a parameter server.

    Returns:
      Observations float32 ``[N, D]``, masks bool ``[N, A]``, labels int32 ``[N]``; slot by slot.
    """
    slots = DL2Slots(**asdict(env))
    memory, lessons = _begin(slots, teacher, by_task, params, jnp.asarray(episodes, jnp.int32))
    parts: list[Sample] = []
    while not bool(jnp.all(lessons.done)):
        lessons, memory = _plan(slots, teacher, by_task, memory, lessons, params)
        while not bool(jnp.all(lessons.ended)):
            lessons, samples = _play(env, lessons, params)
            valid = np.asarray(samples.valid)
            parts.append(jax.tree.map(lambda leaf: np.asarray(leaf)[valid], samples))  # noqa: B023
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    return RecordedParams(
        jnp.asarray(joined.observation, jnp.float32),
        jnp.asarray(joined.mask),
        jnp.asarray(joined.label, jnp.int32),
    )


@partial(jax.jit, static_argnames=("slots", "teacher", "by_task"))
def _begin(
    slots: DL2Slots, teacher: str, by_task: bool, params: Params, episodes: Array
) -> tuple[PyTree, Lesson]:
    rule = plan_rule(teacher, slots, log=True)

    def one(episode: Array) -> tuple[PyTree, Lesson]:
        state, _ = slots.reset(jax.random.key(0), params, episode)
        memory = rule.init(params)
        plan, _ = rule.plan(memory, state, params)
        queue = queue_of(slots, plan, state.cluster, by_task)
        over = jnp.bool_(False)
        return memory, Lesson(state.cluster, queue, state.last, over, over)

    return jax.vmap(one)(episodes)


@partial(jax.jit, static_argnames=("slots", "teacher", "by_task"))
def _plan(
    slots: DL2Slots, teacher: str, by_task: bool, memory: PyTree, lessons: Lesson, params: Params
) -> tuple[Lesson, PyTree]:
    """The teacher's plans of the slots that begin."""
    rule = plan_rule(teacher, slots, log=True)

    def one(memory: PyTree, lesson: Lesson) -> tuple[Lesson, PyTree]:
        plan, memory = rule.plan(memory, SlotsState(lesson.cluster, lesson.last), params)
        queue = queue_of(slots, plan, lesson.cluster, by_task)
        return lesson._replace(queue=queue, ended=lesson.done), memory

    return jax.vmap(one)(memory, lessons)


@partial(jax.jit, static_argnames=("env",))
def _play(env: DL2, lessons: Lesson, params: Params) -> tuple[Lesson, Sample]:
    """``INFERENCES`` steps of every episode; those whose slot is over stand still."""
    key = jax.random.key(0)  # steps draw nothing

    def one(lesson: Lesson) -> tuple[Lesson, Sample]:
        cluster = lesson.cluster
        observation, mask = env.observe(cluster, params)
        label, queue = next_action(env, lesson.queue, cluster, mask)
        after, timestep = env.step(key, cluster, label, params)
        happened = timestep.metrics
        held = held_after(cluster.tasks, happened.increment)
        ended = happened.slot_ended
        measured = LastSlot(workers(held), parameter_servers(held), happened.report.pace)
        following = Lesson(
            cluster=after,
            queue=queue,
            last=select(ended, measured, lesson.last),
            done=timestep.done,
            ended=ended,
        )
        waits = lesson.ended
        return select(waits, lesson, following), Sample(observation, mask, label, ~waits)

    def step(lessons: Lesson, _: None) -> tuple[Lesson, Sample]:
        return jax.vmap(one)(lessons)

    return jax.lax.scan(step, lessons, length=INFERENCES)
