"""Rigid jobs as an environment: which waiting job starts next, and which are suspended."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.core.recorder import JobEvents
from jaxsched.envs.cluster.rules import dynamics, suspension
from jaxsched.envs.cluster.rules import observation as obs
from jaxsched.envs.cluster.rules.dynamics import Rules, Start, State
from jaxsched.envs.cluster.rules.futures import resampled
from jaxsched.envs.cluster.rules.tables import Jobs, build_jobs
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.jobs.columns import describe_value
from jaxsched.jobs.servers import Kind, Servers
from jaxsched.ops.batching import select
from jaxsched.options import Bounds
from jaxsched.trace_replay import Cluster, Policy
from jaxsched.trace_replay.cluster import MAX_GPUS
from jaxsched.trace_replay.demands import capped
from jaxsched.trace_replay.gpu_types import columns_of
from jaxsched.trace_replay.outages import Outages, outages_told
from jaxsched.trace_replay.policies import (
    DECADES,
    LARGEST_OPTION,
    PLACEMENTS,
    Locality,
    Placing,
    RunTimes,
    TypeChoice,
)
from jaxsched.trace_replay.shares import looks_at_gpus
from jaxsched.trace_replay.speeds import read_speeds
from jaxsched.types import (
    NO_JOB,
    Array,
    ArraySpec,
    DiscreteSpec,
    Feature,
    Knowledge,
    PRNGKey,
    TimeStep,
)

SCALE_S = 3600.0  # seconds of mean completion time that cost 1
MOST_POSITIONS = 2**14


class Params(NamedTuple):
    """Parameters that may change without recompiling.

    Attributes:
      jobs: the job tables; an episode is an index into them.
      scale_s: float32, seconds of mean completion time that cost a reward of 1.
      restart_s: int32, seconds of work that a suspension adds.
    """

    jobs: Jobs
    scale_s: Array
    restart_s: Array


@dataclass(frozen=True)
class ClusterJobs(Environment):
    """Servers and rigid jobs, as ``jaxsched.trace_replay`` replays them.

    A step is a decision: the job at position 0..W-1 of the window starts where placement puts it,
    or (W) no job does until a job ends or is submitted. Steps at which no job could start are
    skipped. The window holds the oldest waiting jobs. An illegal action counts as W or, where W is
    illegal too (no event will come), as the oldest job that fits.

    The reward is minus the job-seconds in the system, divided by the table's jobs and by
    ``scale_s``: an episode's sum is minus the mean job completion time in units of ``scale_s``.
    What passes before the first decision counts in the first step.
    Terminates when the last job has started; the clock then goes on to the last end. Truncates
    where a schedule runs past 2**31 s.

    With ``suspends``, running jobs are in the window as well and an action is a score for each
    position, float32 ``[W + 1]``: one order of waiting and running jobs, highest first. In that
    order the environment picks the jobs to run, as the replay engine does: a step chooses, suspends
    or starts a job, or goes on to the next instant: an end, a submission, or a running job whose
    GPU-seconds reach one of the thresholds. The score at W is that of
    waiting; waiting jobs below it do not start. Scores of empty positions are not read.

    With ``commits``, a step chooses any waiting job, as a scheduler that commits to its choice
    (mode ``commit`` of the replay engine): no job starts until that job fits, and submissions and
    ends happen one by one.

    Attributes:
      num_servers: S.
      gpus_per_server: M.
      servers: in place of both, servers of different sizes as ``16x2,20x8`` (``16x2:4``: for jobs
        of at most 4 GPUs; ``4x8@v100,8x8@k80``: GPUs of different types; ``20x8/96/512``: limits of
        CPUs and memory; ``4x8x7``: 7 slots on each GPU); empty: all are alike.
      window: W, waiting jobs that the policy chooses from (with ``suspends``, and running ones).
      locality: on which free GPUs a job fits.
      placement: which server a job gets; ``fgd``: the one whose fragmentation grows least.
      may_wait: a policy may wait while a job could start.
      suspends: running jobs may be suspended for others.
      restart_s: seconds of work that a suspension adds; the default of ``params``.
      commits: a choice is a commitment; without ``suspends``.
      sees_run_times: observations show run times of waiting jobs, which no real cluster knows;
        for comparisons with clairvoyant rules.
      speeds: where GPUs have types, how fast types of jobs run on each: ``gavel``, or a file
        (``trace_replay.speeds``); empty: job tables have them.
      type_choice: where GPUs have types, the kind of servers that a job takes: the first listed on
        which it fits, or the one on which it runs fastest.
      least_speed_percent: where GPUs have types, a job takes no kind on which it is slower than
        this percentage of its fastest speed.
      quotas: a job starts only if its owner (virtual cluster) then holds at most its quota of GPUs:
        ``equal`` shares of the cluster, or in proportion to the GPU-seconds of the owner's jobs
        (``work``), as in ``isolated`` policies of the replay engine; ``none``: without limits.
      failures: how servers fail: HOURS:HOURS (between failures of a server, until its repair), such
        as 720:4, drawn for each table, or a log of outages (``trace_replay.outages``); empty: they
        never do.
      reservations: a file of when servers are reserved; empty: they never are. A job starts on a
        server only if it ends before the next reservation there.
      checkpoint_s: seconds between checkpoints, from which stopped jobs go on; 0: none.
      run_times: what is known beforehand of how long jobs run, where servers are reserved: the
        ``true`` run times, or the ``estimates`` of the tables.
    """

    num_servers: Annotated[int, Bounds(1, MAX_GPUS)] = 4
    gpus_per_server: Annotated[int, Bounds(1, MAX_GPUS)] = 8
    window: Annotated[int, Bounds(1, MOST_POSITIONS)] = 32
    locality: Locality = "strict"
    placement: Placing = "pack"
    may_wait: bool = True
    suspends: bool = False
    restart_s: Annotated[int, Bounds(0, LARGEST_OPTION)] = 0
    servers: str = ""
    commits: bool = False
    sees_run_times: bool = False
    speeds: str = ""
    type_choice: TypeChoice = "listed"
    least_speed_percent: Annotated[int, Bounds(0, 100)] = 0
    quotas: Literal["none", "equal", "work"] = "none"
    failures: str = ""
    reservations: str = ""
    checkpoint_s: Annotated[int, Bounds(0, LARGEST_OPTION)] = 0
    run_times: RunTimes = "true"

    name = "cluster"
    behaviour_version = 1
    reset_on_demand = True

    def __post_init__(self) -> None:
        """Refuse options that cannot be used."""
        super().__post_init__()
        _ = self.cluster
        self._check_suspension(self.restart_s, ())
        if self.suspends and self.commits:
            raise JaxschedError("cluster: suspends with commits; accepted: one or the other")
        if self.quotas != "none" and (self.suspends or self.commits):
            given = "suspends" if self.suspends else "commits"
            raise JaxschedError(f"cluster: {given} with quotas; accepted: one or the other")
        if self.failures or self.reservations:
            self._check_outages()
        elif self.checkpoint_s:
            raise JaxschedError(
                "cluster: checkpoint_s without failures or reservations; accepted: with one of them"
            )
        self._check_types()

    def _check_outages(self) -> None:
        """Refuse outages where they do not go with the options."""
        if self.suspends or self.commits:
            given = "suspends" if self.suspends else "commits"
            raise JaxschedError(
                f"cluster: {given} with servers that fail or are reserved; accepted: one or the "
                "other"
            )

    def _check_types(self) -> None:
        """Refuse servers and options that do not go together."""
        cluster, goes_by_fragments = self.cluster, self.placement == "fgd"
        if self.speeds and not cluster.gpu_types:
            raise JaxschedError(
                "cluster: speeds with GPUs that have no types; accepted: servers such as "
                "4x8@v100,8x8@k80"
            )
        if goes_by_fragments and cluster.gpu_types:
            raise JaxschedError(
                "cluster: placement fgd with GPUs of different types; accepted: "
                f"{', '.join(PLACEMENTS)}"
            )
        if not self.suspends and self.locality == "strict":
            return
        given = "suspends" if self.suspends else "locality any"
        for present, what in (
            (cluster.demands, "limits of CPUs and memory"),
            (cluster.gpu_types, "GPUs of different types"),
            (cluster.slots > 1, "slots of GPUs"),
            (goes_by_fragments, "placement fgd"),
        ):
            if present:
                raise JaxschedError(
                    f"cluster: {given} with {what}; accepted: jobs that run to their end on "
                    "servers of one kind"
                )

    @property
    def cluster(self) -> Cluster:
        """The cluster in the replay engine's form."""
        if self.servers:
            return Cluster.of(self.servers)
        return Cluster(self.num_servers, self.gpus_per_server)

    def further_columns(self) -> dict[str, int]:
        """What servers have limits of; speeds on types and estimates where tables tell them."""
        needs = dict.fromkeys(self.cluster.demands, 0)
        speeds = {} if self.speeds else {each.name: 1000 for each in columns_of(self.cluster)}
        told = {"estimate": 60} if self.reservations and self.run_times == "estimates" else {}
        return {**needs, **speeds, **told}

    def fitted(self, table: JobTable) -> JobTable:
        """Jobs of a log whose CPUs or memory no server has are cut, which a note says."""
        if not self.cluster.demands:
            return table
        table, count = capped(table, self.cluster)
        note = f"jobs capped at the {' and '.join(self.cluster.demands)} of servers"
        return replace(table, notes=(*table.notes, note)) if count else table

    def largest_job(self) -> int | None:
        """Most GPUs of a job on one kind of servers, where servers differ in size."""
        largest = self.cluster.largest_job(self.locality)
        return largest if largest < self.cluster.num_gpus else None

    def server_gpus(self) -> tuple[int, ...]:
        """GPUs of each server."""
        return self.cluster.server_gpus

    def gpu_slots(self) -> int:
        """Slots of each GPU, which jobs can share; 1: they have whole GPUs."""
        return self.cluster.slots

    @classmethod
    def of_servers(
        cls,
        num_servers: int,
        gpus_per_server: int,
        kinds: tuple[Kind, ...] = (),
        slots: int = 1,
    ) -> dict[str, Any]:
        """The options of a cluster of these servers, which may be of different sizes."""
        if kinds or slots > 1:
            return {"servers": str(Servers(num_servers, gpus_per_server, kinds, slots))}
        return {**super().of_servers(num_servers, gpus_per_server), "servers": ""}

    @property
    def rules(self) -> Rules:
        """The options in the dynamics' form."""
        return Rules(
            self.cluster.in_slots,
            self.window,
            self.locality,
            self.placement,
            self.may_wait,
            self.suspends,
            self.commits,
            self.sees_run_times,
            self.cluster.slots if looks_at_gpus(self.cluster, self.engine_policy) else 0,
        )

    @property
    def engine_policy(self) -> Policy:
        """How the replay engine places jobs as they are placed here."""
        return Policy(
            placement=self.placement,
            locality=self.locality,
            type_choice=self.type_choice,
            least_speed_percent=self.least_speed_percent,
            run_times=self.run_times,
        )

    def params(
        self,
        tables: Sequence[JobTable],
        *,
        scale_s: float = SCALE_S,
        length: int = 0,
        restart_s: int | None = None,
        thresholds: tuple[int, ...] | None = None,
        outages: Sequence[Outages | None] = (),
    ) -> Params:
        """Parameters for these job tables.

        Args:
          tables: job tables as ``trace_replay.replay`` takes them.
          scale_s: seconds of mean completion time that cost a reward of 1.
          length: pad the tables to at least this many jobs.
          restart_s: seconds of work that a suspension adds; with ``suspends`` only. By default
            the option.
          thresholds: GPU-seconds of service at which a decision is due, with ``suspends`` only and
            then ``DECADES`` by default.
          outages: of each table, in place of the options ``failures`` and ``reservations``; none:
            by these.

        Raises:
          JaxschedError: a job that the cluster can never hold, or a value out of range.
        """
        if not 0 < scale_s < float("inf"):
            raise JaxschedError(
                f"cluster: scale_s is {describe_value(scale_s)}; accepted: a positive number"
            )
        restart_s = self.restart_s if restart_s is None else restart_s
        self._check_suspension(restart_s, thresholds)
        if outages:
            self._check_outages()
            if len(outages) != len(tables):
                raise JaxschedError(
                    f"cluster: there are outages of {len(outages)} job tables of {len(tables)}; "
                    "accepted: of each"
                )
        if thresholds is None:
            thresholds = DECADES if self.suspends else ()
        jobs = build_jobs(
            tables,
            self.cluster,
            self.engine_policy,
            length=length,
            thresholds=thresholds,
            ranks_f1=self.commits and self.cluster.slots == 1,
            speeds=read_speeds(self.speeds) if self.speeds else None,
            share=None if self.quotas == "none" else self.quotas,
            outages=list(outages) if outages else self._outages_of,
        )
        return Params(jobs, jnp.float32(scale_s), jnp.int32(restart_s))

    def _outages_of(self, table: JobTable) -> Outages | None:
        """The outages that the options tell of a table's episode."""
        return outages_told(
            self.failures,
            self.reservations,
            table,
            self.cluster,
            checkpoint_s=self.checkpoint_s,
        )

    def _check_suspension(self, restart_s: int, thresholds: tuple[int, ...] | None) -> None:
        """Refuse costs and thresholds that cannot be used."""
        if not self.suspends and (restart_s or thresholds):
            given = "restart_s" if restart_s else "thresholds"
            raise JaxschedError(f"cluster: {given} without suspension; accepted: suspends=True")
        Policy("las", thresholds=thresholds or (), restart_s=restart_s)  # what is out of range

    def knows(self) -> Knowledge:
        """Run times where they are shown, else predictions from jobs of the same owner and size.

        Where servers are reserved, who may start tells what is known beforehand of run times.
        """
        if self.sees_run_times or (self.reservations and self.run_times == "true"):
            return "run times"
        return "estimates" if self.reservations else "prediction"

    def facts(self) -> dict[str, str]:
        """The cluster and its rules, in words."""
        may = ["jobs run to their end"]
        if self.suspends:
            may = [f"running jobs may be suspended, which adds {self.restart_s} s of work"]
        if self.commits:
            may += ["a choice is a commitment"]
        may += [f"{self.locality} locality", f"{self.placement} placement"]
        if self.quotas != "none":
            may += [f"quotas of owners by {self.quotas} shares"]
        if self.failures or self.reservations:
            may += [f"servers fail ({self.failures})"] if self.failures else []
            may += [f"servers are reserved ({self.reservations})"] if self.reservations else []
            saved = f"are saved every {self.checkpoint_s} s" if self.checkpoint_s else "start over"
            may += [f"stopped jobs {saved}"]
        if self.cluster.gpu_types:
            first = {"listed": "first listed", "fastest": "fastest"}[self.type_choice]
            least = self.least_speed_percent
            may += [f"the {first} type of GPU" + (f" of {least} % speed" if least else "")]
        cluster = self.cluster
        alike = f"{cluster.num_servers} servers x {cluster.gpus_per_server} GPUs"
        alike += f" of {cluster.slots} slots" if cluster.slots > 1 else ""
        return {
            "cluster": f"{cluster.servers} GPUs" if cluster.kinds else alike,
            "rules": ", ".join(may),
        }

    def features(self) -> dict[str, Feature]:
        """What the observation's entries mean."""
        return obs.features(self.rules)

    def num_episodes(self, params: Params) -> int:
        """Number of job tables."""
        return params.jobs.num_jobs.shape[0]

    def max_jobs(self, params: Params) -> int:
        """Jobs of the longest table."""
        return params.jobs.empty_row

    def max_steps(self, params: Params) -> int:
        """Three per job: its start, and where allowed, waits for its submission and its end.

        Where servers are away at times, three for every further start, as if each failure stopped
        as many jobs as the server has GPUs, and waits for outages and their ends.

        With suspension, a bound far above any reasonable policy: at every instant every running job
        is suspended, chosen and started again.
        """
        jobs = self.max_jobs(params)
        if self.commits:
            return jobs
        if not self.suspends:
            events, each = params.jobs.events, 3 if self.may_wait else 1
            if events is None:
                return each * jobs
            count = events.begin.shape[-1] - 1
            again = count * min(self.rules.cluster.gpus_per_server, jobs)
            return each * (jobs + again) + 2 * count * self.may_wait
        instants = (2 + params.jobs.crossing.shape[-1]) * jobs
        running = min(jobs, self.window, self.cluster.num_gpus)
        return 2 * jobs + (3 * running + 1) * instants

    def observation_spec(self, params: Params) -> ArraySpec:
        """Flat float32 vector, named entry by entry."""
        del params
        names = obs.names(self.rules)
        return ArraySpec((len(names),), jnp.float32, 0.0, obs.LARGEST, names)

    def action_spec(self, params: Params) -> DiscreteSpec | ArraySpec:
        """Positions 0..W-1, then to wait; with suspension, a score for each of these."""
        del params
        names = (*(f"position{q}" for q in range(self.window)), "wait")
        if self.suspends:
            return ArraySpec((self.window + 1,), names=names)
        return DiscreteSpec(self.window + 1, names)

    def observe(self, state: State, params: Params) -> tuple[Array, Array]:
        """Observation and mask of a state."""
        jobs = params.jobs.of_episode(state.episode)
        legal = suspension.read if self.suspends else dynamics.legal
        seen = obs.observe(self.rules, state, jobs, params.restart_s)
        return seen, legal(self.rules, state, jobs)

    def reset(
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[State, TimeStep]:
        """The idle cluster at the first submission of a table: ``episode``, or one drawn."""
        if episode is None:
            episode = jax.random.randint(key, (), 0, self.num_episodes(params), jnp.int32)
        episode = jnp.asarray(episode, jnp.int32)
        jobs = params.jobs.of_episode(episode)
        empty = dynamics.opened(self.rules, jobs, episode)
        state, spent = dynamics.to_choice(self.rules, empty, jobs, jnp.bool_(False))
        if state.unpaid is not None:  # no server was there for the first jobs
            state = state._replace(unpaid=spent)
        _, nothing = dynamics.start_job(self.rules, state, jobs, jnp.int32(self.window))
        zero = jnp.float32(0)
        return state, self._timestep(state, nothing, zero, zero, params)

    def step(
        self, key: PRNGKey, state: State, action: Array, params: Params
    ) -> tuple[State, TimeStep]:
        """One decision; ``key`` is not used."""
        del key
        jobs = params.jobs.of_episode(state.episode)
        finished = dynamics.all_started(state, jobs)
        decided = self._suspending if self.suspends else self._starting
        if self.commits:
            placed, start, waited = self._committed(state, jobs, action, finished)
            after, spent = dynamics.to_choice(self.rules, placed, jobs, jnp.bool_(False))
            spent += waited
        else:
            placed, start, passes = decided(state, jobs, action, finished, params)
            after, spent = dynamics.to_choice(self.rules, placed, jobs, passes)
        if state.unpaid is not None:
            spent += state.unpaid
            after = after._replace(unpaid=jnp.zeros_like(state.unpaid))
        cost = jnp.where(finished, 0.0, spent) / (params.scale_s * jobs.num_jobs)
        elapsed = (after.time - state.time).astype(jnp.float32)
        return after, self._timestep(after, start, -cost, elapsed, params)

    def resample_future(self, key: PRNGKey, state: State, params: Params) -> tuple[State, Params]:
        """Later arrivals, and the run times of jobs that have not ended; see ``futures``.

        Raises:
          JaxschedError: servers fail or are reserved.
        """
        if params.jobs.events is not None:
            raise JaxschedError(
                "cluster: futures with servers that fail or are reserved cannot be redrawn; "
                "accepted: servers that are always there"
            )
        after, jobs = resampled(key, self.rules.cluster, params.jobs, state, params.restart_s)
        return after, params._replace(jobs=jobs)

    def _starting(
        self, state: State, jobs: Jobs, action: Array, finished: Array, params: Params
    ) -> tuple[State, Start, Array]:
        """The state after the action, the job that started, and whether the clock must go on."""
        del params
        position = self._position(state, jobs, action, finished)
        placed, start = dynamics.start_job(self.rules, state, jobs, position)
        return placed, start, position == self.window

    def _committed(
        self, state: State, jobs: Jobs, action: Array, finished: Array
    ) -> tuple[State, Start, Array]:
        """The state once the chosen job fits and starts, its start, and the job-seconds passed."""
        position = self._position(state, jobs, action, finished)
        fits, spent = dynamics.until_it_fits(self.rules, state, jobs, position)
        placed, start = dynamics.start_job(self.rules, fits, jobs, position)
        return placed, start, spent

    def _position(self, state: State, jobs: Jobs, action: Array, finished: Array) -> Array:
        """The position for an action; an illegal one is replaced."""
        wait = self.window
        may = dynamics.legal(self.rules, state, jobs)
        is_legal = (action >= 0) & (action <= wait) & may[jnp.clip(action, 0, wait)]
        otherwise = jnp.where(may[wait], wait, jnp.argmax(may))
        return jnp.where(finished, wait, jnp.where(is_legal, action, otherwise))

    def _suspending(
        self, state: State, jobs: Jobs, action: Array, finished: Array, params: Params
    ) -> tuple[State, Start, Array]:
        """``_starting`` where the action is a score per position."""
        settled, decision = suspension.decide(self.rules, state, jobs, action)
        settled = settled._replace(plan=select(finished, state.plan, settled.plan))
        starts, stops, chosen = (jnp.where(finished, self.window, each) for each in decision)
        left = suspension.suspend_job(settled, jobs, stops, params.restart_s)
        placed, start = dynamics.start_job(self.rules, left, jobs, starts)
        return placed, start, jnp.minimum(jnp.minimum(starts, stops), chosen) == self.window

    def _timestep(
        self, state: State, start: Start, reward: Array, elapsed: Array, params: Params
    ) -> TimeStep:
        jobs = params.jobs.of_episode(state.episode)
        starts = start.job < jobs.empty_row
        row = jnp.where(starts, start.job, NO_JOB)
        of_started = {
            "submit": jobs.submit[start.job],
            "start": start.start,
            "num_servers": start.num_servers,
            "first_server": start.first_server,
        }
        if state.failing is not None:
            of_started["preemptions"] = state.failing.stops[start.job]
            last_start = state.failing.last_start[start.job]
            of_started["held"] = state.failing.held[start.job] + start.end - last_start
        if self.suspends:
            of_started["preemptions"] = dynamics.account_of(state, start.job).preemptions
        events = JobEvents(
            started=row,
            finished=row,  # its planned end; a later start after a suspension replaces it
            of_started=of_started,
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
