"""Optimus with a fixed interval: the same cluster, seen at regular instants (section 9).

All submitted workloads are scheduled, not only a window; an allocation holds for the whole
interval, progress is continuous, arrivals wait for the next instant. Its marginal gain of one more
unit is section 9 of the elastic core's specification. Axes: ``n`` workloads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jaxsched.core.environment import Environment, drawn_episode
from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.elastic.models import CHIC_COEFFICIENTS
from jaxsched.elastic.resources import dominant_amount
from jaxsched.envs.chic.environment import check_capacity
from jaxsched.envs.chic.rules import SERVERS, WORKERS, Params, build_params, submissions, unpack
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.ops.bounds import known_largest
from jaxsched.options import Bounds, Count
from jaxsched.types import Array, ArraySpec, PRNGKey, PyTree, TimeStep

LEAST_GAIN_S = 1e-9  # units that gain no more are not given


def gains(
    seconds: Array,
    capacity: tuple[int, ...],
    model: Array,
    left: Array,
    workers: Array,
    servers: Array,
) -> Array:
    """Seconds of remaining time saved, per amount of the dominant resource, ``[..., 2]``.

    Of one more parameter server (PS), then of one more worker: in this order the first largest
    entry is the one that Optimus takes. Minus infinity for workloads that cannot train yet.

    Args:
      seconds: per iteration, ``[M, W + 2, P + 2]``.
      capacity: of the cluster.
      model: int32 ``[...]``.
      left: remaining iterations ``[...]``.
      workers: int32 ``[...]``.
      servers: int32 ``[...]``.
    """
    amounts = np.stack([dominant_amount(SERVERS, capacity), dominant_amount(WORKERS, capacity)], -1)
    now = left * seconds[model, workers, servers]
    more = jnp.stack(
        [left * seconds[model, workers, servers + 1], left * seconds[model, workers + 1, servers]],
        axis=-1,
    )
    holds = (workers > 0) & (servers > 0)
    saved = jnp.where(holds[..., None], now[..., None] - more, -jnp.inf)
    return saved / jnp.asarray(amounts)[model]


OnBlock = Literal["stop", "skip"]
SLACK = 1e-9  # share of the interval by which a finish may lie behind it


class IntervalState(NamedTuple):
    """Everything the future depends on."""

    left: Array  # float [n + 1], remaining iterations, 0 once finished
    instant: Array  # int32, intervals since the first submission
    episode: Array  # int32


class IntervalMetrics(NamedTuple):
    """What happened in one interval.

    Attributes:
      began: float, the decision instant.
      trains: bool ``[n]``.
      progress: float ``[n]``, iterations made.
      finishes: bool ``[n]``.
      finish: float ``[n]``, when, where it finishes.
      gpu_seconds: float, allocated to the workloads that trained, until they finished.
      phase: bool, a decision was taken.
    """

    began: Array
    trains: Array
    progress: Array
    finishes: Array
    finish: Array
    gpu_seconds: Array
    phase: Array


@dataclass(frozen=True)
class OptimusIntervals(Environment):
    """One step is one decision instant; instants without active workloads are skipped.

    Action: int32 ``[n, 2]``, workers and parameter servers (PS) of each workload in table order.
    What is not active gets nothing; an allocation that does not fit counts as none. Observation:
    float32 ``[n]``, remaining iterations of the active workloads. Reward: minus the time that
    workloads spend in the system, until they finish.

    Attributes:
      capacity: GPUs, CPU cores, GB of memory.
      on_block: what the rule does where the unit of the largest gain does not fit.
      interval: seconds between decisions; None: that of the parameters.
      max_instants: decisions of an episode, a bound for ``max_steps``.
    """

    capacity: tuple[int, int, int] = (10, 120, 600)
    on_block: OnBlock = "stop"
    interval: Annotated[float, Bounds(above=0, below=inf)] | None = None
    max_instants: Count = 100_000

    name = "chic"
    behaviour_version = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "capacity", check_capacity(self.capacity))
        super().__post_init__()

    def params(
        self,
        tables: Sequence[JobTable],
        *,
        coefficients: npt.ArrayLike = CHIC_COEFFICIENTS,
        length: int = 0,
        **scalars: float,
    ) -> Params:
        """Parameters as ``Chic.params`` makes them, which serve as well.

        Raises:
          JaxschedError: a table or a value is refused, or an episode could have more than
            ``max_instants`` decisions.
        """
        params = build_params(
            tables,
            self.capacity,
            pair=False,
            coefficients=coefficients,
            scalars=scalars,
            length=length,
        )
        instants = float(params.max_time / self.seconds_between(params))
        if instants + 1 > self.max_instants:
            raise JaxschedError(
                f"chic: max_time / interval is {instants:.1f}; accepted: below max_instants, "
                f"{self.max_instants}"
            )
        return params

    def num_episodes(self, params: Params) -> int:
        """Number of workload tables."""
        return params.jobs.num_jobs.shape[0]

    def max_jobs(self, params: Params) -> int:
        """Workloads of the longest table."""
        return params.jobs.empty_row

    def max_steps(self, params: Params) -> int:
        """As many as there may be instants."""
        del params
        return self.max_instants

    def observation_spec(self, params: Params) -> ArraySpec:
        """Remaining iterations per workload."""
        _, iterations = unpack(params.jobs.workload)
        most = known_largest(iterations / params.iter_scale)
        return ArraySpec((self.max_jobs(params),), jnp.float32, 0.0, most)

    def action_spec(self, params: Params) -> ArraySpec:
        """Workers and PS per workload."""
        most = max(params.seconds.shape[1:]) - 2  # that the cluster holds
        return ArraySpec((self.max_jobs(params), 2), jnp.int32, 0, most)

    def seconds_between(self, params: Params) -> Array:
        """Seconds from one instant to the next, float."""
        return params.interval if self.interval is None else jnp.asarray(self.interval, float)

    def time(self, state: IntervalState, params: Params) -> Array:
        """The instant in seconds."""
        first = submissions(params.jobs, state.episode)[0]
        return first + state.instant * self.seconds_between(params)

    def active(self, state: IntervalState, params: Params) -> Array:
        """Workloads submitted by now and unfinished, bool ``[n]``."""
        submit = submissions(params.jobs, state.episode)[:-1]
        return (submit <= self.time(state, params)) & (state.left[:-1] > 0)

    def observe(self, state: IntervalState, params: Params) -> tuple[Array, Array]:
        """Remaining iterations of the active workloads; the mask has nothing to say."""
        left = jnp.where(self.active(state, params), state.left[:-1], 0.0) / params.iter_scale
        return left.astype(jnp.float32), jnp.ones((1,), bool)

    def reset(
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[IntervalState, TimeStep]:
        """The instant of the first submission."""
        episode = jnp.asarray(drawn_episode(key, params.draw, episode), jnp.int32)
        _, iterations = unpack(params.jobs.workload[episode])
        state = IntervalState(iterations.astype(float), jnp.int32(0), episode)
        zero, false = jnp.zeros((), float), jnp.bool_(False)
        zeros = jnp.zeros(self.max_jobs(params), float)
        flags = jnp.zeros(self.max_jobs(params), bool)
        now = self.time(state, params)
        metrics = IntervalMetrics(now, flags, zeros, flags, zeros, zero, false)
        observation, mask = self.observe(state, params)
        return state, TimeStep(observation, mask, zero, false, false, zero, metrics)

    def step(
        self, key: PRNGKey, state: IntervalState, action: Array, params: Params
    ) -> tuple[IntervalState, TimeStep]:
        """One interval with this allocation, then on to the next instant with active workloads."""
        del key
        submit = submissions(params.jobs, state.episode)[:-1]
        model, _ = unpack(params.jobs.workload[state.episode][:-1])
        now, interval = self.time(state, params), self.seconds_between(params)
        over = self._over(state, params)
        active = self.active(state, params) & ~over
        units = jnp.where(active[:, None], jnp.maximum(action, 0), 0).astype(jnp.int32)
        units = jnp.where(self._fits(units, model), units, 0)
        trains = jnp.all(units > 0, axis=-1)
        pace = params.seconds[model, units[:, 0], units[:, 1]]
        left = state.left[:-1]
        needed = jnp.where(trains, left * pace, jnp.inf)
        finishes = needed <= interval * (1 + SLACK)
        run = jnp.where(trains, jnp.minimum(needed, interval), 0.0)
        after = jnp.maximum(left - jnp.where(trains, interval / pace, 0.0), 0.0)
        after = jnp.where(finishes, 0.0, jnp.where(trains, after, left))

        instant = jnp.where(over, state.instant, state.instant + 1)
        following = state._replace(left=state.left.at[:-1].set(after), instant=instant)
        following = self._skip_idle(following, params)
        terminated = jnp.all(after <= 0)
        moved = ~over & ~terminated
        following = following._replace(instant=jnp.where(moved, following.instant, instant))
        end = self.time(following, params)
        elapsed = jnp.where(over, 0.0, end - now)
        stay = jnp.where(finishes, now + needed, end)
        present = jnp.clip(stay - jnp.maximum(submit, now), 0.0)
        lost = jnp.sum(jnp.where((left > 0) & ~over, present, 0.0))
        gpus = units[:, 0] * jnp.asarray(WORKERS[:, 0])[model]
        metrics = IntervalMetrics(
            began=now,
            trains=trains,
            progress=left - after,
            finishes=finishes,
            finish=jnp.where(finishes, now + needed, 0.0),
            gpu_seconds=jnp.sum(gpus * run),
            phase=~over,
        )
        observation, mask = self.observe(following, params)
        timestep = TimeStep(
            observation=observation,
            action_mask=mask,
            reward=-lost / params.time_unit,
            terminated=terminated,
            truncated=~terminated & self._over(following, params),
            elapsed=elapsed,
            metrics=metrics,
        )
        return following, timestep

    def _over(self, state: IntervalState, params: Params) -> Array:
        return jnp.all(state.left <= 0) | (self.time(state, params) >= params.max_time)

    def _fits(self, units: Array, model: Array) -> Array:
        """Whether an allocation ``[n, 2]`` fits the cluster (counts beyond it cannot overflow)."""
        most = max(self.capacity) + 1
        units = jnp.minimum(units, most).astype(float)
        needs = (
            units[:, :1] * jnp.asarray(WORKERS)[model] + units[:, 1:] * jnp.asarray(SERVERS)[model]
        )
        return jnp.all(jnp.sum(needs, axis=0) <= jnp.asarray(self.capacity))

    def _skip_idle(self, state: IntervalState, params: Params) -> IntervalState:
        """On to the first instant from now at which a workload is active."""
        submit = submissions(params.jobs, state.episode)[:-1]
        interval = self.seconds_between(params)
        earliest = jnp.min(jnp.where(state.left[:-1] > 0, submit, jnp.inf))
        gap = earliest - submit[0]
        wanted = jnp.ceil(jnp.where(jnp.isinf(gap), 0.0, gap) / interval).astype(jnp.int32)
        at = submit[0] + (wanted - 1) * interval  # rounding may have gone one too far
        wanted = wanted - ((wanted > 0) & (at >= earliest))
        wanted = wanted + (submit[0] + wanted * interval < earliest) * jnp.isfinite(gap)
        return state._replace(instant=jnp.maximum(state.instant, wanted.astype(jnp.int32)))


class _Giving(NamedTuple):
    """Where the rule stands while it gives out units."""

    units: Array  # int32 [n, 2]
    free: Array  # int32 [3]
    closed: Array  # bool [n, 2], blocked candidates: PS, worker
    stopped: Array  # bool


def allocate(env: OptimusIntervals, state: IntervalState, params: Params) -> Array:
    """Optimus' allocation: one worker and one PS each, then the largest gain; int32 ``[n, 2]``."""
    model, _ = unpack(params.jobs.workload[state.episode][:-1])
    active, left = env.active(state, params), state.left[:-1]
    worker, server = jnp.asarray(WORKERS)[model], jnp.asarray(SERVERS)[model]

    def start(free: Array, job: tuple[Array, Array]) -> tuple[Array, Array]:
        wants, need = job
        given = wants & jnp.all(need <= free)
        return free - jnp.where(given, need, 0), given

    full = jnp.asarray(env.capacity, jnp.int32)
    free, given = jax.lax.scan(start, full, (active, worker + server))
    units = jnp.repeat(given.astype(jnp.int32)[:, None], 2, axis=1)
    giving = _Giving(units, free, jnp.zeros(units.shape, bool), ~jnp.any(given))

    def give(giving: _Giving) -> _Giving:
        gain = gains(
            params.seconds, env.capacity, model, left, giving.units[:, 0], giving.units[:, 1]
        )
        gain = jnp.where(giving.closed, -jnp.inf, gain).reshape(-1)
        best = jnp.argmax(gain)
        job, is_worker = best // 2, best % 2 == 1
        need = jnp.where(is_worker, worker[job], server[job])
        worthwhile, fits = gain[best] > LEAST_GAIN_S, jnp.all(need <= giving.free)
        gives = worthwhile & fits & ~giving.stopped
        column = jnp.where(is_worker, 0, 1)
        blocked = worthwhile & ~fits & ~giving.stopped
        closed = giving.closed.at[job, best % 2].max(blocked)
        stopped = giving.stopped | ~worthwhile
        if env.on_block == "stop":
            stopped |= blocked
        return _Giving(
            units=giving.units.at[job, column].add(gives.astype(jnp.int32)),
            free=giving.free - jnp.where(gives, need, 0),
            closed=closed,
            stopped=stopped,
        )

    return jax.lax.while_loop(lambda giving: ~giving.stopped, give, giving).units


@cache
def optimus(env: OptimusIntervals) -> Policy:
    """Optimus; it knows the speeds exactly. The same object for equal environments."""

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del weights, key
        return allocate(env, view.state, view.params), memory

    return Policy("optimus", no_memory, act, privileged=True)
