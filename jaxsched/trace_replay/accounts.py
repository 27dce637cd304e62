"""What is known during a replay that keeps accounts: of GPUs, of jobs, and of demand.

Axes: ``S`` servers, ``M`` GPUs per server, ``n`` jobs, ``Q`` thresholds. ``preemptive`` says how it
changes, ``decisions`` what is decided on it.
"""

from typing import Literal, NamedTuple

import jax.numpy as jnp

from jaxsched.trace_replay import demand as dm
from jaxsched.trace_replay import history as hs
from jaxsched.trace_replay import queues as qu
from jaxsched.trace_replay import waiting as wt
from jaxsched.trace_replay.cluster import Cluster
from jaxsched.trace_replay.demand import Demand
from jaxsched.trace_replay.policies import Locality, Mode, Victims
from jaxsched.trace_replay.scorers import Scorer
from jaxsched.trace_replay.suspension import Plan, new_accounts, no_plan
from jaxsched.trace_replay.tables import NEVER, Jobs, Shape
from jaxsched.trace_replay.waiting import Waiting
from jaxsched.types import Array, PyTree

LEAST_STOPS = 64
Worth = Literal["remaining", "service", "level"]


class Rules(NamedTuple):
    """Static options of a replay."""

    cluster: Cluster
    shape: Shape
    worth: Worth
    num_thresholds: int
    scorer: Scorer  # of rows of levels; none: they are given, and there is no history
    suspends: bool
    mode: Mode
    locality: Locality
    keeps_features: bool  # of every job, for those who train scorers
    by_priority: bool = False  # equals are never suspended
    headroom: int = 0  # GPUs that start no job of a value above 0, unless all are free
    forecasts: bool = False  # that many are free as a forecast says, see ``demand``
    victims: Victims = "last"
    queued: bool = False  # values are places in Tiresias' queues
    promotes: bool = False  # and jobs go back to the first queue


class Learnt(NamedTuple):
    """What replays with a history keep of each GPU, ``[M, S]``."""

    begun: Array  # int32, when the last job would have begun, had it run ever since
    is_known: Array  # bool, that job is in the history, or was suspended


class Running(NamedTuple):
    """What each GPU does, int32 ``[M, S]`` (``crossing``: ``[Q, M, S]``)."""

    job: Array  # the last job on it
    free_from: Array  # when that job ends, or has ended or was suspended
    crossing: Array  # when that job changes queue
    levels: Array  # [Q + 1, M, S], that job's row; without levels, no rows
    learnt: Learnt | None
    since: Array | None  # when that job's last run began, where victims are chosen by waste
    standing: Array | None  # its place in its queue, of Tiresias' queues


class Stops(NamedTuple):
    """Runs that were cut, in the order of their ends; the host takes them out when it is full."""

    runs: Array  # int32 [L + 1, 3]: the job, when the run began and when it was suspended
    number: Array  # int32 scalar, how many there are


class State(NamedTuple):
    """A replay between two steps."""

    time: Array  # int32 scalar, s
    arrived: Array  # int32 scalar, jobs admitted
    num_waiting: Array  # int32 scalar
    waiting: Waiting  # values as in ranks
    running: Running
    ledger: Array  # int32 [n + 1, 8], the account of each job (with a history, and its row of
    # levels, [n + 1, 8 + Q + 1]); the last row is of no job
    overflow: Array  # bool scalar, a job would end beyond int32
    history: Array  # int32 [R, C], see there; no rows without
    features: Array  # int32 [n + 1, F], where they are kept; else no rows
    demand: Demand | None  # of the jobs of value 0, where it is forecast
    plan: Plan | None  # of the instant, where jobs are suspended
    stops: Stops | None  # the last suspensions, likewise
    instant: Array  # int32 scalar, its number
    promotion: qu.Promotion | None  # where jobs are promoted


class Options(NamedTuple):
    """What a replay is told besides its jobs, none of it static."""

    free_weight: Array  # int32 scalar, of ``cluster.FREE_WEIGHT``
    restart_s: Array  # int32 scalar
    predictor: PyTree  # what the scorer takes
    checkpoint_s: Array  # int32 scalar; 0: a suspension loses nothing
    forecast: dm.Forecast  # how demand is forecast
    promote_percent: Array  # int32 scalar


def no_stops(num_jobs: int) -> Stops:
    """Room for as many as there are jobs, and no fewer than ``LEAST_STOPS``."""
    return Stops(jnp.zeros((max(num_jobs, LEAST_STOPS) + 1, 3), jnp.int32), jnp.int32(0))


def opened(rules: Rules, jobs: Jobs) -> State:
    """The idle cluster at time 0."""
    shape, cluster = rules.shape, rules.cluster
    gpus = (cluster.gpus_per_server, cluster.num_servers)
    zero, per_job = jnp.int32(0), jnp.zeros_like(jobs.duration)
    scored = rules.num_thresholds + 1 if rules.scorer else 0
    rows = rules.num_thresholds + 1 if rules.worth == "level" else 0
    kept = (shape.num_jobs + 1, hs.NUM_FEATURES) if rules.keeps_features else (0, 0)
    return State(
        time=zero,
        arrived=zero,
        num_waiting=zero,
        waiting=wt.nobody(shape.num_blocks, shape.width),
        running=Running(
            jnp.full(gpus, shape.num_jobs, jnp.int32),
            jnp.zeros(gpus, jnp.int32),
            jnp.full((rules.num_thresholds, *gpus), NEVER, jnp.int32),
            jnp.zeros((rows, *gpus), jnp.int32),
            Learnt(jnp.zeros(gpus, jnp.int32), jnp.ones(gpus, bool)) if rules.scorer else None,
            jnp.zeros(gpus, jnp.int32) if rules.victims == "waste" else None,
            jnp.zeros(gpus, jnp.int32) if rules.queued else None,
        ),
        ledger=jnp.stack([*new_accounts(jobs.duration), *(per_job for _ in range(scored))], axis=1),
        overflow=jnp.bool_(False),
        history=hs.nothing_yet(shape.num_scopes),
        features=jnp.zeros(kept, jnp.int32),
        demand=dm.nothing_yet() if rules.forecasts else None,
        plan=no_plan(cluster, shape.num_jobs) if rules.suspends else None,
        stops=no_stops(shape.num_jobs) if rules.suspends else None,
        instant=zero,
        promotion=qu.nobody_promoted(shape.num_jobs, shape.num_blocks, shape.width)
        if rules.promotes
        else None,
    )
