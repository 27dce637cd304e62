"""DL2 as an environment: one increment of one job's tasks per step, or none."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax.numpy as jnp

from jaxsched.core.environment import Environment, drawn_episode
from jaxsched.elastic.models import DemandTable
from jaxsched.elastic.speed import Comm
from jaxsched.envs.dl2.jobs import SLOT_S
from jaxsched.envs.dl2.rules import (
    KINDS,
    BundleServers,
    Cluster,
    Misfit,
    Placement,
    Rows,
    Rules,
    cluster_of,
    dynamics,
)
from jaxsched.envs.dl2.rules import observation as obs
from jaxsched.envs.dl2.rules.dynamics import ClusterState, Increment, SlotReport
from jaxsched.envs.dl2.rules.observation import ObservationKind, privileged_state
from jaxsched.envs.dl2.rules.reward import NOTHING, RewardKind, backlog, epochs, presence, progress
from jaxsched.envs.dl2.rules.tables import (
    NEVER,
    Params,
    SpeedMode,
    build_speeds,
    build_tables,
    checked_number,
    resampled,
)
from jaxsched.envs.dl2.rules.turns import first_with_bundles, next_turn, open_with_bundles, rows_of
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.ops.batching import apply_if, materialise_flags
from jaxsched.options import Bounds
from jaxsched.types import Array, ArraySpec, DiscreteSpec, Feature, PRNGKey, PyTree, TimeStep
from jaxsched.units import readable_time


class StepMetrics(NamedTuple):
    """What happened in one step; the evaluator gathers these into per-job records.

    Attributes:
      slot: int32, slot in which the action was taken.
      batch: int32, batch in which it was taken.
      decisions: int32, 1 for a step of this environment, 0 once the episode has ended.
      invalid: bool, the action was neither legal nor void.
      increment: the tasks that it added, if any.
      slot_ended: bool, the step ended the slot.
      report: of the slots that it ended.
      progress: float ``[N]``, epochs that each job has trained, after the step.
      job_reward: float ``[N]``, share of its estimated epochs that each job trained in them.
    """

    slot: Array
    batch: Array
    decisions: Array
    invalid: Array
    increment: Increment
    slot_ended: Array
    report: SlotReport
    progress: Array
    job_reward: Array


@dataclass(frozen=True)
class DL2(Environment):
    """Cluster of identical servers; the agent adds tasks to the jobs of a slot.

    Observation: float32 ``[J * 13]`` or ``[J * 6]`` (``rules.observation``). Actions: ``3 J + 1``,
    a worker, a PS or one of each for a row's job, or void, which ends the batch. Reward: epochs
    trained over epochs expected, summed over the jobs, on the step that ends a slot. Terminates
    when all jobs have finished, truncated at ``max_slots``.

    Attributes:
      num_servers: S.
      gpus_per_server: may be 0.
      cpus_per_server: may be 0.
      mem_per_server: GB; may be 0.
      slot_seconds: length of a slot (s).
      window: J, rows that the agent sees at once.
      max_workers: of one job, at most 255.
      max_ps: of one job, at most 255.
      max_slots: episodes are cut at this slot.
      comm: parameter servers or all-reduce.
      assign_bundle: each slot starts with a bundle for every job (slow).
      bundle_action: one action may place a worker and a PS.
      reward: ``progress`` (the paper's); or ``epochs``, those trained over 60, whatever the job's
        length; or minus the time that jobs spent in a slot, ``backlog``, or ``presence`` in whole
        slots (``rules.reward``; ``backlog`` not with ``assign_bundle`` of bundles on any servers).
      demand_table: needs of the job types: the ``paper`` track's, or the ``artefact``'s, DL2's
        published simulator. All options from here on are its ways; each works alone.
      speed_mode: of ``params``, unless it is told another one.
      bundle_servers: a bundle's tasks go to ``any`` servers, or both to ``one``.
      placement: tasks go to the ``least_loaded`` server that can host them, or to the
        ``least_used`` one of all or nowhere.
      rows: the slot's jobs take turns in ``batches`` of J, or the agent sees a ``window`` of the
        first J that are not at both limits.
      misfit: what does not fit is illegal (``mask``), or ends the slot (``end_slot``).
      observation: the ``paper``'s or the ``artefact``'s (``rules.observation``).
    """

    num_servers: Annotated[int, Bounds(1, 2**15)] = 13
    gpus_per_server: Annotated[int, Bounds(0, 2**20)] = 2
    cpus_per_server: Annotated[int, Bounds(0, 2**20)] = 8
    mem_per_server: Annotated[int, Bounds(0, 2**20)] = 48
    slot_seconds: Annotated[int, Bounds(1, 2**20)] = SLOT_S
    window: Annotated[int, Bounds(1, 2**15)] = 10
    max_workers: Annotated[int, Bounds(1, dynamics.MAX_TASKS)] = 16
    max_ps: Annotated[int, Bounds(1, dynamics.MAX_TASKS)] = 16
    max_slots: Annotated[int, Bounds(1, NEVER - 1)] = 1000
    comm: Comm = "ps"
    assign_bundle: bool = False
    bundle_action: bool = True
    reward: RewardKind = "progress"
    demand_table: DemandTable = "paper"
    speed_mode: SpeedMode = "analytic"
    bundle_servers: BundleServers = "any"
    placement: Placement = "least_loaded"
    rows: Rows = "batches"
    misfit: Misfit = "mask"
    observation: ObservationKind = "paper"

    name = "dl2"
    behaviour_version = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reward == "backlog" and self.assign_bundle and self.bundle_servers == "any":
            raise JaxschedError("dl2: reward is 'backlog'; accepted with assign_bundle: progress")
        _ = self.cluster

    @property
    def cluster(self) -> Cluster:
        """The servers."""
        capacity = (self.gpus_per_server, self.cpus_per_server, self.mem_per_server)
        return cluster_of(
            self.num_servers,
            capacity,
            self.comm,
            self.demand_table,
            self.placement,
            self.bundle_servers,
        )

    @property
    def rules(self) -> Rules:
        """The static rules of the dynamics."""
        return Rules(
            cluster=self.cluster,
            slot_seconds=self.slot_seconds,
            window=self.window,
            max_workers=self.max_workers,
            max_ps=self.max_ps,
            max_slots=self.max_slots,
            bundles=self.bundle_action,
            rows=self.rows,
            misfit=self.misfit,
        )

    def params(
        self,
        tables: list[JobTable],
        *,
        speed_mode: SpeedMode | None = None,
        overlap: float = 1.0,
        contention: float | None = None,
        d_scale: float = obs.D_SCALE,
        e_scale: float = obs.E_SCALE,
        coefficients: PyTree = None,
        resizing: float = 0.0,
    ) -> Params:
        """Parameters for these job tables.

        Args:
          tables: job tables with the columns of ``tables.DL2_JOBS``.
          speed_mode: the formula, the published measurements (core, sections 3 and 5), or the
            ``grid`` of DL2's published simulator; the environment's option by default.
          overlap: share of the hideable communication that is hidden, in [0, 1].
          contention: how much the CPU cores of other jobs slow a job, at least 0; 1 by default,
            0 with the ``grid``.
          d_scale: slots in the cluster that count as 1 in the observation.
          e_scale: remaining epochs that count as 1 in the observation.
          coefficients: ``[8, 5]``, of the formula; the calibrated ones by default.
          resizing: seconds in which a job that has trained does not do so whenever a slot gives it
            other tasks than the slot before: tens of milliseconds by the paper's hot scaling, tens
            of seconds where a job is stopped and started from a checkpoint (Figures 13 and 14).

        Raises:
          JaxschedError: a table breaks a rule, or a value is out of range.
        """
        for name, value in (("d_scale", d_scale), ("e_scale", e_scale)):
            checked_number(name, value, 0 < value < float("inf"), "above 0")
        mode = speed_mode or self.speed_mode
        speed, known = build_speeds(
            self.rules, self.comm, mode, overlap, contention, coefficients, resizing
        )
        draw = jnp.array([0, len(tables)], jnp.int32)
        scales = jnp.asarray(d_scale, float), jnp.asarray(e_scale, float)
        return Params(build_tables(tables, self.rules), draw, speed, known, *scales)

    def num_episodes(self, params: Params) -> int:
        """Number of job tables."""
        return params.jobs.num_jobs.shape[0]

    def max_jobs(self, params: Params) -> int:
        """Jobs of the longest table."""
        return params.jobs.empty_row

    def max_steps(self, params: Params) -> int:
        """In each slot one for each task that fits and one for each batch."""
        jobs = self.max_jobs(params)
        tasks = min(self.cluster.max_tasks, jobs * (self.max_workers + self.max_ps))
        return min(self.max_slots * (tasks + -(-jobs // self.window)), 2**31 - 1)

    def observation_spec(self, params: Params) -> ArraySpec:
        """Flat vector of JAX's default type (float32), named entry by entry."""
        names = obs.observation_names(self.window, self.observation)
        least, most = obs.extremes(self.rules, params, self.observation)
        return ArraySpec((len(names),), params.d_scale.dtype, least, most, names)

    def action_spec(self, params: Params) -> DiscreteSpec:
        """Worker, PS, bundle of row 0, of row 1, ..., then void."""
        del params
        return DiscreteSpec(KINDS * self.window + 1, obs.action_names(self.window))

    def facts(self) -> dict[str, str]:
        """The cluster and the window."""
        batches = self.rows == "batches"
        return {
            "cluster": f"{self.num_servers} servers of {self.gpus_per_server} GPUs, "
            f"{self.cpus_per_server} CPU cores, {self.mem_per_server} GB",
            "length of a slot": readable_time(self.slot_seconds),
            "window": f"batches of {self.window} jobs"
            if batches
            else f"the first {self.window} jobs that can get more",
        }

    def features(self) -> dict[str, Feature]:
        """What the observation's entries mean."""
        return obs.features(self.observation, self.max_workers, self.max_ps)

    def privileged_state(self, state: ClusterState, params: Params) -> Array:
        """For critics in training, float32 ``[7]`` (``rules.observation``)."""
        return privileged_state(state, params)

    def observe(self, state: ClusterState, params: Params) -> tuple[Array, Array]:
        """Observation and mask of a state."""
        return obs.observe(self.rules, state, params, self.observation)

    def reset(
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[ClusterState, TimeStep]:
        """The first slot with jobs; the table is ``episode``, or one drawn with ``key``.

        With ``assign_bundle`` a first slot that the bundles fill has void as its only action.
        """
        state = self.first_state(params, drawn_episode(key, params.draw, episode))
        nothing, rules = jnp.bool_(False), self.rules
        _, report = dynamics.train_slot(rules, state, params.jobs, params.speed, nothing)
        _, increment = dynamics.apply_action(rules, state, params.jobs, params.speed, jnp.int32(-1))
        return state, self._timestep(
            state, state, params, increment, nothing, report, jnp.bool_(False)
        )

    def first_state(self, params: Params, episode: Array) -> ClusterState:
        """The state after a reset."""
        rules = self.rules
        state = dynamics.new_cluster(rules, params.jobs, params.speed, episode)
        if self.assign_bundle:
            state = first_with_bundles(rules, state, params.jobs, params.speed)
        return state

    def step(
        self, key: PRNGKey, state: ClusterState, action: Array, params: Params
    ) -> tuple[ClusterState, TimeStep]:
        """One inference (section 3); ``key`` is not used."""
        del key
        rules, jobs = self.rules, params.jobs
        playing = dynamics.is_open(state)
        after, increment = dynamics.apply_action(rules, state, jobs, params.speed, action)
        after = after._replace(fits=dynamics.refit(rules, after))
        batch, goes_on = next_turn(rules, after, jobs, increment)
        ends = playing & ~goes_on
        after = after._replace(batch=jnp.where(playing, batch, state.batch))
        reward = None
        if self.assign_bundle or not dynamics.is_long(state):
            after, report = dynamics.end_slot(rules, after, jobs, params.speed, ends)
        else:
            after, report, reward = self._end_slot_on_demand(after, params, ends)
        if self.assign_bundle:
            after, passed = open_with_bundles(rules, after, jobs, params.speed, ends)
            report = dynamics.merge(report, passed)
        after = after._replace(rows=rows_of(rules, after, jobs.empty_row))
        refused = ~increment.placed & ~increment.failed
        invalid = playing & refused & (action != KINDS * self.window)
        return after, self._timestep(
            state, after, params, increment, invalid, report, playing, reward
        )

    def _end_slot_on_demand(
        self, state: ClusterState, params: Params, ends: Array
    ) -> tuple[ClusterState, SlotReport, Array]:
        """``dynamics.end_slot`` of a long table, and the reward, for few of whose steps it is due.

        The report comes apart, so that its columns cost nothing if they are not read.
        """

        def end(carry: PyTree, params: Params) -> PyTree:
            before = carry[0]
            after, report = dynamics.end_slot(
                self.rules, before, params.jobs, params.speed, jnp.bool_(True)
            )
            return after, self.reward_of(report, progress(report, params.jobs, before.episode))

        nothing = jnp.asarray(NOTHING[self.reward], state.progress.dtype)
        after, reward = apply_if(ends, end, (state, nothing), params, heavy=True)
        _, report = dynamics.train_slot(self.rules, state, params.jobs, params.speed, ends)
        return after, report, reward

    def resample_future(
        self, key: PRNGKey, state: ClusterState, params: Params
    ) -> tuple[ClusterState, Params]:
        """Later arrivals, errors of the estimated epochs, and speed factors (``rules.tables``)."""
        jobs = resampled(
            key, params.jobs, state.episode, state.slot, state.progress, self.slot_seconds
        )
        alone = params._replace(jobs=jobs, draw=jnp.array([0, 1], jnp.int32))
        return state._replace(episode=jnp.int32(0)), alone

    def reward_of(self, report: SlotReport, job_reward: Array) -> Array:
        """Of a step, of which ``job_reward`` is each job's progress."""
        if self.reward == "backlog":
            return backlog(report)
        if self.reward == "presence":
            return presence(report)
        if self.reward == "epochs":
            return epochs(report)
        return jnp.sum(job_reward)

    def _timestep(
        self,
        before: ClusterState,
        after: ClusterState,
        params: Params,
        increment: Increment,
        invalid: Array,
        report: SlotReport,
        playing: Array,
        reward: Array | None = None,
    ) -> TimeStep:
        observation, mask = self.observe(after, params)
        job_reward = progress(report, params.jobs, before.episode)
        if reward is None:
            reward = self.reward_of(report, job_reward)
        terminated, truncated = materialise_flags(
            dynamics.is_finished(after), dynamics.is_cut(self.rules, after)
        )
        return TimeStep(
            observation=observation,
            action_mask=mask,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            elapsed=dynamics.seconds_passed(self.rules, before, after, report),
            metrics=StepMetrics(
                slot=before.slot,
                batch=before.batch,
                decisions=playing.astype(jnp.int32),
                invalid=invalid,
                increment=increment,
                slot_ended=report.slots > 0,
                report=report,
                progress=after.progress,
                job_reward=job_reward,
            ),
        )
