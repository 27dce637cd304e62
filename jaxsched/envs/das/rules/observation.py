"""What the two agents of DAS see, what that implies, and what critics may see in training.

Observations are those of the specification, section 4. With ``DAS.estimates`` they tell how long
jobs of the same group and user took: a group is what a trace calls jobs that repeat one another
(the same script, submitted again); a user has several. A scheduler sees the run times of finished
jobs, so it can estimate that of a waiting one: the mean logarithm over its group, drawn towards
that of its user, which is drawn towards that of all jobs, by the weight of one job each (Weng et
al., MLaaS in the Wild, NSDI 2022, section 5.2, predict durations from group and user).

Critics may see all work that waits, runs and comes: run times are the true ones, which no policy
sees; contention is left out.

Axes: ``N`` positions of the window (the specification's slots), ``M`` machines, ``R`` running jobs,
``J`` jobs of the longest episode, ``T`` jobs of all tables; ``K`` = 1 + groups + users, what is
told apart (the first one: all jobs), or classes of work.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.das.rules import (
    CPUS,
    DURATION,
    GPUS,
    INSTANCES,
    MEM,
    NUM_GPUS,
    SUBMIT,
    Params,
    pick,
    row_of,
    submitted_by,
)
from jaxsched.envs.das.rules.dynamics import State, real_positions, still_pending
from jaxsched.envs.das.rules.machines import Cluster, Running
from jaxsched.envs.das.rules.placement import Demand, fitting
from jaxsched.types import Array, Feature

ESTIMATE_NAMES = ("run", "user_run", "evidence", "user_evidence")
LOG2_SCALE = 18.0  # of run times in s: 2**18 s are three days
PRIOR_LOG2 = 10.75  # of a first job: 29 minutes, the workloads' median


def nothing_seen(params: Params) -> Array:
    """No job has finished, float32 ``[K, 2]``: how many did, and the sum of log2 of their runs."""
    assert params.known is not None
    return jnp.zeros((params.known.shape[0], 2), jnp.float32)


def learnt(params: Params, episode: Array, running: Running, finish: Array, seen: Array) -> Array:
    """``seen`` with the jobs that finished since the decision.

    Args:
      params: the environment's.
      episode: int32.
      running: the running table right after the decision.
      finish: int32 ``[R]``, when its jobs finished, -1 where they did not.
      seen: before.
    """
    done = finish >= 0
    run = jnp.log2(jnp.maximum(finish - running.start, 1).astype(jnp.float32))
    amount = jnp.where(done[:, None], jnp.stack([jnp.ones_like(run), run], axis=-1), 0.0)
    group, user = _owners(params, episode, running.job)
    everyone = seen[0] + jnp.sum(amount, axis=0)
    return seen.at[group].add(amount).at[user].add(amount).at[0].set(everyone)


def estimates(params: Params, episode: Array, job: Array, seen: Array) -> Array:
    """What is shown of jobs ``[N]`` of an episode, float32 ``[N, 4]``: ``ESTIMATE_NAMES``.

    The estimated log2 of the run time (s) from the group's finished jobs and from the user's, both
    over ``LOG2_SCALE``; n / (n + 1) of how many finished in the group, and likewise of the user.
    """
    group, user = _owners(params, episode, job)
    overall = (seen[0, 1] + PRIOR_LOG2) / (seen[0, 0] + 1.0)
    of_user, of_group = seen[user], seen[group]
    by_user = (of_user[:, 1] + overall) / (of_user[:, 0] + 1.0)
    by_group = (of_group[:, 1] + by_user) / (of_group[:, 0] + 1.0)
    shares = [of[:, 0] / (of[:, 0] + 1.0) for of in (of_group, of_user)]
    return jnp.stack([by_group / LOG2_SCALE, by_user / LOG2_SCALE, *shares], axis=-1)


def _owners(params: Params, episode: Array, job: Array) -> tuple[Array, Array]:
    """Places of groups and users of jobs; 0 where there is no such job."""
    assert params.owners is not None
    count = params.num_jobs[episode]
    there = (job >= 0) & (job < count)
    index = jnp.where(there, params.offset[episode] + job, params.owners.shape[0] - 1)
    group, user = params.owners.at[index].get(mode="promise_in_bounds").T
    return group, user


INSTANCE_SCALE = 64.0
DAY_S = 86400.0
JOB_NAMES = ("instances", "gpus", "cpus", "memory", "age")
MACHINE_NAMES = ("free_cpus", "free_gpus", "free_memory", "free_bandwidth", "used_gpus")


class Observation(NamedTuple):
    """One observation.

    Attributes:
      jobs: float32 ``[N, 5]``, the entries of ``JOB_NAMES``; 0 in positions that are not real.
        With ``DAS.estimates`` those of ``owners.ESTIMATE_NAMES`` follow.
      machines: float32 ``[M, 5]``, the entries of ``MACHINE_NAMES``, each a share.
      real: bool ``[N]``, positions that hold a pending job; none where no decision is due.
      number: int32 ``[N]``, places of the jobs in the episode, so that a history can follow a job
        from position to position; no feature. None without ``DAS.numbers``.
    """

    jobs: Array
    machines: Array
    real: Array
    number: Array | None = None

    def narrowed(self, width: int) -> "Observation":
        """Of the first positions alone; any batch axes."""
        number = None if self.number is None else self.number[..., :width]
        return Observation(self.jobs[..., :width, :], self.machines, self.real[..., :width], number)


def features(cluster: Cluster, estimates: bool) -> dict[str, Feature]:
    """Meaning and unit of each kind of entry."""
    named = (
        Feature("estimated run time, from its group", "log2 of s", LOG2_SCALE),
        Feature("estimated run time, from its user", "log2 of s", LOG2_SCALE),
        Feature("n / (n + 1) of n finished jobs of its group", "", 1.0),
        Feature("n / (n + 1) of n finished jobs of its user", "", 1.0),
    )
    more = zip(ESTIMATE_NAMES, named, strict=True) if estimates else ()
    return {
        **{f"position*.{name}": feature for name, feature in more},
        "position*.instances": Feature("instances of the job", "instances", INSTANCE_SCALE),
        "position*.gpus": Feature("of each instance", "GPUs", cluster.gpus_per_server),
        "position*.cpus": Feature("of each instance", "CPUs", cluster.cpus_per_server),
        "position*.memory": Feature("of each instance", "GB", cluster.mem_per_server),
        "position*.waiting": Feature("whether the position holds a waiting job", "1 or 0"),
        "position*.number": Feature("place of the job in the episode", ""),
        "position*.age": Feature("since submission", "s", DAY_S),
        "machine*.free_cpus": Feature("free", "CPUs", cluster.cpus_per_server),
        "machine*.free_gpus": Feature("free", "GPUs", cluster.gpus_per_server),
        "machine*.free_memory": Feature("free", "GB", cluster.mem_per_server),
        "machine*.free_bandwidth": Feature("not in use", "Gbps", cluster.bandwidth_per_server),
        "machine*.used_gpus": Feature("in use", "GPUs", cluster.gpus_per_server),
    }


def observe(cluster: Cluster, state: State) -> Observation:
    """The observation of a state."""
    real, rows = real_positions(state), state.window.rows
    scales = zip((INSTANCES, GPUS, CPUS, MEM), (INSTANCE_SCALE, *cluster.capacity), strict=True)
    shares = [rows[column].astype(jnp.float32) / scale for column, scale in scales]
    age = (state.time - state.window.submit).astype(jnp.float32) / DAY_S
    jobs = jnp.where(real[:, None], jnp.stack([*shares, age], axis=-1), 0.0)

    gpus, cpus, mem = cluster.free(state.used)
    busy = cluster.net_per_gpu * cluster.amount(state.used, 3)
    bandwidth = jnp.maximum(cluster.bandwidth_per_server - busy, 0.0) / cluster.bandwidth_per_server
    machines = jnp.stack(
        [
            cpus / cluster.cpus_per_server,
            gpus / cluster.gpus_per_server,
            mem / cluster.mem_per_server,
            bandwidth,
            1.0 - gpus / cluster.gpus_per_server,
        ],
        axis=-1,
    )
    return Observation(jobs, machines, real)


class Recovered(NamedTuple):
    """Whole numbers as float32; rows of dummy positions are zero, and nothing fits for them.

    Attributes:
      instances: ``[N]``, C.
      requests: ``[N, 3]``, GPUs, CPUs and GB of each instance.
      wait_s: ``[N]``, seconds since submission.
      free: ``[M, 3]``, free GPUs, CPUs and GB.
      fit: ``[N, M]``, instances of the job that fit on the machine.
      real: bool ``[N]``.
    """

    instances: Array
    requests: Array
    wait_s: Array
    free: Array
    fit: Array
    real: Array

    @property
    def num_gpus(self) -> Array:
        """GPUs of each job, ``[N]``."""
        return self.instances * self.requests[:, 0]


def recover(cluster: Cluster, observation: Observation) -> Recovered:
    """What one observation implies (no batch axes; use ``vmap``): the scaling undone.

    Entries are whole numbers divided by constants, so all of it is exact.
    """
    real = observation.real
    jobs = jnp.where(real[:, None], observation.jobs, 0.0)
    capacity = jnp.array(cluster.capacity, jnp.float32)
    machines = observation.machines
    requests = jnp.round(jobs[:, 1:4] * capacity)
    free = jnp.round(jnp.stack([machines[:, 1], machines[:, 0], machines[:, 2]], -1) * capacity)
    instances = jnp.round(jobs[:, 0] * INSTANCE_SCALE)
    gpus, cpus, mem = free.T
    fit = fitting((gpus, cpus, mem), Demand(instances, *requests.T)).T
    return Recovered(
        instances=instances,
        requests=requests,
        wait_s=jnp.round(jobs[:, 4] * DAY_S),
        free=free,
        fit=jnp.where(real[:, None], fit, 0.0),
        real=real,
    )


HOUR_S = 3600.0
CLASSES = 8
"""Of work: below one GPU-hour, below two, four, ..., and any more."""
WITHIN_S = np.array([0.5, 1, 2, 4, 8, 16]) * HOUR_S
"""Times from now until which GPUs are freed and jobs come."""
JOBS = 64.0


def privileged_state(cluster: Cluster, state: State, params: Params) -> Array:
    """The rest of the state, float32 ``[2 * 8 + 4 + 3 * 6]``.

    Of waiting jobs, the window's and those behind it, by class of work (run time times GPUs): how
    many (per 64), and their work in hours of the whole cluster. Mean time in hours that they would
    take if the whole cluster worked on the least work first; the same of waiting and running jobs;
    running jobs (per 64); share of the jobs still to come. And within 0.5, 1, 2, 4, 8 and 16 hours:
    the share of the GPUs that running jobs free, jobs that come (per 64), and their work in hours
    of the cluster.
    """
    num_gpus = float(cluster.num_servers * cluster.gpus_per_server)
    episode, count = state.episode, pick(params.num_jobs, state.episode)
    places = params.places
    rows = row_of(params, episode, places)
    work = rows[DURATION].astype(jnp.float32) * rows[NUM_GPUS].astype(jnp.float32)
    known = submitted_by(params, episode, state.time, state.submitted)
    waits = still_pending(state, params.max_jobs)[:-1] & (places < known)

    running = state.running
    runs = running.job >= 0
    left_s = jnp.where(runs, running.left, 0).astype(jnp.float32) / 100.0
    left_s = jnp.maximum(
        left_s - running.speed.astype(jnp.float32) / 100.0 * (state.time - state.since), 0.0
    )
    remaining = left_s * running.num_gpus.astype(jnp.float32)

    waiting = _by_class(work, waits)
    both = waiting + _by_class(remaining, runs)
    frees = jnp.where(
        runs & (left_s <= WITHIN_S[:, None]), running.num_gpus.astype(jnp.float32), 0.0
    )
    comes = (places >= known) & (rows[SUBMIT] - state.time <= WITHIN_S[:, None])
    return jnp.concatenate(
        [
            waiting[0] / JOBS,
            waiting[1] / HOUR_S / num_gpus,
            jnp.stack(
                [
                    _least_first(waiting) / HOUR_S / num_gpus,
                    _least_first(both) / HOUR_S / num_gpus,
                    jnp.sum(runs) / JOBS,
                    (count - known) / jnp.maximum(count, 1),
                ]
            ),
            jnp.sum(frees, axis=-1) / num_gpus,
            jnp.sum(comes, axis=-1) / JOBS,
            jnp.sum(jnp.where(comes, work, 0.0), axis=-1) / HOUR_S / num_gpus,
        ]
    ).astype(jnp.float32)


def _by_class(work: Array, counts: Array) -> Array:
    """How many jobs and how much work (GPU-seconds) by class of work, float32 ``[2, K]``."""
    most = np.append(HOUR_S * 2.0 ** np.arange(CLASSES - 1), np.inf)
    least = np.append(0.0, most[:-1])
    belongs = counts & (work >= least[:, None]) & (work < most[:, None])
    number = jnp.sum(belongs, axis=-1, dtype=jnp.float32)
    return jnp.stack([number, jnp.sum(jnp.where(belongs, work, 0.0), axis=-1)])


def _least_first(by_class: Array) -> Array:
    """Mean GPU-seconds until a job is done, one after another, those of a class being alike."""
    number, work = by_class
    before = jnp.cumsum(work) - work
    total = jnp.sum(number * before + work * (number + 1.0) / 2.0)
    return total / jnp.maximum(jnp.sum(number), 1.0)
