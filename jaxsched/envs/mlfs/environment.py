"""MLFS as an environment: a server for the task on offer, or the queue.

Axes: ``A`` jobs of the window.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.core.environment import Environment
from jaxsched.envs.mlfs.heuristics import WEIGHTS, order_by_weights, place_by_rule, place_by_weights
from jaxsched.envs.mlfs.rules import (
    MLF,
    Cluster,
    Order,
    Rules,
    dynamics,
    reward,
    tables,
    with_options,
)
from jaxsched.envs.mlfs.rules import observation as obs
from jaxsched.envs.mlfs.rules.dynamics import Ended
from jaxsched.envs.mlfs.rules.observation import privileged_state
from jaxsched.envs.mlfs.rules.offers import answer, offered
from jaxsched.envs.mlfs.rules.reward import RewardMode
from jaxsched.envs.mlfs.rules.state import NONE, Active, State
from jaxsched.envs.mlfs.rules.tables import SLOT_S, Errors, Params
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.jobs.servers import Servers
from jaxsched.ops.batching import apply_if, select
from jaxsched.options import Bounds
from jaxsched.types import Array, ArraySpec, DiscreteSpec, Feature, PRNGKey, TimeStep
from jaxsched.units import readable_time


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


class StepAccumulator(NamedTuple):
    """What the slots of one step brought: reward, and ``StepMetrics`` of them."""

    reward: Array
    metrics: StepMetrics


def nothing_yet(state: State) -> StepAccumulator:
    """A step that has brought nothing yet."""
    zero = jnp.int32(0)
    jobs = jnp.full_like(state.active.job, NONE)
    metrics = StepMetrics(jnp.bool_(False), state.slot, state.slot, *[jobs] * 7, *[zero] * 5)
    return StepAccumulator(jnp.float32(0), metrics)


def accumulated(
    since: StepAccumulator, gain: Array, ended: Ended, slot: Array, cut: Array
) -> StepAccumulator:
    """``since`` with one slot more, of which ``slot`` is the next."""
    happened, active = since.metrics, ended.active
    told = ended.over | (cut & (active.job != NONE) & (happened.job == NONE))

    def kept(old: Array, new: Array) -> Array:
        return jnp.where(told, new, old)

    by_job = {
        name: kept(getattr(happened, name), getattr(active, name))
        for name in Active._fields
        if name in StepMetrics._fields
    }
    metrics = happened._replace(
        finish=kept(happened.finish, jnp.where(ended.over, slot, NONE)),
        **by_job,
        completed=happened.completed + jnp.sum(ended.completed, dtype=jnp.int32),
        overloads=happened.overloads + ended.overloads,
        evictions=happened.evictions + ended.evictions,
        migrations=happened.migrations + ended.migrations,
        sent_mb=happened.sent_mb + ended.sent,
    )
    return StepAccumulator(since.reward + gain, metrics)


Decide = Literal["offer", "slot", "rule"]
WaitingUnit = Literal["day", "hour"]
EarlyStop = Literal["predicted", "achieved", "hopeless"]
WAITING_MIN: dict[WaitingUnit, int] = {"day": 1440, "hour": 60}
MOST_SERVERS, MOST_GPUS = 2**12, 64
MOST_OFFERS, MOST_SLOTS = 2**14, 2**20
PRIORITIES: dict[str, Any] = {**tables.WEIGHTS, "waiting_unit": "day"}
"""Options of MLF-H's priorities: weights as printed, and what they are read with."""


def _weight(name: str) -> Bounds:
    """Of a weight, per cent."""
    return Bounds(0, tables.MOST_WEIGHT[name])


@dataclass(frozen=True)
class MLFS(Environment):
    """A cluster that runs the tasks of iterative jobs, placed one at a time in slots of a minute.

    Observation: float32 ``[8 + 26 + 10 S]`` (``rules.observation``). Mask: bool ``[S + 1]``,
    servers that can take the task and the queue, which is always open. Action: a server, or S for
    the queue; anything else means the queue. Terminates when every job has finished, is truncated
    after ``max_slots``.

    With ``decide`` "slot" a step is a whole slot. Observation: float32 ``[8]``, the cluster.
    Action: float32 ``[W]``, weights of jobs, tasks and pairs of task and server (``heuristics``),
    which say what is placed next, where, and what leaves overloaded servers. Mask: bool ``[1]``.
    With "rule" it is the order's own rule that places a slot's tasks; the one action is 0.

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
      early_stop: by what MLF-C ends jobs at their target: the ``predicted`` accuracy, or the
        ``achieved`` one, busy or not; ``hopeless``: achieved, and a busy cluster also ends jobs
        that can no longer reach their target by their deadline.
      tiresias_threshold: attained GPU-seconds after which tiresias puts a job last.
      prediction_error: mean absolute error of the accuracies that MLF-C predicts, per cent (the
        paper's predictor: 10).
      run_time_error: the same of the run times that schedulers are told, in priorities,
        observations and rewards (the paper's predictor: 11 for jobs seen before, 30 for others).
      importance_share: per cent of importance in a priority; the rest is urgency in time (alpha in
        Eq. 6).
      children_share: per cent of the children's priority in their parents' (gamma).
      deadline_weight: per cent of the deadline term (g_d).
      remaining_weight: per cent of the remaining-time term (g_r).
      waiting_weight: per cent of the waiting term (g_w).
      waiting_unit: of the time in the waiting term, which the paper does not give; an ``hour`` is
        what versions of this project up to 0.1 had.
      order: in which order tasks are offered: ``mlf``, or as a baseline of section 9 does.
      decide: what a step decides: one ``offer``, the weights of a ``slot``, or nothing (``rule``).
      reward: ``mlfs`` (section 6), ``standing`` (the same over all jobs of the window, as if they
        finished now), ``backlog`` (RL of section 9), ``progress`` or ``service``, ours.
      slot_every: K; 0: a step goes from one offer to the next. Otherwise slots end at multiples of
        K steps only, so that many copies end them at the same steps, and a step between an offer
        and the end of its slot does nothing. Schedules and rewards are the same.
    """

    gpus: tuple[int, ...] = (4,) * 5
    cpus_per_server: Annotated[int, Bounds(1, 2**12)] = 32
    mem_per_server: Annotated[int, Bounds(1, 2**14)] = 244
    bandwidth_per_server: Annotated[int, Bounds(1, 2**20)] = 75000
    flow_rate: Annotated[int, Bounds(1, 2**20)] = 10000
    comm_rounds: Annotated[int, Bounds(0, 2**12)] = 40
    move_work: Annotated[int, Bounds(0, 2**20)] = 250
    move_mb: Annotated[int, Bounds(0, 2**20)] = 500
    max_active: Annotated[int, Bounds(1, 2**14)] = 64
    max_offers: Annotated[int, Bounds(1, MOST_OFFERS)] = 32
    max_slots: Annotated[int, Bounds(1, MOST_SLOTS)] = 40000
    overload_threshold: Annotated[int, Bounds(1, 1000)] = 900
    busy_threshold: Annotated[int, Bounds(0, 4000)] = 900
    migrant_share: Annotated[int, Bounds(0, 100)] = 10
    use_urgency: bool = True
    use_deadline: bool = True
    use_bandwidth: bool = True
    use_migration: bool = True
    use_mlfc: bool = False
    early_stop: EarlyStop = "predicted"
    tiresias_threshold: Annotated[int, Bounds(0, 2**30)] = 30000
    prediction_error: Annotated[int, Bounds(0, 100)] = 0
    run_time_error: Annotated[int, Bounds(0, 100)] = 0
    importance_share: Annotated[int, _weight("importance_share")] = tables.WEIGHTS[
        "importance_share"
    ]
    children_share: Annotated[int, _weight("children_share")] = tables.WEIGHTS["children_share"]
    deadline_weight: Annotated[int, _weight("deadline_weight")] = tables.WEIGHTS["deadline_weight"]
    remaining_weight: Annotated[int, _weight("remaining_weight")] = tables.WEIGHTS[
        "remaining_weight"
    ]
    waiting_weight: Annotated[int, _weight("waiting_weight")] = tables.WEIGHTS["waiting_weight"]
    waiting_unit: WaitingUnit = "day"
    order: Order = "mlf"
    decide: Decide = "offer"
    reward: RewardMode = "mlfs"
    slot_every: Annotated[int, Bounds(0, 2**14)] = 0

    name = "mlfs"
    behaviour_version = 2
    reset_on_demand = True
    former_options = {
        "bw_per_server": "bandwidth_per_server",
        "h_r": "overload_threshold",
        "h_s": "busy_threshold",
        "p_s": "migrant_share",
        "use_bw": "use_bandwidth",
        "alpha": "importance_share",
        "gamma": "children_share",
        "g_d": "deadline_weight",
        "g_r": "remaining_weight",
        "g_w": "waiting_weight",
        "reward_mode": "reward",
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "gpus", _gpus(self.gpus))
        super().__post_init__()
        if self.decide == "slot" and self.order != MLF:
            raise JaxschedError(f"mlfs: decide is 'slot'; accepted with order {MLF!r} only")

    @property
    def by_slot(self) -> bool:
        """A step is a slot."""
        return self.decide != "offer"

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
            waiting_min=WAITING_MIN[self.waiting_unit],
            stop_achieved=self.early_stop != "predicted",
            stop_hopeless=self.early_stop == "hopeless",
        )

    def rules_of(self, params: Params) -> Rules:
        """Options of the dynamics: the environment's, or those that the parameters bring."""
        return self.rules if params.options is None else with_options(self.rules, params.options)

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
            errors=Errors(self.prediction_error, self.run_time_error),
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
        """Servers and the queue, weights, or nothing to choose from."""
        del params
        if self.decide == "rule":
            return DiscreteSpec(1)
        if self.by_slot:
            return ArraySpec((len(WEIGHTS),), jnp.float32, names=WEIGHTS)
        servers = (f"server{server}" for server in range(self.num_servers))
        return DiscreteSpec(self.num_servers + 1, (*servers, "queue"))

    def server_gpus(self) -> tuple[int, ...]:
        """GPUs of each server."""
        return self.gpus

    @classmethod
    def of_servers(
        cls,
        num_servers: int,
        gpus_per_server: int,
        kinds: tuple[Any, ...] = (),
        slots: int = 1,
    ) -> dict[str, Any]:
        """The option ``gpus``, which has a number for each server.

        A job's tasks may run on servers of different sizes.

        Raises:
          JaxschedError: some servers are for small jobs, or GPUs have types or slots.
        """
        servers = Servers(num_servers, gpus_per_server, kinds, slots)
        if servers.has_types or servers.demands or slots > 1:
            given = "types of GPUs" if servers.has_types else "CPUs and memory by kind of server"
            given = "slots of GPUs" if slots > 1 else given
            raise JaxschedError(
                f"mlfs: its environment has no {given}; accepted: sizes alone, such as 2x2,4x8"
            )
        if servers.has_limits:
            raise JaxschedError(
                "mlfs: its environment has no servers for small jobs; accepted: sizes without "
                "a limit, such as 2x2,4x8"
            )
        if kinds:
            return {"gpus": tuple(k.gpus_per_server for k in kinds for _ in range(k.num_servers))}
        return {"gpus": (gpus_per_server,) * num_servers}

    def facts(self) -> dict[str, str]:
        """The cluster, and what a slot can see and decide."""
        alike = [f"{count} servers of {gpus} GPUs" for gpus, count in Counter(self.gpus).items()]
        return {
            "cluster": f"{' and '.join(alike)}, each with {self.cpus_per_server} CPUs, "
            f"{self.mem_per_server} GB",
            "window": f"at most {self.max_active} jobs in the cluster",
            "length of a slot": f"{readable_time(SLOT_S)}, at most {self.max_offers} decisions",
        }

    def features(self) -> dict[str, Feature]:
        """What the observation's entries mean."""
        return obs.features(self.rules)

    def decides(self, state: State) -> Array:
        """Whether a task is on offer; always, up to the end, with ``slot_every`` 0 or by slots."""
        if self.by_slot:
            return jnp.bool_(True)
        return state.offers.place != NONE

    def observe(self, state: State, params: Params) -> tuple[Array, Array]:
        """Observation and mask of a state."""
        if self.by_slot:
            return obs.cluster_entries(self.rules_of(params), state), jnp.ones(1, bool)
        rules = self.rules_of(params)
        offer = offered(rules, params, state)
        mask = jnp.concatenate([offer.valid, jnp.ones(1, bool)])
        return obs.observe(rules, state, offer), mask

    def reset(
        self, key: PRNGKey, params: Params, episode: Array | None = None
    ) -> tuple[State, TimeStep]:
        """The idle cluster at the first submission of an episode, given or drawn."""
        if episode is None:
            episode = jax.random.randint(key, (), 0, self.num_episodes(params), jnp.int32)
        begin = dynamics.first_slot if not self.by_slot else dynamics.first_jobs
        state = begin(self.rules_of(params), params, jnp.asarray(episode, jnp.int32))
        observation, mask = self.observe(state, params)
        none, false = jnp.float32(0), jnp.bool_(False)
        metrics = nothing_yet(state).metrics
        return state, TimeStep(observation, mask, none, false, false, none, metrics)

    def step(
        self, key: PRNGKey, state: State, action: Array, params: Params
    ) -> tuple[State, TimeStep]:
        """The answer to the offer, if there is one, and what follows; ``key`` is not used."""
        del key
        if self.by_slot:
            return self._step_slot(state, action, params)
        since = nothing_yet(state)
        after = answer(self.rules_of(params), params, state, jnp.asarray(action, jnp.int32))
        if self.slot_every == 0:

            def waits(carry: tuple[State, StepAccumulator]) -> Array:
                return ~self.decides(carry[0]) & ~self.done(carry[0], params)

            after, since = jax.lax.while_loop(
                waits, lambda carry: self.next_slot(carry, params), (after, since)
            )
        else:
            over = self.done(state, params)
            pace = jnp.where(over, state.pace, (state.pace + 1) % self.slot_every)
            after = after._replace(pace=pace)
            due = (pace == 0) & ~self.decides(after) & ~over
            after, since = apply_if(due, self.next_slot, (after, since), params, heavy=True)
        return after, self.told(state, after, since, self.decides(state), params)

    def placed(self, state: State, action: Array, params: Params) -> State:
        """A slot with all its tasks placed, by weights or by the rule, where a step is a slot."""
        rules = self.rules_of(params)
        if self.decide == "rule":
            return dynamics.open_slot(rules, params, state, place_by_rule)
        place, order = partial(place_by_weights, action), partial(order_by_weights, action)
        return dynamics.open_slot(rules, params, state, place, order)

    def _step_slot(self, state: State, action: Array, params: Params) -> tuple[State, TimeStep]:
        """A whole slot, and the jobs that come in before the next."""
        over, since = self.done(state, params), nothing_yet(state)
        opened = self.placed(state, action, params)
        made = jnp.where(over, 0, opened.offers.made)
        after, since = select(over, (state, since), self.next_slot((opened, since), params))
        return after, self.told(state, after, since, made, params)

    def told(
        self, state: State, after: State, since: StepAccumulator, decisions: Array, params: Params
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

    def privileged_state(self, state: State, params: Params) -> Array:
        """For critics in training, float32 ``[15]`` (``rules.observation``)."""
        return privileged_state(self.rules_of(params).cluster, state, params)

    def resample_future(self, key: PRNGKey, state: State, params: Params) -> tuple[State, Params]:
        """The jobs still to be submitted as a bootstrap of the episode's."""
        alone = tables.resampled(key, params, state.episode, state.submitted, state.slot)
        return state._replace(episode=jnp.int32(0)), alone

    def done(self, state: State, params: Params) -> Array:
        """Whether the episode is over or cut, bool scalar."""
        return dynamics.over(params, state) | state.cut

    def next_slot(
        self, carry: tuple[State, StepAccumulator], params: Params
    ) -> tuple[State, StepAccumulator]:
        """The end of a slot and the beginning of the next, up to its first offer."""
        state, since = carry
        rules = self.rules_of(params)
        after, ended, jobs = dynamics.end_slot(rules, params, state)
        if self.reward in ("mlfs", "standing"):
            gain = reward.slot_reward(
                params, state.episode, jobs, ended, after.slot, standing=self.reward == "standing"
            )
        elif self.reward == "progress":
            limit = state.active.limit
            gain = reward.progress_reward(params, state.episode, jobs, ended, limit)
        elif self.reward == "service":
            gain = reward.service_reward(params, state, jobs, after.slot)
        else:
            gain = reward.backlog_reward(params, state.episode, state.submitted, state.finished)
        over = dynamics.over(params, after)
        last = self.max_slots if params.options is None else params.options["max_slots"]
        cut = (after.slot >= last) & ~over
        after = after._replace(cut=cut)
        since = accumulated(since, gain, ended, after.slot, cut)
        begin = dynamics.admit if self.by_slot else dynamics.begin_slot
        begun = begin(rules, params, after)
        arrived = jnp.where(begun.slot == after.slot, begun.submitted, after.submitted)
        return select(over | cut, after._replace(submitted=arrived), begun), since


def _gpus(gpus: Sequence[int]) -> tuple[int, ...]:
    """GPUs of each server, as a tuple.

    Raises:
      JaxschedError: the number of servers, or GPUs of one of them, is not accepted.
    """
    whole = isinstance(gpus, list | tuple) and all(
        isinstance(g, int) and not isinstance(g, bool) and 1 <= g <= MOST_GPUS for g in gpus
    )
    if not whole or not 1 <= len(gpus) <= MOST_SERVERS:
        raise JaxschedError(
            f"mlfs: gpus is {gpus!r}; accepted: for each of 1 to {MOST_SERVERS} servers a whole "
            f"number of GPUs from 1 to {MOST_GPUS}"
        )
    return tuple(gpus)


CLUSTERS: dict[str, dict[str, Any]] = {
    "small": {"gpus": (4,) * 5, "max_active": 64, "max_offers": 32},
    "real": {"gpus": (4,) * 20, "max_active": 256, "max_offers": 128},
    "large": {"gpus": (2,) * 321 + (8,) * 229, "max_active": 4096, "max_offers": 2048},
}
"""20, 80 and 2474 GPUs, with room for the load of each.

Tasks last a few minutes, and a GPU holds several. With the 128 offers a slot of *real* the GPUs of
*large* could not even be refilled as tasks end, so it has as many more offers as it has GPUs. Of
1,024 jobs in the window every task runs at once there: who waits is then whoever is outside.
"""
