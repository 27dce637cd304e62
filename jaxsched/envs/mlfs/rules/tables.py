"""Job tables of MLFS on the device: packed rows shared by all episodes, and what follows from jobs.

A job is one row of integers, so that a single gather brings everything about it; an episode is a
range of rows.

The paper stops jobs (MLF-C) by predicted accuracies, right to 90 %, and orders them by predicted
run times, right to 89 % for jobs seen before and to 70 % for others (CoNEXT '20). Here both are
known, so a prediction is the truth times ``1 + e`` with an error ``e`` of each job's own. A job is
stopped at the first iteration whose predicted accuracy is the one asked for.

Axes: ``T`` jobs of all tables, ``E`` episodes, ``J`` jobs of the longest episode, ``R`` tasks that
can run at the same time, ``n`` jobs of a table, ``P`` = 16 partitions.
"""

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs import jobs as graph
from jaxsched.envs.mlfs.jobs import INT32_LIMIT, MAX_PARTITIONS, MAX_TASKS, TASK_JOBS
from jaxsched.envs.mlfs.rules import FULL, Cluster
from jaxsched.errors import JaxschedError
from jaxsched.jobs import NO_SUBMISSION, JobTable, validate
from jaxsched.jobs.columns import to_length
from jaxsched.ops.arrays import to_device
from jaxsched.ops.bisection import count_from
from jaxsched.ops.bootstrap import redraw_arrivals
from jaxsched.types import Array, PRNGKey

LEAST_WAVE, MOST_WAVE = 800, 1200  # pm, of the measured demand


class Job(NamedTuple):
    """What the table knows of jobs, int32 ``[...]``; lists are ``[..., P]``.

    Attributes:
      submit_slot: first slot in which the job can be admitted.
      submit_min: minutes, rounded down.
      deadline_min: minutes, rounded down.
      num_gpus: number of tasks.
      model: id.
      iterations: I_max.
      req_iter: iterations to the accuracy target.
      stop_optimal: iterations to 99 % of the final accuracy, as MLF-C predicts them.
      stop_target: iterations to the accuracy target, likewise.
      gpu_demand: pm of one GPU for each task.
      cpus: of each task.
      mem: GB of each task.
      worker_mb: MB between two tasks in an iteration.
      server_mb: MB between a root or sink and the parameter server in an iteration.
      urgency: 1..10.
      curve_a: 1000 a of the accuracy curve.
      option: of MLF-C.
      allow: of MLF-C.
      partitions: P of the job.
      width: w, partitions of a layer.
      critical: cp, mmin.
      total_work: of all tasks, mmin.
      work: mmin of a task of each partition.
      size: pm of the model's parameters.
      tail: mmin, of the layers below the partition's.
    """

    submit_slot: Array
    submit_min: Array
    deadline_min: Array
    num_gpus: Array
    model: Array
    iterations: Array
    req_iter: Array
    stop_optimal: Array
    stop_target: Array
    gpu_demand: Array
    cpus: Array
    mem: Array
    worker_mb: Array
    server_mb: Array
    urgency: Array
    curve_a: Array
    option: Array
    allow: Array
    partitions: Array
    width: Array
    critical: Array
    total_work: Array
    work: Array
    size: Array
    tail: Array


def check_fit(table: JobTable, jobs: Job, cluster: Cluster) -> None:
    """Every task fits an idle server at its largest demand.

    Raises:
      JaxschedError: one does not.
    """
    limit = cluster.overload
    needs = {
        "gpu_demand": (jobs.gpu_demand, MOST_WAVE * jobs.gpu_demand // FULL, "pm of a GPU"),
        "cpus": (jobs.cpus, MOST_WAVE * jobs.cpus // cluster.cpus, f"of {cluster.cpus} CPUs"),
        "mem": (jobs.mem, FULL * jobs.mem // cluster.mem, f"of {cluster.mem} GB"),
    }
    for name, (amount, share, unit) in needs.items():
        bad = np.flatnonzero((share > limit) | ((name == "gpu_demand") & (amount <= 0)))
        if bad.size:
            raise JaxschedError(
                f"table '{table.name}', job {bad[0]}: {name} is {amount[bad[0]]} ({unit}); "
                f"accepted: above 0, and never more than {limit} pm of an idle server"
                if name == "gpu_demand"
                else f"table '{table.name}', job {bad[0]}: {name} is {amount[bad[0]]} {unit}; "
                f"accepted: never more than {limit} pm of an idle server"
            )


def check_volumes(table: JobTable, jobs: Job, slot_offers: int) -> None:
    """What a task sends in thousandths, and what a slot sends, fit in int32 (section 2).

    Raises:
      JaxschedError: it does not.
    """
    sent = graph.MAX_WIDTH * jobs.worker_mb + 2 * jobs.server_mb
    limits = {
        "1000 x MB sent for a task": FULL * sent,
        f"MB sent by {slot_offers} tasks in a slot": slot_offers * sent,
    }
    for name, value in limits.items():
        bad = np.flatnonzero(value >= graph.INT32_LIMIT // 2)
        if bad.size:
            raise JaxschedError(
                f"table '{table.name}', job {bad[0]}: {name} is {value[bad[0]]}; accepted: below "
                "2**30"
            )


def traffic(jobs: Job) -> float:
    """B_max: what all iterations of all jobs would send if nothing were local, MB."""
    layers = jobs.partitions // jobs.width
    replicas = jobs.num_gpus // jobs.partitions
    inner = (layers - 1) * jobs.width * jobs.width * jobs.worker_mb
    ends = 2 * jobs.width * jobs.server_mb
    return float(max(1, int(np.sum(jobs.iterations * replicas * (inner + ends)))))


def most_running(jobs: Job, cluster: Cluster) -> int:
    """Tasks that fit the cluster at once, however small those of the table are."""
    total = 0
    gpu, cpus, mem = (int(column.min()) for column in (jobs.gpu_demand, jobs.cpus, jobs.mem))
    measured = gpu * LEAST_WAVE // FULL
    for gpus in cluster.gpus:
        most = MAX_TASKS * len(jobs.mem)
        if measured:
            each = max(cluster.overload // measured, FULL // gpu)
            most = min(most, gpus * each)
        if cpus:
            fit = (cluster.cpus * (cluster.overload + 1) - 1) // (cpus * LEAST_WAVE)
            most = min(most, max(fit, cluster.cpus // cpus))
        if mem:
            fit = (cluster.mem * (cluster.overload + 1) - 1) // FULL
            most = min(most, max(fit, cluster.mem) // mem)
        total += most
    return total


LEAST_FACTOR = 0.05  # of a prediction to the truth
ACCURACY: tuple[int, ...] = ()
RUN_TIME: tuple[int, ...] = (1,)
"""Streams of errors."""


class Errors(NamedTuple):
    """Mean absolute errors of predictions, per cent of the truth.

    Attributes:
      accuracy: of accuracies, by which MLF-C stops jobs.
      run_time: of the time that iterations take.
    """

    accuracy: int = 0
    run_time: int = 0


def predicted_times(
    table: JobTable, times: dict[str, np.ndarray], error: int
) -> dict[str, np.ndarray]:
    """Work and paths of iterations as schedulers believe them, int64 of the same shapes.

    Args:
      table: of the schema ``TASK_JOBS``.
      times: ``[n]`` or ``[n, P]``, mmin of an iteration; "total_work" is that of all its tasks.
      error: mean absolute error, per cent; all times of a job are off by the same factor, as far as
        the work of all iterations stays below 2**31.
    """
    if error == 0:
        return times
    most = (INT32_LIMIT - 1) / ((table["iterations"] + 1) * times["total_work"])
    factor = np.minimum(_factors(table, error, RUN_TIME), most)
    columns = {1: factor, 2: factor[:, None]}
    return {
        name: np.where(time > 0, np.maximum(np.floor(time * columns[time.ndim]), 1), 0).astype(
            np.int64
        )
        for name, time in times.items()
    }


def predicted_stops(table: JobTable, error: int) -> dict[str, np.ndarray]:
    """Iterations at which MLF-C sees 99 % of the last accuracy and the target, int64 ``[n]``.

    Args:
      table: of the schema ``TASK_JOBS``.
      error: mean absolute error of predicted accuracies, per cent of them; normal, drawn from the
        table's own numbers, so that all policies meet the same ones.
    """
    true = {"stop_optimal": table["opt_iter"], "stop_target": table["req_iter"]}
    if error == 0:
        return true
    factor = _factors(table, error, ACCURACY)
    slope = table["curve_a"] / 1000
    return {
        name: _first_with(accuracy(slope * stop) / factor, slope, table["iterations"])
        for name, stop in true.items()
    }


def _factors(table: JobTable, error: int, stream: tuple[int, ...]) -> np.ndarray:
    """Predictions over the truth, ``[n]``; a stream for each thing predicted."""
    seed = zlib.crc32(np.ascontiguousarray(table["submit_time"], np.int64).tobytes())
    deviation = error / 100 * np.sqrt(np.pi / 2)
    draws = np.random.default_rng([seed, *stream]).normal(0.0, deviation, len(table))
    return np.maximum(1 + draws, LEAST_FACTOR)


def accuracy(progress: np.ndarray) -> np.ndarray:
    """Share of the last accuracy after ``a n`` of progress, in 0..1 (section 3.3)."""
    return progress / (1 + progress)


def _first_with(share: np.ndarray, slope: np.ndarray, iterations: np.ndarray) -> np.ndarray:
    """First iteration of at least so large a share; all iterations where none is."""
    reachable = share < 1
    needed = np.where(reachable, share, 0.0)
    first = np.ceil(needed / (1 - needed) / slope - 1e-9)
    return np.clip(np.where(reachable, first, iterations), 1, iterations).astype(np.int64)


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
      rows: int32 ``[T + 1, F]``, jobs as ``Job`` has them; the last row is no job's.
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
        share a program (``show.cases.shared``); None: there are none.
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


def with_room(params: Params, num_jobs: int, max_running: int) -> Params:
    """Parameters of the same episodes with room for more, so that their shapes are shared.

    Args:
      params: of some tables.
      num_jobs: jobs of each table at least; J.
      max_running: tasks that can run at once, at least; R.
    """
    num_jobs = max(num_jobs, params.max_jobs)
    rows = params.offset.shape[0] * num_jobs + 1

    def longer(values: Array, count: int) -> Array:
        more = max(count - values.shape[0], 0)
        return jnp.pad(values, [(0, more), *[(0, 0)] * (values.ndim - 1)])

    return params._replace(
        rows=longer(params.rows, rows),
        acc_max=longer(params.acc_max, rows),
        submit_s=longer(params.submit_s, rows),
        places=jnp.arange(num_jobs, dtype=jnp.int32),
        running=jnp.arange(max(max_running, params.max_running), dtype=jnp.int32),
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
    """Jobs at places of an episode, ``job`` int32 ``[...]``; the row of no job where < 0."""
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
    """Rows of jobs of an episode; the row of no job where they are not ``there``."""
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
