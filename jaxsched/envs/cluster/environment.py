"""Rigid jobs as an environment: which waiting job starts next, or none until something happens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

import jax
import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.core.recorder import NOBODY, JobEvents
from jaxsched.envs.cluster import dynamics
from jaxsched.envs.cluster import observation as obs
from jaxsched.envs.cluster.dynamics import Rules, Start, State
from jaxsched.envs.cluster.tables import Jobs, build_jobs
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.jobs.columns import describe_value
from jaxsched.trace_replay import Cluster
from jaxsched.trace_replay.policies import Locality, Placement
from jaxsched.types import Array, ArraySpec, DiscreteSpec, PRNGKey, TimeStep

SCALE_S = 3600.0  # seconds of mean completion time that cost 1
MOST_POSITIONS = 2**14


class Params(NamedTuple):
    """What may change without recompiling.

    Attributes:
      jobs: the job tables; an episode is an index into them.
      scale_s: float32, seconds of mean completion time that cost a reward of 1.
    """

    jobs: Jobs
    scale_s: Array


@dataclass(frozen=True)
class ClusterJobs(Environment):
    """Identical servers and rigid jobs, as ``jaxsched.trace_replay`` replays them.

    A step is a decision: the job at position 0..W-1 of the window starts where placement puts it,
    or (W) nobody does until a job ends or is submitted. Steps at which no job could start are left
    out. The window holds the oldest waiting jobs. An illegal action counts as W or, where that is
    illegal too (nothing else will happen), as the oldest job that fits.

    The reward is minus the seconds that passed times the jobs in the system, over the table's jobs
    and ``scale_s``: an episode's sum is minus the mean job completion time in units of ``scale_s``.
    Terminates when the last job has started; the clock then goes on to the last end. Truncates
    where a schedule runs past 2**31 s.

    Attributes:
      num_servers: S.
      gpus_per_server: M.
      window: W, waiting jobs that the policy chooses from.
      locality: what fits.
      placement: which server.
      may_wait: a policy may wait while a job could start.
    """

    num_servers: int = 16
    gpus_per_server: int = 8
    window: int = 128
    locality: Locality = "strict"
    placement: Placement = "pack"
    may_wait: bool = True

    name = "cluster"
    behaviour_version = 1
    reset_on_demand = True

    def __post_init__(self) -> None:
        """Refuse options that cannot be used."""
        _ = self.cluster
        window = self.window
        if isinstance(window, bool) or not isinstance(window, int):
            window = 0
        if not 1 <= window <= MOST_POSITIONS:
            raise JaxschedError(
                f"cluster: window is {describe_value(self.window)}; accepted: a whole number "
                f"from 1 to {MOST_POSITIONS}"
            )
        for field, kinds in {
            "locality": get_args(Locality),
            "placement": get_args(Placement),
        }.items():
            if getattr(self, field) not in kinds:
                raise JaxschedError(
                    f"cluster: {field} is {describe_value(getattr(self, field))}; accepted: "
                    f"{', '.join(kinds)}"
                )

    @property
    def cluster(self) -> Cluster:
        """The cluster that a replay would take."""
        return Cluster(self.num_servers, self.gpus_per_server)

    @property
    def rules(self) -> Rules:
        """The options as the dynamics take them."""
        return Rules(self.cluster, self.window, self.locality, self.placement, self.may_wait)

    def params(
        self, tables: Sequence[JobTable], *, scale_s: float = SCALE_S, length: int = 0
    ) -> Params:
        """Parameters for these job tables.

        Args:
          tables: job tables as ``trace_replay.replay`` takes them.
          scale_s: seconds of mean completion time that cost a reward of 1.
          length: pad the tables to at least this many jobs.

        Raises:
          JaxschedError: a job that the cluster can never hold, or a value out of range.
        """
        if not 0 < scale_s < float("inf"):
            raise JaxschedError(
                f"cluster: scale_s is {describe_value(scale_s)}; accepted: a positive number"
            )
        return Params(build_jobs(tables, self.cluster, length=length), jnp.float32(scale_s))

    def num_episodes(self, params: Params) -> int:
        """Number of job tables."""
        return params.jobs.num_jobs.shape[0]

    def max_jobs(self, params: Params) -> int:
        """Jobs of the longest table."""
        return params.jobs.nobody

    def max_steps(self, params: Params) -> int:
        """Three per job: its start, and where allowed, waiting for its submission and its end."""
        return (3 if self.may_wait else 1) * self.max_jobs(params)

    def observation_spec(self, params: Params) -> ArraySpec:
        """Flat float32 vector, named entry by entry."""
        del params
        names = obs.names(self.window)
        return ArraySpec((len(names),), jnp.float32, names=names)

    def action_spec(self, params: Params) -> DiscreteSpec:
        """Positions 0..W-1, then to wait."""
        del params
        return DiscreteSpec(self.window + 1)

    def observe(self, state: State, params: Params) -> tuple[Array, Array]:
        """Observation and mask of a state."""
        jobs = params.jobs.of_episode(state.episode)
        return obs.observe(self.rules, state, jobs), dynamics.legal(self.rules, state, jobs)

    def reset(
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[State, TimeStep]:
        """The idle cluster at the first submission of a table: ``episode``, or one drawn."""
        if episode is None:
            episode = jax.random.randint(key, (), 0, self.num_episodes(params))
        episode = jnp.asarray(episode, jnp.int32)
        jobs = params.jobs.of_episode(episode)
        empty = dynamics.opened(self.rules, jobs, episode)
        state, _ = dynamics.to_choice(self.rules, empty, jobs, jnp.bool_(False))
        _, nothing = dynamics.start_job(self.rules, state, jobs, jnp.int32(self.window))
        zero = jnp.float32(0)
        return state, self._timestep(state, nothing, zero, zero, params)

    def step(
        self, key: PRNGKey, state: State, action: Array, params: Params
    ) -> tuple[State, TimeStep]:
        """One decision; ``key`` is not used."""
        del key
        jobs, wait = params.jobs.of_episode(state.episode), self.window
        finished = dynamics.all_started(state, jobs)
        may = dynamics.legal(self.rules, state, jobs)
        is_legal = (action >= 0) & (action <= wait) & may[jnp.clip(action, 0, wait)]
        otherwise = jnp.where(may[wait], wait, jnp.argmax(may))
        position = jnp.where(finished, wait, jnp.where(is_legal, action, otherwise))
        placed, start = dynamics.start_job(self.rules, state, jobs, position)
        after, spent = dynamics.to_choice(self.rules, placed, jobs, position == wait)
        cost = jnp.where(finished, 0.0, spent) / (params.scale_s * jobs.num_jobs)
        elapsed = (after.time - state.time).astype(jnp.float32)
        return after, self._timestep(after, start, -cost, elapsed, params)

    def _timestep(
        self, state: State, start: Start, reward: Array, elapsed: Array, params: Params
    ) -> TimeStep:
        jobs = params.jobs.of_episode(state.episode)
        starts = start.job < jobs.nobody
        row = jnp.where(starts, start.job, NOBODY)
        events = JobEvents(
            started=row,
            finished=row,  # its end is known
            of_started={
                "submit": jobs.submit[start.job],
                "start": start.start,
                "num_servers": start.num_servers,
                "first_server": start.first_server,
            },
            of_finished={"finish": start.end},
        )
        observation, mask = self.observe(state, params)
        return TimeStep(
            observation=observation,
            action_mask=mask,
            reward=reward,
            terminated=dynamics.all_started(state, jobs) & ~state.overflow,
            truncated=state.overflow,
            elapsed=elapsed,
            metrics=events,
        )
