"""Job tables of MLFS on the device: packed rows shared by all episodes.

A job is one row of integers, so that a single gather brings everything about it; an episode is a
range of rows. Axes: ``T`` jobs of all tables, ``E`` episodes, ``J`` jobs of the longest episode,
``R`` tasks that can run at the same time, ``P`` = 16 partitions.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs import jobs as graph
from jaxsched.envs.mlfs.jobs import MAX_PARTITIONS, MAX_TASKS, TASK_JOBS
from jaxsched.envs.mlfs.simulator.cluster import Cluster
from jaxsched.envs.mlfs.simulator.job import Job, check_fit, check_volumes, most_running, traffic
from jaxsched.envs.mlfs.simulator.prediction import Errors, predicted_stops, predicted_times
from jaxsched.errors import JaxschedError
from jaxsched.jobs import NO_SUBMISSION, JobTable, validate
from jaxsched.jobs.columns import to_length
from jaxsched.ops.arrays import to_device
from jaxsched.ops.bisection import count_from
from jaxsched.ops.bootstrap import redraw_arrivals
from jaxsched.types import Array, PRNGKey

SLOT_S = 60
NEVER = 2**30
CAP = 5_000_000  # of a priority's parts

WEIGHTS = {
    "importance_share": 30,
    "children_share": 80,
    "deadline_weight": 30,
    "remaining_weight": 30,
    "waiting_weight": 35,
}
"""Of the priorities, in per cent: alpha, gamma, g_d, g_r and g_w of section 3.1."""
MOST_WEIGHT = {
    "importance_share": 100,
    "children_share": 107,
    "deadline_weight": 1000,
    "remaining_weight": 1000,
    "waiting_weight": 1000,
}
"""Accepted at most; children_share times four capped children fits in int32."""
REWARD_WEIGHTS = {
    "completion_reward": 0.5,
    "deadline_reward": 0.55,
    "traffic_cost": 0.25,
    "target_reward": 0.15,
    "accuracy_reward": 0.15,
}
"""Of the reward: b1 to b5 of section 6, betas of Eq. 7."""


SCALARS = Job._fields[:-3]
NUM_SCALARS = len(SCALARS)
SUBMIT_MIN, DEADLINE_MIN = SCALARS.index("submit_min"), SCALARS.index("deadline_min")


class Params(NamedTuple):
    """Everything about MLFS that may vary without recompiling.

    Attributes:
      rows: int32 ``[T + 1, F]``, jobs as ``Job`` has them; the last row is nobody's.
      acc_max: float32 ``[T + 1]``, accuracy after infinitely many iterations.
      submit_s: int32 ``[T + 1]``, submission times.
      offset: int32 ``[E]``, first row of an episode.
      num_jobs: int32 ``[E]``.
      traffic_mb: float32 ``[E]``, B_max of the reward, MB.
      places: int32 ``[J]``; its length is what counts.
      running: int32 ``[R]``; its length is what counts.
      importance_share: int32, per cent of importance in a priority (alpha); the rest is urgency in
        time.
      children_share: int32, per cent of the children's priority (gamma).
      deadline_weight: int32, per cent of the deadline term (g_d).
      remaining_weight: int32, per cent of the remaining-time term (g_r).
      waiting_weight: int32, per cent of the waiting term (g_w).
      reward_weights: float32 ``[5]``, in the order of ``REWARD_WEIGHTS``.
      options: options of the dynamics by name, in place of the environment's, so that environments
        share a program (``late_options.py``); None: there are none.
    """

    rows: Array
    acc_max: Array
    submit_s: Array
    offset: Array
    num_jobs: Array
    traffic_mb: Array
    places: Array
    running: Array
    importance_share: Array
    children_share: Array
    deadline_weight: Array
    remaining_weight: Array
    waiting_weight: Array
    reward_weights: Array
    options: dict[str, Any] | None = None

    @property
    def max_jobs(self) -> int:
        """J."""
        return self.places.shape[0]

    @property
    def max_running(self) -> int:
        """R."""
        return self.running.shape[0]


def build_params(
    job_tables: Sequence[JobTable],
    cluster: Cluster,
    *,
    comm_rounds: int,
    errors: Errors,
    window: int,
    slot_offers: int,
    scalars: dict[str, float],
) -> Params:
    """Parameters for these job tables, each an episode.

    Args:
      job_tables: of the schema ``TASK_JOBS``, in order of submission.
      cluster: what every task must fit.
      comm_rounds: communications of an iteration.
      errors: of predictions.
      window: jobs that can be active.
      slot_offers: tasks that can be placed in a slot.
      scalars: values for some of ``WEIGHTS`` and ``REWARD_WEIGHTS``.

    Raises:
      JaxschedError: no tables, a table that the cluster cannot run or whose numbers would not
        fit in int32, or a bad value.
    """
    if not job_tables:
        raise JaxschedError("mlfs: there are no job tables; accepted: at least one")
    values = _checked_scalars(scalars)
    numbers = comm_rounds, errors, slot_offers
    packed = [_packed(table, cluster, *numbers) for table in job_tables]
    rows = np.concatenate([*packed, np.zeros((1, packed[0].shape[1]), np.int64)])
    counts = np.array([len(part) for part in packed])
    accuracy = np.concatenate([*(table["acc_max"] for table in job_tables), [0.0]])
    submitted = np.concatenate([*(table["submit_time"] for table in job_tables), [0]])
    sent = [traffic(unpack(part)) for part in packed]
    at_once = min(window * MAX_TASKS, most_running(unpack(rows[:-1]), cluster))
    return Params(
        rows=to_device(rows, jnp.int32),
        acc_max=to_device(accuracy, jnp.float32),
        submit_s=to_device(submitted, jnp.int32),
        offset=to_device(np.cumsum(counts) - counts, jnp.int32),
        num_jobs=to_device(counts, jnp.int32),
        traffic_mb=to_device(sent, jnp.float32),
        places=to_device(np.arange(int(counts.max())), jnp.int32),
        running=to_device(np.arange(at_once), jnp.int32),
        reward_weights=to_device([values[name] for name in REWARD_WEIGHTS], jnp.float32),
        **{name: jnp.int32(values[name]) for name in WEIGHTS},
    )


def scalars_at(jobs: Job, index: Any) -> Job:
    """``jobs`` with every field but the lists indexed."""
    return jobs._replace(**{name: getattr(jobs, name)[index] for name in SCALARS})


def as_columns(jobs: Job) -> Job:
    """Jobs ``[A]`` as ``[A, 1]``, to go with tasks ``[A, K]``; lists stay as they are."""
    return scalars_at(jobs, (slice(None), None))


def unpack(rows: Any) -> Job:
    """Packed rows ``[..., F]`` as ``Job``."""
    scalars = [rows[..., column] for column in range(NUM_SCALARS)]
    lists = [
        rows[..., NUM_SCALARS + MAX_PARTITIONS * k : NUM_SCALARS + MAX_PARTITIONS * (k + 1)]
        for k in range(3)
    ]
    return Job(*scalars, *lists)


def jobs_at(params: Params, episode: Array, job: Array) -> Job:
    """Jobs of an episode by their place in it, ``job`` int32 ``[...]`` (nobody's where < 0)."""
    index = index_of(params, episode, job, job >= 0)
    return unpack(params.rows.at[index].get(mode="promise_in_bounds"))


def accuracy_at(params: Params, episode: Array, job: Array) -> Array:
    """``acc_max`` of jobs ``job`` (int32 ``[...]``), float32 ``[...]``."""
    index = index_of(params, episode, job, job >= 0)
    return params.acc_max.at[index].get(mode="promise_in_bounds")


def submit_slot(params: Params, episode: Array, job: Array) -> Array:
    """First slot of one job, int32; ``NEVER`` beyond the episode's last."""
    there = job < params.num_jobs.at[episode].get(mode="promise_in_bounds")
    index = index_of(params, episode, job, there)
    return jnp.where(there, params.rows.at[index, 0].get(mode="promise_in_bounds"), NEVER)


def submitted_by(params: Params, episode: Array, slot: Array, known: Array) -> Array:
    """How many jobs can be admitted in ``slot`` or before, int32; at least ``known``."""
    return count_from(known, params.max_jobs, lambda job: submit_slot(params, episode, job) <= slot)


def resampled(
    key: PRNGKey, params: Params, episode: Array, submitted: Array, slot: Array
) -> Params:
    """Parameters of an episode alone, its jobs from ``submitted`` on drawn anew after ``slot``.

    They are a bootstrap of the episode's jobs and gaps; each keeps the time to its deadline.
    """
    count = params.num_jobs[episode]
    places = jnp.append(params.places, params.max_jobs)
    index = index_of(params, episode, places, places < count)
    rows, accuracy = params.rows[index], params.acc_max[index]
    submit, source = redraw_arrivals(
        key, params.submit_s[index], submitted, count, slot * SLOT_S, NO_SUBMISSION - 1
    )
    jobs = rows[source]
    times = _times_of(submit)
    ahead = jobs[:, DEADLINE_MIN] - jobs[:, SUBMIT_MIN]
    times["deadline_min"] = times["submit_min"] + ahead
    for name, values in times.items():
        jobs = jobs.at[:, SCALARS.index(name)].set(values)
    return params._replace(
        rows=jobs,
        acc_max=accuracy[source],
        submit_s=submit,
        offset=jnp.zeros(1, jnp.int32),
        num_jobs=count[None],
        traffic_mb=params.traffic_mb[episode][None],
    )


def _times_of(submit_time: Any) -> dict[str, Any]:
    """``submit_slot`` and ``submit_min`` of jobs submitted at these seconds."""
    return {"submit_slot": -(-submit_time // SLOT_S), "submit_min": submit_time // SLOT_S}


def index_of(params: Params, episode: Array, job: Array, there: Array) -> Array:
    """Rows of jobs of an episode; nobody's where they are not ``there``."""
    offset = params.offset.at[episode].get(mode="promise_in_bounds")
    return jnp.where(there, offset + job, params.rows.shape[0] - 1)


def _checked_scalars(scalars: dict[str, float]) -> dict[str, float]:
    known = {**WEIGHTS, **REWARD_WEIGHTS}
    for name, value in scalars.items():
        if name not in known:
            raise JaxschedError(
                f"mlfs: there is no parameter {name!r}; accepted: {', '.join(known)}"
            )
        if name in REWARD_WEIGHTS:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (number and 0 <= value < float("inf")):
                raise JaxschedError(f"mlfs: {name} is {value!r}; accepted: a number from 0 on")
            continue
        most = MOST_WEIGHT[name]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not (whole and 0 <= value <= most):
            raise JaxschedError(
                f"mlfs: {name} is {value!r}; accepted: a whole number from 0 to {most} (per cent)"
            )
    return known | scalars


def _packed(
    table: JobTable, cluster: Cluster, comm_rounds: int, errors: Errors, slot_offers: int
) -> np.ndarray:
    """The table's rows, int64 ``[n, F]``, if the cluster can run each of them."""
    validate(table, schema=TASK_JOBS, from_zero=False)
    problem = graph.problem_with(table)
    if problem is not None:
        raise JaxschedError(f"table '{table.name}', job {problem.job}: {problem.reason}")
    replicas, partitions, width = graph.graph_shape(table["model"], table["num_gpus"])
    work, size = (_all_partitions(table, name) for name in ("work", "size"))
    times = dict(
        critical=graph.critical_path(table["work"], partitions, width),
        total_work=graph.total_work(table["work"], replicas),
        tail=graph.tails(table["work"], partitions, width),
    )
    scalars = predicted_times(table, times, errors.run_time)
    tail = scalars.pop("tail")
    scalars |= dict(
        **_times_of(table["submit_time"]),
        **predicted_stops(table, errors.accuracy),
        deadline_min=table["deadline"] // SLOT_S,
        worker_mb=comm_rounds * table["vol_worker"],
        server_mb=comm_rounds * table["vol_ps"],
        partitions=partitions,
        width=width,
    )
    columns = [scalars[name] if name in scalars else table[name] for name in SCALARS]
    rows = np.concatenate([np.stack(columns, axis=-1), work, size, tail], axis=-1)
    check_fit(table, unpack(rows), cluster)
    check_volumes(table, unpack(rows), slot_offers)
    return rows


def _all_partitions(table: JobTable, name: str) -> np.ndarray:
    """A list column as ``[n, P]``; tasks of SVM all belong to the first partition."""
    padded = to_length(table[name], MAX_PARTITIONS)
    return np.where((table["model"] == graph.SVM)[:, None], padded[:, :1], padded)
