"""What DL2's learner does beside its gradient: it explores, and changes what it imitates."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp

from jaxsched.algorithms.imitation import Augment
from jaxsched.envs.dl2.cluster import BUNDLE, PS, WORKER
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.networks import KINDS, join_rows, split_rows
from jaxsched.envs.dl2.observation import ObservationKind
from jaxsched.types import Array, PRNGKey

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
FORCED = 0.5  # probability of each of the tasks that follow
BUNDLE_SHARE = 0.33  # of what a job with many workers gets; the rest are parameter servers


def forced_actions(
    num_rows: int, max_workers: int, max_ps: int, kind: ObservationKind = "paper"
) -> Callable[[PRNGKey, Array, Array, Array, Array], Array]:
    """The actions that DL2's published learner forces (its copy of 2018, ``rl_env.py``).

    At each decision, in place of the action drawn:

    1. the first row for which one of these holds acts: it lacks workers or parameter servers: a
       bundle; it has no more workers than PS: with probability 1/2 a worker; it has ``ratio`` times
       as many workers as PS or more: with probability 1/2 a bundle (one of three times) or a PS;
    2. where no row does, and the row with most tasks has more than ``ratio`` times (in whole
       numbers) as many as that with fewest: a worker or a bundle for the latter.

    ``ratio`` is 3, 4 or 5; there, one for each slot in the first rule, here one for each decision.
    Only legal actions are forced. The published rule that favours a kind of task which makes up
    less than 2 % of a sequence's actions is left out.

    Returns:
      ``explore(key, observation, mask, action, step) -> action`` over a batch.
    """

    def one(key: PRNGKey, observation: Array, mask: Array, action: Array) -> Array:
        w, p = _tasks(split_rows(observation, num_rows, kind), max_workers, max_ps, kind)
        legal = mask[:-1].reshape(num_rows, KINDS)
        present = jnp.any(legal, axis=-1)
        keys = jax.random.split(key, 5)
        ratios = jax.random.randint(keys[0], (2,), LEAST_RATIO, MOST_RATIO + 1)
        coins = jax.random.uniform(keys[1], (2, num_rows), jnp.float32) < FORCED

        tasks = w + p
        most = jnp.max(jnp.where(present, tasks, 0))
        poorest = jnp.argmin(jnp.where(present, tasks, jnp.iinfo(jnp.int32).max))
        unequal = most // jnp.maximum(tasks[poorest], 1) > ratios[0]
        unequal &= legal[poorest, WORKER] & legal[poorest, BUNDLE]
        either = jnp.where(jax.random.bernoulli(keys[2]), BUNDLE, WORKER)
        action = jnp.where(unequal, KINDS * poorest + either, action)

        lacks = ((w == 0) | (p == 0)) & legal[:, BUNDLE]
        level = ~lacks & (p >= w) & legal[:, WORKER] & coins[0]
        many = ~lacks & ~level & present & (w >= p * ratios[1]) & coins[1]
        row = jnp.argmax(lacks | level | many)
        bundle = jax.random.uniform(keys[3], (), jnp.float32) < BUNDLE_SHARE
        more = jnp.where(bundle, BUNDLE, PS)
        chosen = jnp.where(lacks[row], BUNDLE, jnp.where(level[row], WORKER, more))
        able = lacks[row] | level[row] | (many[row] & legal[row, BUNDLE] & legal[row, PS])
        return jnp.where(able, KINDS * row + chosen, action)

    def explore(key: PRNGKey, observation: Array, mask: Array, action: Array, step: Array) -> Array:
        del step
        keys = jax.random.split(key, action.shape[0])
        return jax.vmap(one)(keys, observation, mask, action).astype(action.dtype)

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
