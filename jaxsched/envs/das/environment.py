"""DAS as an environment: priorities of the window's jobs and affinities to machines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.envs.das.rules import (
    NEVER,
    Params,
    build_params,
    dynamics,
    machines,
    pick,
    placement,
    submitted_by,
)
from jaxsched.envs.das.rules import observation as obs
from jaxsched.envs.das.rules.dynamics import (
    Decision,
    Draws,
    Rules,
    State,
    StepAccumulator,
    as_set,
    draw_window,
    resampled,
    window_of,
)
from jaxsched.envs.das.rules.observation import Observation, privileged_state
from jaxsched.envs.das.rules.reward import dense_reward, paper_reward
from jaxsched.jobs import JobTable
from jaxsched.options import Bounds
from jaxsched.types import NO_JOB, Array, ArraySpec, Feature, PRNGKey, TimeStep

Action = dict[str, Array]
"""``priority`` float32 ``[N]`` and ``affinity`` float32 ``[N, M]``."""


class StepMetrics(NamedTuple):
    """What happened in one step; recorders gather it into records per job.

    Attributes:
      time: int32, s, before the step: that of the decision if there was one.
      decides: bool, a decision was due.
      window: int32 ``[N]``, jobs (places in the episode) of the real positions, -1 in others.
      order: int32 ``[N]``, positions in the order in which they were tried, real ones first.
      placed: bool ``[N]``, by position.
      failed: bool ``[N]``, by position.
      counts: int8 ``[N, M]``, instances placed on each machine, by position.
      running: int32 ``[R]``, jobs that ran after the decision, -1 in empty rows.
      finish: int32 ``[R]``, when these finished in this step, -1 where they did not.
    """

    time: Array
    decides: Array
    window: Array
    order: Array
    placed: Array
    failed: Array
    counts: Array
    running: Array
    finish: Array


@dataclass(frozen=True)
class DAS(Rules, Environment):
    """A cluster that runs gang jobs to completion, slowed down by spread and by neighbours.

    Observation: ``observation.Observation``; its ``real`` positions are the mask (position 0 is
    true where there is none). Action: ``{"priority": [N], "affinity": [N, M]}``; positions that are
    not real may hold anything, NaN counts as minus infinity. Terminates when every job has
    finished.

    Attributes:
      reward: "paper" or "dense" (``rules/reward.py``).
      events_per_step: K; 0: a step goes from one decision to the next. Otherwise a step takes a
        decision if one is due, and then processes at most K events; where none is due the action
        does not matter. Schedules and total rewards are the same ("paper" rewards come with the
        last step before the next decision).
      estimates: jobs are shown with what finished jobs of the same group and user took
        (``rules/observation.py``); tables say who these are in the columns ``group`` and
        ``user``. A variant.
      numbers: jobs are shown with their place in the episode.
    """

    reward: Literal["paper", "dense"] = "paper"
    events_per_step: Annotated[int, Bounds(0, 64)] = 0
    estimates: bool = False
    numbers: bool = False

    name = "das"
    behaviour_version = 1
    former_options = {"reward_mode": "reward"}
    cuts_tables = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check()

    @property
    def job_names(self) -> tuple[str, ...]:
        """Entries of a position in the observation."""
        return obs.JOB_NAMES + (obs.ESTIMATE_NAMES if self.estimates else ())

    def params(
        self,
        job_tables: Sequence[JobTable],
        *,
        starts: Sequence[int] | None = None,
        episode_jobs: int | None = None,
        **scalars: float,
    ) -> Params:
        """Parameters for these job tables.

        Args:
          job_tables: of the schema ``GANG_JOBS``, in order of submission; each is an episode
            unless ``starts`` is given.
          starts: rows of the one table at which episodes start; times are shifted to 0.
          episode_jobs: jobs of each such episode.
          **scalars: values for some of ``rules.SCALARS``.

        Raises:
          JaxschedError: a table or a value is refused.
        """
        return build_params(
            job_tables,
            self.capacity,
            self.num_servers,
            slowest=self.slowest,
            starts=starts,
            episode_jobs=episode_jobs,
            scalars=scalars,
            owned=self.estimates,
        )

    def num_episodes(self, params: Params) -> int:
        """Number of episodes."""
        return params.offset.shape[0]

    def max_jobs(self, params: Params) -> int:
        """Jobs of the longest episode."""
        return params.max_jobs

    def max_steps(self, params: Params) -> int:
        """Decisions (section 3.4), and steps in which events only pass."""
        jobs = params.max_jobs
        decisions = jobs if self.on_no_fit == "skip" else 3 * jobs
        if self.events_per_step == 0:
            return decisions
        events = 2 * jobs if self.sampling == "random" else jobs
        return decisions + events

    def observation_spec(self, params: Params | None = None) -> Any:
        """Specs of the parts of an observation; of a job's entries its age can be the largest."""
        del params
        positions, machines = range(self.window), range(self.num_servers)
        largest_age = (NEVER + 1) / obs.DAY_S  # in float32 NEVER rounds up
        jobs = tuple(f"position{q}.{name}" for q in positions for name in self.job_names)
        free = tuple(f"machine{m}.{name}" for m in machines for name in obs.MACHINE_NAMES)
        waiting, number = (
            tuple(f"position{q}.{name}" for q in positions) for name in ("waiting", "number")
        )
        shape = (self.window, len(self.job_names))
        of_machines = (self.num_servers, len(obs.MACHINE_NAMES))
        parts: dict[str, Any] = dict(
            jobs=ArraySpec(shape, jnp.float32, 0.0, largest_age, jobs),
            machines=ArraySpec(of_machines, jnp.float32, 0.0, 1.0, free),
            real=ArraySpec(shape[:1], jnp.bool_, 0.0, 1.0, waiting),
            number=ArraySpec(shape[:1], jnp.int32, 0.0, names=number) if self.numbers else None,
        )
        return Observation(**parts)

    def action_spec(self, params: Params | None = None) -> dict[str, ArraySpec]:
        """Specs of the two agents' parts of an action.

        Only the order of the numbers counts, so that nothing is lost within the bounds; numbers
        outside mean what they say.
        """
        del params
        positions, machines = range(self.window), range(self.num_servers)
        orders = tuple(f"position{q}.priority" for q in positions)
        places = tuple(f"position{q}.machine{m}.affinity" for q in positions for m in machines)
        return {
            "priority": ArraySpec((self.window,), jnp.float32, -1.0, 1.0, orders),
            "affinity": ArraySpec((self.window, self.num_servers), jnp.float32, -1.0, 1.0, places),
        }

    def facts(self) -> dict[str, str]:
        """The cluster, the window and what happens to jobs that do not fit."""
        each = f"{self.gpus_per_server} GPUs, {self.cpus_per_server} CPUs, {self.mem_per_server} GB"
        chosen = "the first" if self.sampling == "first" else "a random choice of"
        misfit = "is skipped" if self.on_no_fit == "skip" else "ends the decision"
        return {
            "cluster": f"{self.num_servers} machines of {each}",
            "window": f"{chosen} {self.window} waiting jobs",
            "decisions": f"a job that does not fit {misfit}",
        }

    def features(self) -> dict[str, Feature]:
        """What the observation's entries mean."""
        return obs.features(self, self.estimates)

    def decides(self, state: State) -> Array:
        """Whether a decision is due; always, up to the end, with ``events_per_step`` 0."""
        return state.due

    def observe(self, state: State, params: Params) -> tuple[Observation, Array]:
        """Observation and mask of a state."""
        observation = obs.observe(self, state)
        if state.seen is not None:
            shown = obs.estimates(params, state.episode, state.window.job, state.seen)
            jobs = jnp.where(observation.real[:, None], shown, 0.0)
            observation = observation._replace(
                jobs=jnp.concatenate([observation.jobs, jobs], axis=-1)
            )
        if self.numbers:
            observation = observation._replace(number=state.window.job)
        none = ~jnp.any(observation.real)
        return observation, observation.real.at[0].set(observation.real[0] | none)

    def reset(
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[State, TimeStep]:
        """The idle cluster at the first submission of an episode, given or drawn."""
        if episode is None:
            draw_key, key = jax.random.split(key)
            episode = jax.random.randint(draw_key, (), 0, self.num_episodes(params), jnp.int32)
        episode = jnp.asarray(episode, jnp.int32)
        zero, true = jnp.int32(0), jnp.bool_(True)
        submitted = submitted_by(params, episode, zero, zero)
        draws = None
        window = window_of(params, episode, jnp.arange(self.window, dtype=jnp.int32))
        if self.sampling == "random":
            draws = Draws(key, zero, submitted, as_set(params, zero, submitted))
            window = draw_window(params, episode, draws, self.window)
        state = State(
            running=machines.nobody_runs(self),
            used=jnp.zeros(self.num_servers, jnp.uint32),
            window=window,
            time=zero,
            since=zero,
            due=true,
            held=~true,
            entered=jnp.int32(self.window),
            submitted=submitted,
            finished=zero,
            gain=jnp.float32(0),
            concerned=zero,
            episode=episode,
            draws=draws,
            seen=obs.nothing_seen(params) if self.estimates else None,
        )
        observation, mask = self.observe(state, params)
        nothing = jnp.zeros(self.window, bool)
        rows = jnp.full(machines.num_rows(self), NO_JOB, jnp.int32)
        metrics = StepMetrics(
            time=zero,
            decides=~true,
            window=jnp.full(self.window, NO_JOB, jnp.int32),
            order=jnp.arange(self.window, dtype=jnp.int32),
            placed=nothing,
            failed=nothing,
            counts=jnp.zeros((self.window, self.num_servers), jnp.int8),
            running=rows,
            finish=rows,
        )
        none = jnp.float32(0)
        return state, TimeStep(observation, mask, none, ~true, ~true, none, metrics)

    def step(
        self, key: PRNGKey, state: State, action: Action, params: Params
    ) -> tuple[State, TimeStep]:
        """The decision, if one is due, and what follows it; ``key`` is not used."""
        del key
        decision = dynamics.decide(self, state, action["priority"], action["affinity"])
        started = dynamics.apply(self, state, params, decision)
        after, since = self._advance(started, params)
        num_jobs = pick(params.num_jobs, state.episode)
        if self.reward == "dense":
            reward, submitted = dense_reward(params, state, after, since, num_jobs)
            after = after._replace(submitted=submitted)
        else:
            reward, after = paper_reward(params, started, decision, after, since)
        if state.seen is not None:
            running = started.running
            seen = obs.learnt(params, state.episode, running, since.finish, state.seen)
            after = after._replace(seen=seen)
        observation, mask = self.observe(after, params)
        timestep = TimeStep(
            observation=observation,
            action_mask=mask,
            reward=reward,
            terminated=dynamics.over(after, params),
            truncated=jnp.bool_(False),
            elapsed=(after.time - state.time).astype(jnp.float32),
            metrics=self._metrics(state, action, started, decision, since),
        )
        return after, timestep

    def resample_future(self, key: PRNGKey, state: State, params: Params) -> tuple[State, Params]:
        """Later arrivals and the durations of all jobs that have not finished."""
        return resampled(key, params, state)

    def privileged_state(self, state: State, params: Params) -> Array:
        """For critics in training, float32 ``[38]`` (``rules/observation.py``)."""
        return privileged_state(self, state, params)

    def _advance(self, state: State, params: Params) -> tuple[State, StepAccumulator]:
        """Events up to the next decision or the end, or as many as a step takes."""
        never = jnp.full(machines.num_rows(self), -1, jnp.int32)
        since = StepAccumulator(never, jnp.float32(0), jnp.float32(0))

        def advance(carry: tuple[State, StepAccumulator]) -> tuple[State, StepAccumulator]:
            state, since = dynamics.next_event(self, carry[0], params, carry[1])
            return dynamics.look_ahead(self, state, params, since)

        def waits(carry: tuple[State, StepAccumulator]) -> Array:
            return ~carry[0].due & ~dynamics.over(carry[0], params)

        carry = dynamics.look_ahead(self, state, params, since)
        if self.events_per_step == 0:
            return jax.lax.while_loop(waits, advance, carry)
        for _ in range(self.events_per_step):
            carry = advance(carry)
        return carry

    def _metrics(
        self,
        state: State,
        action: Action,
        started: State,
        decision: Decision,
        since: StepAccumulator,
    ) -> StepMetrics:
        real = dynamics.real_positions(state)
        rank = placement.rank_of(action["priority"], real)
        return StepMetrics(
            time=state.time,
            decides=state.due,
            window=jnp.where(real, state.window.job, NO_JOB),
            order=placement.inverse_of(rank),
            placed=decision.placed,
            failed=decision.failed,
            counts=decision.counts[decision.rank],
            running=started.running.job,
            finish=since.finish,
        )
