"""Decisions of an existing scheduler, recorded for the supervised stage (section 10).

The scheduler plans whole slots; the agent decides inference by inference, batch by batch. So a
plan's increments are regrouped: for each batch in turn those of the batch's jobs, in their order,
then a void unless nothing more of the batch fits. Increments that no longer fit after regrouping
are dropped.

Axes: ``E`` episodes, ``L`` increments of a plan, ``N`` recorded decisions.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.dl2.cluster import BUNDLE, KINDS, PS, WORKER
from jaxsched.envs.dl2.dynamics import (
    ClusterState,
    held_after,
    is_active,
    parameter_servers,
    workers,
)
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.heuristics import plan_rule
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.plans import Plan
from jaxsched.envs.dl2.slotwise import DL2Slots, LastSlot, SlotsState
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import select
from jaxsched.types import Array, PyTree
from jaxsched.wrappers.recorded import RecordedParams

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
