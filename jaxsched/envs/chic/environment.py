"""Chic and Chic-Pair as an environment: one unit for a workload of the window, or train."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy.typing as npt

from jaxsched.core.environment import Environment, drawn_episode
from jaxsched.elastic.models import CHIC_COEFFICIENTS, RESOURCES
from jaxsched.envs.chic.rules import (
    WORKERS,
    Params,
    build_params,
    dynamics,
    resampled,
    submitted_by,
)
from jaxsched.envs.chic.rules import observation as obs
from jaxsched.envs.chic.rules.dynamics import (
    Cluster,
    Row,
    State,
    any_of,
    can_train,
    column,
    either,
    exists,
    flat,
    joined,
    places,
    shared,
    summed,
)
from jaxsched.envs.chic.rules.observation import privileged_state
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.ops.batching import materialise_flags_by_quotient
from jaxsched.options import Bounds
from jaxsched.types import Array, ArraySpec, DiscreteSpec, Feature, PRNGKey, TimeStep

VoidOutside = Literal["ends", "inert"]
MAX_WINDOW = 1024
MAX_DECISIONS = 2**20


class StepMetrics(NamedTuple):
    """What happened in one step; the recorder gathers these into records per workload.

    Attributes:
      job: int32 ``[I]``, the window before the step, as table rows.
      began: float, time before the step.
      ended: float, time after it.
      trains: bool ``[I]``, this row's workload trained.
      progress: int32 ``[I]``, iterations it made.
      finishes: bool ``[I]``, and finished.
      decides: bool, the step was a decision.
      phase: bool, the step was a training phase (neither after the end).
      gpu_seconds: float, allocated to the workloads that trained.
      missed: bool, the action chose a row without workload.
      blocked: bool, the action's unit did not fit.
    """

    job: Array
    began: Array
    ended: Array
    trains: Array
    progress: Array
    finishes: Array
    decides: Array
    phase: Array
    gpu_seconds: Array
    missed: Array
    blocked: Array


@dataclass(frozen=True)
class Chic(Environment):
    """A cluster of aggregate capacity that trains elastic workloads.

    Observation: float32 ``[6 I + 1]``, Chic-Pair ``[5 I + 1]`` (``observation.py``). Actions:
    ``2 r`` a worker for row ``r`` of the window, ``2 r + 1`` a parameter server (PS), last void
    (train); Chic-Pair: ``r`` one of both. Reward: minus the time workloads spend in the system,
    and penalties for pointless choices (section 6). Terminates when every workload has finished.

    Attributes:
      capacity: GPUs, CPU cores, GB of memory.
      window: I, workloads that can be chosen and trained.
      pair: Chic-Pair.
      max_decisions: in one decision phase.
      stop_on_cond2: the decision phase also ends once every workload of the window is as fast as
        it gets.
      stop_on_one: it also ends once one resource is used up, that is less of it is free than any
        unit of the window needs (the paper's Equation 4, "exists k").
      free_choice: outside S', the end of a decision phase, report every action as legal (the
        paper's policy may choose pointless ones); the rules do not change.
      void_outside: what void does outside S': it ``ends`` the decision phase, or is ``inert``, a
        decision that changes nothing (the paper's section 4.2 ends a phase on its two conditions
        alone). Out-of-range actions are void.
      penalty_once: of a decision phase only the first choice of an empty row costs p1.
      max_stalls: phases of an episode in which no workload trains, a bound for ``max_steps``.
    """

    capacity: tuple[int, int, int] = (10, 120, 600)
    window: Annotated[int, Bounds(1, MAX_WINDOW)] = 3
    pair: bool = False
    max_decisions: Annotated[int, Bounds(0, MAX_DECISIONS)] = 256
    stop_on_cond2: bool = True
    stop_on_one: bool = False
    free_choice: bool = False
    void_outside: VoidOutside = "ends"
    penalty_once: bool = False
    max_stalls: Annotated[int, Bounds(0, 2**62)] = 10_000

    name = "chic"
    behaviour_version = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "capacity", check_capacity(self.capacity))
        super().__post_init__()

    @property
    def cluster(self) -> Cluster:
        """The packing of the cluster's resources."""
        return dynamics.cluster_of(self.capacity)

    @property
    def void(self) -> int:
        """The last action: train."""
        return self.window if self.pair else 2 * self.window

    def params(
        self,
        tables: Sequence[JobTable],
        *,
        coefficients: npt.ArrayLike = CHIC_COEFFICIENTS,
        length: int = 0,
        **scalars: float,
    ) -> Params:
        """Parameters for these workload tables.

        Args:
          tables: of the schema ``CHIC_JOBS``; sorted by submission here.
          coefficients: of the iteration time, ``[3, 5]`` (``elastic.speed.seconds``).
          length: pad the tables to at least this many workloads, so that other tables share what
            is compiled for these.
          **scalars: values for some of ``tables.SCALARS``.

        Raises:
          JaxschedError: a table or a value is refused, or an episode could stall more often than
            ``max_stalls``.
        """
        params = build_params(
            tables,
            self.capacity,
            pair=self.pair,
            coefficients=coefficients,
            scalars=scalars,
            length=length,
        )
        stalls = float(params.max_time / params.stall_seconds)
        if stalls > self.max_stalls:
            raise JaxschedError(
                f"chic: max_time / stall_seconds is {stalls:.1f}; accepted: at most max_stalls, "
                f"{self.max_stalls}"
            )
        return params

    def num_episodes(self, params: Params) -> int:
        """Number of workload tables."""
        return params.jobs.num_jobs.shape[0]

    def max_jobs(self, params: Params) -> int:
        """Workloads of the longest table."""
        return params.jobs.empty_row

    def max_steps(self, params: Params) -> int:
        """Phases (one per arrival, finish or stall) times the decisions of each, with its void."""
        phases = 2 * self.max_jobs(params) + self.max_stalls + 1
        return phases * (self.max_decisions + 1)

    def observation_spec(self, params: Params) -> ArraySpec:
        """Flat float32 vector, named entry by entry."""
        names = obs.observation_names(self.window, self.pair)
        return ArraySpec((len(names),), jnp.float32, 0.0, obs.largest_entry(params), names)

    def action_spec(self, params: Params) -> DiscreteSpec:
        """The units of each row, then void."""
        del params
        kinds = ("pair",) if self.pair else ("worker", "server")
        units = (f"row{row}.{kind}" for row in range(self.window) for kind in kinds)
        return DiscreteSpec(self.void + 1, (*units, "void"))

    def server_gpus(self) -> tuple[int, ...]:
        """The GPUs of the one pool."""
        return (self.capacity[0],)

    @classmethod
    def of_servers(
        cls,
        num_servers: int,
        gpus_per_server: int,
        kinds: tuple[Any, ...] = (),
        slots: int = 1,
    ) -> dict[str, Any]:
        """There are no servers.

        Raises:
          JaxschedError: always.
        """
        raise JaxschedError(
            "chic: its cluster is one pool without servers; accepted: the option "
            "env.capacity=[GPUS,CORES,GB]"
        )

    def facts(self) -> dict[str, str]:
        """The cluster, the window and the action set."""
        gpus, cpus, memory = self.capacity
        unit = "a worker and a parameter server" if self.pair else "a worker or a parameter server"
        return {
            "cluster": f"{gpus} GPUs, {cpus} CPU cores, {memory} GB",
            "window": f"the {self.window} oldest workloads",
            "an action gives": unit,
        }

    def features(self) -> dict[str, Feature]:
        """What the observation's entries mean."""
        return obs.features(self.pair)

    def free(self, state: State) -> Array:
        """Packed free resources, int32."""
        return dynamics.free_resources(state, self.cluster)

    def terminal(self, state: State, params: Params) -> Array:
        """S': the decision phase is over and any action trains, bool (section 3)."""
        fits = dynamics.fitting_units(state, self.cluster, self.pair)
        return self._terminal(state, params, fits)

    def _terminal(self, state: State, params: Params, fits: list[list[Array]]) -> Array:
        over = ~any_of([unit for row in fits for unit in row])
        over |= state.decisions >= self.max_decisions
        if self.stop_on_cond2:
            faster = [
                exists(row) & ~dynamics.look_up_speed(params.settled, row) for row in state.rows
            ]
            over |= ~any_of(faster)
        if self.stop_on_one:
            over |= dynamics.used_up(state, self.cluster, self.pair)
        return over

    def legal(self, state: State, params: Params) -> Array:
        """Units that fit outside S', and void; bool ``[A]``."""
        fits = dynamics.fitting_units(state, self.cluster, self.pair)
        chooses = shared(~self._terminal(state, params, fits), self.window)
        units = flat([[unit & chooses for unit in row] for row in fits])
        return joined(units, jnp.ones_like(chooses))

    def observe(self, state: State, params: Params) -> tuple[Array, Array]:
        """Observation and mask of a state."""
        observation = obs.observe(state, params, self.pair)
        if not self.free_choice:
            return observation, self.legal(state, params)
        chooses = shared(~self.terminal(state, params), self.window)
        return observation, jnp.append(jnp.broadcast_to(chooses, self.void), jnp.bool_(True))

    def privileged_state(self, state: State, params: Params) -> Array:
        """For critics in training, float32 ``[17]`` (``privileged_state.py``)."""
        return privileged_state(state, params)

    def reset(
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[State, TimeStep]:
        """The idle cluster at the first submission of table ``episode``, or of one drawn."""
        episode = drawn_episode(key, params.draw, episode)
        state = dynamics.new_state(params.jobs, episode, self.window)
        if self.penalty_once:
            state = state._replace(paid=jnp.bool_(False))
        zero, false = jnp.zeros((), float), jnp.bool_(False)
        whole, flags = jnp.zeros(self.window, jnp.int32), jnp.zeros(self.window, bool)
        job = column([row.job for row in state.rows])
        metrics = StepMetrics(
            job, state.time, state.time, flags, whole, flags, false, false, zero, false, false
        )
        observation, mask = self.observe(state, params)
        return state, TimeStep(observation, mask, zero, false, false, zero, metrics)

    def step(
        self, key: PRNGKey, state: State, action: Array, params: Params
    ) -> tuple[State, TimeStep]:
        """One unit, or one training phase (section 3); ``key`` is not used."""
        del key
        jobs = params.jobs
        fits = dynamics.fitting_units(state, self.cluster, self.pair)
        over = dynamics.finished(state, jobs) | dynamics.timed_out(state, params)
        void = (action < 0) | (action >= self.void)
        chooses = ~over & ~self._terminal(state, params, fits)
        if self.void_outside == "ends":
            chooses &= ~void
        chooses, trains = materialise_flags_by_quotient(chooses, ~over & ~chooses)

        rows, bonus, missed, blocked = self._allocate(state, fits, action, params)
        paid = None if state.paid is None else ~trains & (state.paid | (chooses & missed))
        phase = dynamics.train(state, params)
        duration = jnp.where(chooses, params.decision_seconds, phase.duration)
        duration = jnp.where(over, 0.0, duration)
        end = jnp.where(trains, phase.end, state.time + duration)
        submitted = submitted_by(jobs, state.episode, end, state.submitted)
        lost = dynamics.waiting_time(state, params, end, duration, submitted)
        reward = jnp.where(chooses, bonus, 0.0) - lost / params.time_unit

        trained = [trains & can_train(row) for row in state.rows]
        after = []
        for row, more, left in zip(state.rows, rows, phase.left, strict=True):
            after.append(
                Row(
                    job=row.job,
                    model=row.model,
                    left=jnp.where(trains, left, row.left),
                    workers=jnp.where(trains, 0, jnp.where(chooses, more.workers, row.workers)),
                    servers=jnp.where(trains, 0, jnp.where(chooses, more.servers, row.servers)),
                )
            )
        decisions = jnp.where(trains, 0, state.decisions + chooses)
        following = dynamics.refill(
            State(tuple(after), end, decisions, submitted, state.entered, state.episode, paid), jobs
        )

        gpus = [
            jnp.where(t, row.workers * jnp.asarray(WORKERS[:, 0])[row.model], 0)
            for t, row in zip(trained, state.rows, strict=True)
        ]
        progress = [row.left - new.left for row, new in zip(state.rows, after, strict=True)]
        finishes = [
            exists(row) & (new.left == 0) for row, new in zip(state.rows, after, strict=True)
        ]
        metrics = StepMetrics(
            job=column([row.job for row in state.rows]),
            began=state.time,
            ended=end,
            trains=column(trained),
            progress=column(progress),
            finishes=column(finishes),
            decides=chooses,
            phase=trains,
            gpu_seconds=jnp.sum(column(gpus), dtype=jnp.int32) * duration,
            missed=chooses & missed,
            blocked=chooses & blocked,
        )
        observation, mask = self.observe(following, params)
        terminated, late = materialise_flags_by_quotient(
            dynamics.finished(following, jobs), dynamics.timed_out(following, params)
        )
        timestep = TimeStep(
            observation=observation,
            action_mask=mask,
            reward=reward,
            terminated=terminated,
            truncated=~terminated & late,
            elapsed=duration,
            metrics=metrics,
        )
        return following, timestep

    def resample_future(self, key: PRNGKey, state: State, params: Params) -> tuple[State, Params]:
        """The workloads still to be submitted as a bootstrap of the table's."""
        jobs = resampled(key, params.jobs, state.episode, state.submitted, state.time)
        alone = params._replace(jobs=jobs, draw=jnp.array([0, 1], jnp.int32))
        return state._replace(episode=jnp.int32(0)), alone

    def _allocate(
        self, state: State, fits: list[list[Array]], action: Array, params: Params
    ) -> tuple[list[Row], Array, Array, Array]:
        """Rows with one more unit, r2 + r3, and whether the row was empty or the unit too large."""
        after, missed, blocked = [], [], []
        bonus = jnp.zeros((), float)
        for place, row, fit in zip(places(self.window), state.rows, fits, strict=True):
            if self.pair:
                asked = [action == place]
            else:
                asked = [action == 2 * place, action == 2 * place + 1]
            grows = [a & f for a, f in zip(asked, fit, strict=True)]
            more = [g.astype(jnp.int32) for g in grows]
            new = row._replace(workers=row.workers + more[0], servers=row.servers + more[-1])
            missed.append(either(asked) & ~exists(row))
            blocked.append(either(asked) & exists(row) & ~either(grows))
            if not self.pair:
                first = either(grows) & (row.workers + row.servers == 0)
                both = can_train(new) & ~can_train(row)
                bonus += summed(jnp.where(both, params.p2, 0.0) - jnp.where(first, params.p2, 0.0))
            after.append(new)
        empty = any_of(missed)
        punished = empty if state.paid is None else empty & ~state.paid
        bonus -= jnp.where(punished, params.p1, 0.0)
        return after, bonus, empty, any_of(blocked)


def is_whole(value: object) -> bool:
    """Whether it is an integer and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_capacity(capacity: Sequence[int]) -> tuple[int, int, int]:
    """The cluster's capacity as a tuple.

    Raises:
      JaxschedError: not three whole numbers, or too large to pack.
    """
    good = isinstance(capacity, Sequence) and len(capacity) == len(RESOURCES)
    if not good or not all(is_whole(amount) for amount in capacity):
        raise JaxschedError(
            f"chic: capacity is {capacity!r}; accepted: three whole numbers "
            f"({', '.join(RESOURCES)})"
        )
    dynamics.cluster_of(tuple(capacity))
    gpus, cpus, memory = capacity
    return gpus, cpus, memory
