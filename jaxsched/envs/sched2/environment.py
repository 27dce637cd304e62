"""SCHED2 as an environment: which waiting job starts next, or none."""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import jax.numpy as jnp

from jaxsched.core.environment import Environment, drawn_episode
from jaxsched.envs.sched2.rules import (
    NEVER,
    SLOWDOWN_TENTHS,
    JobTables,
    build_tables,
    dynamics,
    resampled,
    reward,
)
from jaxsched.envs.sched2.rules import observation as obs
from jaxsched.envs.sched2.rules.dynamics import ClusterState, Start
from jaxsched.envs.sched2.rules.observation import outlook, outlook_names, privileged_state
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.ops.batching import materialise_flags
from jaxsched.ops.bounds import known_largest
from jaxsched.options import Bounds
from jaxsched.types import Array, ArraySpec, DiscreteSpec, Feature, PRNGKey, TimeStep

RewardKind = Literal["literal", "dense", "lost"]
MAX_GPUS_PER_SERVER = 32
NO_BACKLOG_LIMIT = 2**30


class Params(NamedTuple):
    """What may change without recompiling.

    Attributes:
      jobs: the stack of job tables; an episode is an index into it.
      draw: int32 ``[2]``, resets draw among ``draw[1]`` episodes from ``draw[0]`` on.
      time_scale: float32, seconds that count as 1 in the observation.
      invalid_penalty: float32, subtracted from the reward of an invalid action.
      delay_weight: float32, subtracted from the reward ``lost`` for each hour by which a started
        job's wait and run time exceed its ideal run time (a training option, 0 by default).
      max_backlog: int32, truncate an episode once more jobs than this wait beyond the window
        ("restart episodes early"; a training option, no bound by default).
    """

    jobs: JobTables
    draw: Array
    time_scale: Array
    invalid_penalty: Array
    delay_weight: Array
    max_backlog: Array


class StepMetrics(NamedTuple):
    """What happened in one step; the evaluator gathers these into per-job records.

    Attributes:
      start: the job that was started, if any.
      time: int32, clock when the action was taken.
      invalid: bool, the action was not legal.
      fragmentation: float32, mean server fragmentation right after the start.
      queue_gpus: int32, GPUs demanded by all waiting jobs right after the start.
    """

    start: Start
    time: Array
    invalid: Array
    fragmentation: Array
    queue_gpus: Array


@dataclass(frozen=True)
class Sched2(Environment):
    """Cluster of identical servers; the agent picks jobs, packing picks GPUs.

    Observation: float32 ``[S*G + (k+2)*J + 4]`` (``rules.observation``). Actions: J + 1, position
    0..J-1 or void (J). Reward: ``literal`` (effectiveness of the started job), ``lost`` (that less
    1) or ``dense`` (minus the effectiveness lost, when it is lost). Terminates when the last job
    starts.

    Attributes:
      num_servers: S.
      gpus_per_server: G, at most 32.
      window: J, waiting jobs the agent can choose from.
      profile: run times or slowdowns in the observation.
      auto_advance: skip the steps at which void is the only legal action.
      free_choice: report every action as legal; one that cannot be carried out is void, as in
        DeepRM (section 3: the oldest job starts where void cannot be carried out either).
      saturating: slowdowns grow no further beyond level 1, the last that Fig. 1 measures.
      reward: which reward.
      extras: append "start now" features to the observation (a variant of the paper).
      outlook: append what a planner would ask of each position (``OUTLOOK``; a variant).
    """

    num_servers: Annotated[int, Bounds(1, 2**15)] = 15
    gpus_per_server: Annotated[int, Bounds(1, MAX_GPUS_PER_SERVER)] = 8
    window: Annotated[int, Bounds(1, 2**20)] = 10
    profile: obs.Profile = "time"
    auto_advance: bool = False
    free_choice: bool = False
    saturating: bool = False
    reward: RewardKind = "literal"
    extras: bool = False
    outlook: bool = False

    name = "sched2"
    behaviour_version = 1

    def params(
        self,
        tables: list[JobTable],
        *,
        time_scale: float = obs.TIME_SCALE_S,
        invalid_penalty: float = 0.0,
        delay_weight: float = 0.0,
        max_backlog: float = 0,
        length: int = 0,
    ) -> Params:
        """Parameters for these job tables.

        Args:
          tables: job tables, validated for this cluster.
          time_scale: seconds that count as 1 in the observation.
          invalid_penalty: subtracted from the reward of an invalid action.
          delay_weight: subtracted from the reward ``lost`` for each hour that a job's completion
            takes longer than its ideal run time.
          max_backlog: cut an episode once more jobs than this wait beyond the window; 0: never.
          length: pad the tables to at least this many jobs, so that other tables share what is
            compiled for these.

        Raises:
          JaxschedError: a table breaks a rule (section 2), or a value is out of range.
        """
        if not 0 < time_scale < float("inf"):
            raise JaxschedError(f"sched2: time_scale must be a positive number, not {time_scale!r}")
        for name, value in (("invalid_penalty", invalid_penalty), ("delay_weight", delay_weight)):
            if not abs(value) < float("inf"):
                raise JaxschedError(f"sched2: {name} must be finite, not {value!r}")
        jobs = build_tables(
            tables,
            self.num_servers,
            self.gpus_per_server,
            saturating=self.saturating,
            length=length,
        )
        return Params(
            jobs=jobs,
            draw=jnp.array([0, len(tables)], jnp.int32),
            time_scale=jnp.float32(time_scale),
            invalid_penalty=jnp.float32(invalid_penalty),
            delay_weight=jnp.float32(delay_weight),
            max_backlog=jnp.int32(int(max_backlog) or NO_BACKLOG_LIMIT),
        )

    def num_episodes(self, params: Params) -> int:
        """Number of job tables."""
        return params.jobs.num_jobs.shape[0]

    def max_jobs(self, params: Params) -> int:
        """Jobs of the longest table."""
        return params.jobs.empty_row

    def max_steps(self, params: Params) -> int:
        """Three per job: n starts and at most 2n instants (section 7)."""
        return 3 * self.max_jobs(params)

    def observation_spec(self, params: Params) -> ArraySpec:
        """Flat float32 vector, named entry by entry."""
        names = obs.observation_names(
            self.num_servers, self.gpus_per_server, self.window, self.extras
        )
        if self.outlook:
            names += tuple(outlook_names(self.window))
        most = known_largest(
            NEVER / params.time_scale,  # times
            params.jobs.empty_row / self.window,  # jobs beyond the window
            float(self.num_servers),  # demand
            SLOWDOWN_TENTHS.max() / 10.0,
        )
        return ArraySpec((len(names),), jnp.float32, 0.0, most, names)

    def action_spec(self, params: Params) -> DiscreteSpec:
        """Positions 0..J-1, then void."""
        del params
        positions = (f"position{position}" for position in range(self.window))
        return DiscreteSpec(self.window + 1, (*positions, "void"))

    def facts(self) -> dict[str, str]:
        """The cluster."""
        return {"cluster": f"{self.num_servers} servers x {self.gpus_per_server} GPUs"}

    def features(self) -> dict[str, Feature]:
        """What the observation's entries mean."""
        return obs.features(self.profile, self.gpus_per_server, self.window)

    def observe(self, state: ClusterState, params: Params) -> tuple[Array, Array]:
        """Observation and mask of a state."""
        entries = self.entries(state, params.jobs, params.time_scale)
        legal = dynamics.legal_actions(state, params.jobs)
        return entries, jnp.ones_like(legal) if self.free_choice else legal

    def entries(self, state: ClusterState, jobs: JobTables, time_scale: Array) -> Array:
        """The observation; ``time_scale``: seconds that count as 1."""
        observation = obs.observe(
            state,
            jobs,
            time_scale=time_scale,
            profile=self.profile,
            extras=self.extras,
            saturating=self.saturating,
        )
        if self.outlook:
            observation = jnp.concatenate([observation, outlook(state, jobs, time_scale)])
        return observation

    def reset(
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[ClusterState, TimeStep]:
        """An idle cluster at time 0; the table is ``episode``, or one drawn with ``key``."""
        episode = drawn_episode(key, params.draw, episode)
        state = dynamics.new_cluster(
            params.jobs, episode, self.num_servers, self.gpus_per_server, self.window
        )
        nothing, start = dynamics.place(state, params.jobs, jnp.int32(params.jobs.empty_row))
        metrics = self._metrics(state, start, nothing, jnp.bool_(False), params)
        observation, mask = self.observe(state, params)
        zero, false = jnp.float32(0), jnp.bool_(False)
        return state, TimeStep(observation, mask, zero, false, false, zero, metrics)

    def step(
        self, key: PRNGKey, state: ClusterState, action: Array, params: Params
    ) -> tuple[ClusterState, TimeStep]:
        """One decision (section 3); ``key`` is not used."""
        del key
        jobs = params.jobs
        placed, start, invalid = dynamics.apply_action(state, action, jobs)
        after = dynamics.advance_to_choice(placed, jobs) if self.auto_advance else placed
        if self.reward == "dense":
            value = reward.dense(state, start, after, jobs)
        elif self.reward == "lost":
            value = reward.lost(start, params.delay_weight)
        else:
            value = reward.effectiveness(start)
        value = value - jnp.where(invalid, params.invalid_penalty, 0.0)
        observation, mask = self.observe(after, params)
        terminated, truncated = materialise_flags(
            dynamics.all_started(after, jobs), after.arrived - after.head > params.max_backlog
        )
        timestep = TimeStep(
            observation=observation,
            action_mask=mask,
            reward=value.astype(jnp.float32),
            terminated=terminated,
            truncated=truncated,
            elapsed=(after.time - state.time).astype(jnp.float32),
            metrics=self._metrics(state, start, placed, invalid, params),
        )
        return after, timestep

    def resample_future(
        self, key: PRNGKey, state: ClusterState, params: Params
    ) -> tuple[ClusterState, Params]:
        """The jobs still to be submitted as a bootstrap of the table's jobs and gaps."""
        jobs = resampled(key, params.jobs, state.episode, state.arrived, state.time)
        alone = params._replace(jobs=jobs, draw=jnp.array([0, 1], jnp.int32))
        return state._replace(episode=jnp.int32(0)), alone

    def privileged_state(self, state: ClusterState, params: Params) -> Array:
        """For critics in training, float32 ``[28]`` (``rules.observation``)."""
        return privileged_state(state, params.jobs, params.time_scale)

    def _metrics(
        self,
        before: ClusterState,
        start: Start,
        placed: ClusterState,
        invalid: Array,
        params: Params,
    ) -> StepMetrics:
        return StepMetrics(
            start=start,
            time=before.time,
            invalid=invalid,
            fragmentation=dynamics.fragmentation(placed),
            queue_gpus=obs.queue_gpus(placed, params.jobs),
        )
