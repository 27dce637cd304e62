"""MLFS as an environment: a server for the task on offer, or the queue."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.envs.mlfs import observation as obs
from jaxsched.envs.mlfs import reward
from jaxsched.envs.mlfs.reward import RewardMode
from jaxsched.envs.mlfs.simulator import dynamics, pairs, placing, tables
from jaxsched.envs.mlfs.simulator.cluster import Cluster
from jaxsched.envs.mlfs.simulator.execution import Ended
from jaxsched.envs.mlfs.simulator.rules import MLF, ORDERS, Order, Rules
from jaxsched.envs.mlfs.simulator.state import NOBODY, Active, State
from jaxsched.envs.mlfs.simulator.tables import SLOT_S, Params
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.ops.batching import apply_if, select
from jaxsched.types import Array, ArraySpec, DiscreteSpec, PRNGKey, TimeStep

Decide = Literal["offer", "slot"]
LIMITS = {
    "cpus_per_server": (1, 2**12),
    "mem_per_server": (1, 2**14),
    "bandwidth_per_server": (1, 2**20),
    "flow_rate": (1, 2**20),
    "comm_rounds": (0, 2**12),
    "move_work": (0, 2**20),
    "move_mb": (0, 2**20),
    "max_active": (1, 2**14),
    "max_offers": (1, 2**14),
    "max_slots": (1, 2**20),
    "overload_threshold": (1, 1000),
    "busy_threshold": (0, 4000),
    "migrant_share": (0, 100),
    "tiresias_threshold": (0, 2**30),
    "prediction_error": (0, 100),
    **{name: (0, most) for name, most in tables.MOST_WEIGHT.items()},
    "slot_every": (0, 2**14),
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "order": ORDERS,
    "decide": get_args(Decide),
    "reward": get_args(RewardMode),
    **dict.fromkeys(
        ("use_urgency", "use_deadline", "use_bandwidth", "use_migration", "use_mlfc"), (False, True)
    ),
}
MOST_SERVERS, MOST_GPUS = 2**12, 64


class StepMetrics(NamedTuple):
    """What happened in one step; recorders gather it into records per job.

    Attributes:
      decides: bool, an offer was answered; of a whole slot int32, how many.
      slot: int32, before the step.
      after: int32, slot after it.
      job: int32 ``[A]``, jobs (places in the episode) that finished, and those that were in the
        window when the episode was cut; -1 elsewhere.
      finish: int32 ``[A]``, slot in which these were finished; -1 if they were not.
      start: int32 ``[A]``, first slot with a running task; -1 if there was none.
      home: int32 ``[A]``.
      iterations: int32 ``[A]``.
      by_deadline: int32 ``[A]``, iterations.
      run_slots: int32 ``[A]``.
      completed: int32, iterations of all jobs completed in this step.
      overloads: int32, server-slots.
      evictions: int32.
      migrations: int32.
      sent_mb: int32.
    """

    decides: Array
    slot: Array
    after: Array
    job: Array
    finish: Array
    start: Array
    home: Array
    iterations: Array
    by_deadline: Array
    run_slots: Array
    completed: Array
    overloads: Array
    evictions: Array
    migrations: Array
    sent_mb: Array


class Since(NamedTuple):
    """What the slots of one step brought: reward, and ``StepMetrics`` of them."""

    reward: Array
    metrics: StepMetrics


@dataclass(frozen=True)
class MLFS(Environment):
    """A cluster that runs the tasks of iterative jobs, placed one at a time in slots of a minute.

    Observation: float32 ``[8 + 26 + 10 S]`` (``observation.py``). Mask: bool ``[S + 1]``, servers
    that can take the task and the queue, which is always open. Action: a server, or S for the
    queue; anything else means the queue. Terminates when every job has finished, is truncated
    after ``max_slots``.

    With ``decide`` "slot" a step is a whole slot. Observation: float32 ``[8]``, the cluster.
    Action: float32 ``[W]``, weights of jobs, tasks and pairs of task and server (``pairs.py``),
    which say what is placed next, where, and what leaves overloaded servers. Mask: bool ``[1]``.

    Attributes:
      gpus: GPUs of each of the S servers.
      cpus_per_server: of each server.
      mem_per_server: GB of each server.
      bandwidth_per_server: MB per minute of each server's link.
      flow_rate: MB per minute of one task's communication.
      comm_rounds: communications of an iteration.
      move_work: mmin lost by a task that runs on another server than the last time.
      move_mb: MB sent by it.
      max_active: A, jobs in the window.
      max_offers: decisions of a slot.
      max_slots: the episode is cut after so many.
      overload_threshold: pm above which a server is overloaded (h_r).
      busy_threshold: pm above which the cluster is busy (h_s).
      migrant_share: per cent of the tasks of overloaded GPUs that may migrate at once (p_s).
      use_urgency: urgency counts in priorities.
      use_deadline: deadlines count in priorities.
      use_bandwidth: communication counts in the choice of migrants and hosts.
      use_migration: tasks leave overloaded servers.
      use_mlfc: jobs end early where the cluster is busy (MLF-C).
      tiresias_threshold: attained GPU-seconds after which tiresias puts a job last.
      prediction_error: mean absolute error of the accuracies that MLF-C predicts, per cent (the
        paper's predictor: 10).
      importance_share: per cent of importance in a priority; the rest is urgency in time (alpha in
        Eq. 6).
      children_share: per cent of the children's priority in their parents' (gamma).
      deadline_weight: per cent of the deadline term (g_d).
      remaining_weight: per cent of the remaining-time term (g_r).
      waiting_weight: per cent of the waiting term (g_w).
      order: in which order tasks are offered: ``mlf``, or as a baseline of section 9 does.
      decide: what a step decides: one ``offer``, or the weights of a ``slot``.
      reward: ``mlfs`` (section 6), ``backlog`` (RL of section 9), ``progress`` or
        ``service``, ours.
      slot_every: K; 0: a step goes from one offer to the next. Otherwise slots end at multiples of
        K steps only, so that many copies end them at the same steps, and a step between an offer
        and the end of its slot does nothing. Schedules and rewards are the same.
    """

    gpus: tuple[int, ...] = (4,) * 5
    cpus_per_server: int = 32
    mem_per_server: int = 244
    bandwidth_per_server: int = 75000
    flow_rate: int = 10000
    comm_rounds: int = 40
    move_work: int = 250
    move_mb: int = 500
    max_active: int = 64
    max_offers: int = 32
    max_slots: int = 40000
    overload_threshold: int = 900
    busy_threshold: int = 900
    migrant_share: int = 10
    use_urgency: bool = True
    use_deadline: bool = True
    use_bandwidth: bool = True
    use_migration: bool = True
    use_mlfc: bool = False
    tiresias_threshold: int = 30000
    prediction_error: int = 0
    importance_share: int = tables.WEIGHTS["importance_share"]
    children_share: int = tables.WEIGHTS["children_share"]
    deadline_weight: int = tables.WEIGHTS["deadline_weight"]
    remaining_weight: int = tables.WEIGHTS["remaining_weight"]
    waiting_weight: int = tables.WEIGHTS["waiting_weight"]
    order: Order = "mlf"
    decide: Decide = "offer"
    reward: RewardMode = "mlfs"
    slot_every: int = 0

    name = "mlfs"
    behaviour_version = 1
    reset_on_demand = True

    def __post_init__(self) -> None:
        if isinstance(self.gpus, list):
            object.__setattr__(self, "gpus", tuple(self.gpus))
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "gpus":
                _check_gpus(value)
            elif field.name in CHOICES:
                choices = CHOICES[field.name]
                if value not in choices or isinstance(value, int) != isinstance(choices[0], int):
                    accepted = ", ".join(str(choice) for choice in choices)
                    raise JaxschedError(f"mlfs: {field.name} is {value!r}; accepted: {accepted}")
            else:
                least, most = LIMITS[field.name]
                whole = isinstance(value, int) and not isinstance(value, bool)
                if not whole or not least <= value <= most:
                    raise JaxschedError(
                        f"mlfs: {field.name} is {value!r}; accepted: a whole number from {least} "
                        f"to {most}"
                    )
        if self.by_slot and self.order != MLF:
            raise JaxschedError(f"mlfs: decide is 'slot'; accepted with order {MLF!r} only")

    @property
    def by_slot(self) -> bool:
        """A step is a slot."""
        return self.decide == "slot"

    @property
    def num_servers(self) -> int:
        """S."""
        return len(self.gpus)

    @property
    def cluster(self) -> Cluster:
        """Servers and thresholds."""
        return Cluster(
            gpus=self.gpus,
            cpus=self.cpus_per_server,
            mem=self.mem_per_server,
            bandwidth=self.bandwidth_per_server,
            flow_rate=self.flow_rate,
            overload=self.overload_threshold,
            busy=self.busy_threshold,
        )

    @property
    def rules(self) -> Rules:
        """Static options of the dynamics."""
        return Rules(
            cluster=self.cluster,
            window=self.max_active,
            max_offers=self.max_offers,
            order=self.order,
            move_work=self.move_work,
            move_mb=self.move_mb,
            migrant_share=self.migrant_share,
            use_urgency=self.use_urgency,
            use_deadline=self.use_deadline,
            use_bandwidth=self.use_bandwidth,
            use_migration=self.use_migration,
            use_mlfc=self.use_mlfc,
            tiresias_threshold=self.tiresias_threshold,
        )

    def params(self, job_tables: Sequence[JobTable], **scalars: float) -> Params:
        """Parameters for these job tables, each an episode.

        Args:
          job_tables: of the schema ``TASK_JOBS``, in order of submission.
          **scalars: values for some of ``tables.WEIGHTS``, in place of the environment's own, and
            of ``tables.REWARD_WEIGHTS``.

        Raises:
          JaxschedError: a table or a value is refused.
        """
        return tables.build_params(
            job_tables,
            self.cluster,
            comm_rounds=self.comm_rounds,
            prediction_error=self.prediction_error,
            window=self.max_active,
            slot_offers=self.max_offers,
            scalars={name: getattr(self, name) for name in tables.WEIGHTS} | scalars,
        )

    def num_episodes(self, params: Params) -> int:
        """Number of episodes."""
        return params.offset.shape[0]

    def max_jobs(self, params: Params) -> int:
        """Jobs of the longest episode."""
        return params.max_jobs

    def max_steps(self, params: Params) -> int:
        """All offers of all slots, and steps in which nothing is offered; or all slots."""
        del params
        if self.by_slot:
            return self.max_slots + 1
        return (self.max_slots + 1) * (self.max_offers + self.slot_every)

    def observation_spec(self, params: Params | None = None) -> ArraySpec:
        """Spec of the observation; without parameters no upper bound is known."""
        names = obs.CLUSTER_NAMES if self.by_slot else obs.observation_names(self.num_servers)
        most = float("inf")
        if params is not None:
            most = obs.largest_entry(self.rules, params, self.max_slots)
        return ArraySpec((len(names),), jnp.float32, obs.LEAST_ENTRY, most, names)

    def action_spec(self, params: Params | None = None) -> DiscreteSpec | ArraySpec:
        """Servers and the queue, or weights."""
        del params
        if self.by_slot:
            return ArraySpec((len(pairs.WEIGHTS),), jnp.float32, names=pairs.WEIGHTS)
        return DiscreteSpec(self.num_servers + 1)

    def decides(self, state: State) -> Array:
        """Whether a task is on offer; always, up to the end, with ``slot_every`` 0 or by slots."""
        if self.by_slot:
            return jnp.bool_(True)
        return state.offers.place != NOBODY

    def observe(self, state: State, params: Params) -> tuple[Array, Array]:
        """Observation and mask of a state."""
        if self.by_slot:
            return obs.cluster_entries(self.rules, state), jnp.ones(1, bool)
        offer = placing.offered(self.rules, params, state)
        mask = jnp.concatenate([offer.valid, jnp.ones(1, bool)])
        return obs.observe(self.rules, state, offer), mask

    def reset(
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[State, TimeStep]:
        """The idle cluster at the first submission of an episode, given or drawn."""
        if episode is None:
            episode = jax.random.randint(key, (), 0, self.num_episodes(params))
        begin = dynamics.first_slot if not self.by_slot else dynamics.first_jobs
        state = begin(self.rules, params, jnp.asarray(episode, jnp.int32))
        observation, mask = self.observe(state, params)
        none, false = jnp.float32(0), jnp.bool_(False)
        metrics = self._nothing(state).metrics
        return state, TimeStep(observation, mask, none, false, false, none, metrics)

    def step(
        self, key: PRNGKey, state: State, action: Array, params: Params
    ) -> tuple[State, TimeStep]:
        """The answer to the offer, if there is one, and what follows; ``key`` is not used."""
        del key
        if self.by_slot:
            return self._step_slot(state, action, params)
        since = self._nothing(state)
        after = placing.answer(self.rules, params, state, jnp.asarray(action, jnp.int32))
        if self.slot_every == 0:

            def waits(carry: tuple[State, Since]) -> Array:
                return ~self.decides(carry[0]) & ~self._done(carry[0], params)

            after, since = jax.lax.while_loop(
                waits, lambda carry: self._slot(carry, params), (after, since)
            )
        else:
            over = self._done(state, params)
            pace = jnp.where(over, state.pace, (state.pace + 1) % self.slot_every)
            after = after._replace(pace=pace)
            due = (pace == 0) & ~self.decides(after) & ~over
            after, since = apply_if(due, self._slot, (after, since), params)
        return after, self._told(state, after, since, self.decides(state), params)

    def _step_slot(self, state: State, weights: Array, params: Params) -> tuple[State, TimeStep]:
        """A whole slot, tasks placed by weights, and the jobs that come in before the next."""
        over, since = self._done(state, params), self._nothing(state)
        opened = dynamics.open_slot(self.rules, params, state, weights)
        made = jnp.where(over, 0, opened.offers.made)
        after, since = select(over, (state, since), self._slot((opened, since), params))
        return after, self._told(state, after, since, made, params)

    def _told(
        self, state: State, after: State, since: Since, decisions: Array, params: Params
    ) -> TimeStep:
        """What a step between two states tells."""
        observation, mask = self.observe(after, params)
        terminated = dynamics.over(params, after)
        metrics = since.metrics._replace(decides=decisions, after=after.slot)
        return TimeStep(
            observation=observation,
            action_mask=mask,
            reward=since.reward,
            terminated=terminated,
            truncated=after.cut,
            elapsed=SLOT_S * (after.slot - state.slot).astype(jnp.float32),
            metrics=metrics,
        )

    def resample_future(self, key: PRNGKey, state: State, params: Params) -> tuple[State, Params]:
        """The jobs still to be submitted as a bootstrap of the episode's."""
        alone = tables.redrawn(key, params, state.episode, state.submitted, state.slot)
        return state._replace(episode=jnp.int32(0)), alone

    def _done(self, state: State, params: Params) -> Array:
        return dynamics.over(params, state) | state.cut

    def _slot(self, carry: tuple[State, Since], params: Params) -> tuple[State, Since]:
        """The end of a slot and the beginning of the next, up to its first offer."""
        state, since = carry
        after, ended, jobs = dynamics.end_slot(self.rules, params, state)
        if self.reward == "mlfs":
            gain = reward.slot_reward(params, state.episode, jobs, ended, after.slot)
        elif self.reward == "progress":
            limit = state.active.limit
            gain = reward.progress_reward(params, state.episode, jobs, ended, limit)
        elif self.reward == "service":
            gain = reward.service_reward(params, state, jobs, after.slot)
        else:
            gain = reward.backlog_reward(params, state.episode, state.submitted, state.finished)
        over = dynamics.over(params, after)
        cut = (after.slot >= self.max_slots) & ~over
        after = after._replace(cut=cut)
        since = _joined(since, gain, ended, after.slot, cut)
        begin = dynamics.admit if self.by_slot else dynamics.begin_slot
        begun = begin(self.rules, params, after)
        arrived = jnp.where(begun.slot == after.slot, begun.submitted, after.submitted)
        return select(over | cut, after._replace(submitted=arrived), begun), since

    def _nothing(self, state: State) -> Since:
        zero = jnp.int32(0)
        jobs = jnp.full(self.max_active, NOBODY, jnp.int32)
        metrics = StepMetrics(jnp.bool_(False), state.slot, state.slot, *[jobs] * 7, *[zero] * 5)
        return Since(jnp.float32(0), metrics)


def _check_gpus(gpus: Sequence[int]) -> None:
    whole = isinstance(gpus, tuple) and all(
        isinstance(g, int) and not isinstance(g, bool) and 1 <= g <= MOST_GPUS for g in gpus
    )
    if not whole or not 1 <= len(gpus) <= MOST_SERVERS:
        raise JaxschedError(
            f"mlfs: gpus is {gpus!r}; accepted: for each of 1 to {MOST_SERVERS} servers a whole "
            f"number of GPUs from 1 to {MOST_GPUS}"
        )


def _joined(since: Since, gain: Array, ended: Ended, slot: Array, cut: Array) -> Since:
    """``since`` with one slot more, of which ``slot`` is the next."""
    happened, active = since.metrics, ended.active
    told = ended.over | (cut & (active.job != NOBODY) & (happened.job == NOBODY))

    def kept(old: Array, new: Array) -> Array:
        return jnp.where(told, new, old)

    by_job = {
        name: kept(getattr(happened, name), getattr(active, name))
        for name in Active._fields
        if name in StepMetrics._fields
    }
    metrics = happened._replace(
        finish=kept(happened.finish, jnp.where(ended.over, slot, NOBODY)),
        **by_job,
        completed=happened.completed + jnp.sum(ended.completed, dtype=jnp.int32),
        overloads=happened.overloads + ended.overloads,
        evictions=happened.evictions + ended.evictions,
        migrations=happened.migrations + ended.migrations,
        sent_mb=happened.sent_mb + ended.sent,
    )
    return Since(since.reward + gain, metrics)
