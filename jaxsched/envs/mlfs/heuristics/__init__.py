"""How rules place the task on offer, and all tasks of a slot: by a rule, or by weights of pairs.

Rules choose a server for each offer (specification, sections 3.3 and 9). Weights choose which task
goes next and where in one choice, the pair of task and server of the highest score:

    worth = priority * exp(weights . what is known of the job and the task)
    score = worth * exp(-lost - weights . what is known of the pair)

``priority`` is MLF-H's (section 3.1), ``lost`` the time that the task would lose on that server by
communication and by a move, over its work. Without weights this takes the most urgent task, unless
one that is about as urgent loses less where there is room. Scores are evaluated again when their
turn comes, as servers fill; loads are those of the beginning of the slot. Weights are of jobs,
tasks and servers alike whatever their number. Tasks of the lowest worth leave overloaded servers.

Axes: ``A`` jobs, ``K`` places for tasks, ``S`` servers, ``R`` running tasks, ``W`` weights.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs import rules as cl
from jaxsched.envs.mlfs.jobs import MAX_TASKS, MODELS, SVM
from jaxsched.envs.mlfs.rules import FULL, LATE, Rules, div, first_least
from jaxsched.envs.mlfs.rules import offers as off
from jaxsched.envs.mlfs.rules.offers import Offered, ServerStatus
from jaxsched.envs.mlfs.rules.priority import Progress, progress_of, slots_left, spread
from jaxsched.envs.mlfs.rules.state import (
    DONE,
    NONE,
    RUNNING,
    WAITING,
    State,
    layer_of,
    num_layers,
    on_offer,
    parents_that,
    running_tasks,
    split,
)
from jaxsched.envs.mlfs.rules.tables import Job, Params, as_columns, jobs_at
from jaxsched.ops.batching import any_across_batch
from jaxsched.types import Array

SPREAD = tuple(MODELS.index(name) for name in ("AlexNet", "MLP"))
"""Models whose tasks Tiresias keeps together."""


Host = Callable[[Rules, Params, State, Offered], Array]
"""Server for the task on offer."""


def mlf_host(rules: Rules, params: Params, state: State, offer: Offered) -> Array:
    """The server nearest to the ideal one (section 3.3)."""
    del params, state
    usable = ~offer.status.overloaded
    distance = jnp.zeros(rules.cluster.num_servers, jnp.int32)
    for used in offer.status.used:
        distance += (used - jnp.min(jnp.where(usable, used, LATE))) ** 2
    share = offer.talk.local_share
    less = share - jnp.max(jnp.where(usable, share, 0))
    distance += jnp.where(rules.use_bandwidth, less**2, 0)
    delay = div(FULL * rules.move_work, jnp.maximum(offer.work + rules.move_work, 1))
    distance += jnp.where(offer.moves, delay, 0) ** 2
    return first_least(offer.valid, distance)


def least_loaded(rules: Rules, params: Params, state: State, offer: Offered) -> Array:
    """The server whose GPUs are least loaded on average."""
    del rules, params, state
    return first_least(offer.valid, _load(offer))


def tiresias_host(rules: Rules, params: Params, state: State, offer: Offered) -> Array:
    """AlexNet and MLP go where most of the job runs already, then to the least loaded."""
    del params
    of_job = split(state.running.task)[0] == offer.place
    count = _by_server(rules, state, of_job)
    together = jnp.any(offer.job.model == np.array(SPREAD, np.int32))
    most = jnp.max(jnp.where(offer.valid, count, -1))
    among = offer.valid & (~together | (count == most))
    return first_least(among, _load(offer))


def gandiva_host(rules: Rules, params: Params, state: State, offer: Offered) -> Array:
    """Servers that run jobs of the same size come first."""
    sizes = jobs_at(params, state.episode, state.active.job).num_gpus
    alike = sizes[split(state.running.task)[0]] == offer.job.num_gpus
    hosts = offer.valid & (_by_server(rules, state, alike) > 0)
    among = jnp.where(jnp.any(hosts), hosts, offer.valid)
    return first_least(among, _load(offer))


def _load(offer: Offered) -> Array:
    """Mean load of the servers' GPUs, rounded down."""
    return offer.status.used[0]


def _by_server(rules: Rules, state: State, chosen: Array) -> Array:
    """How many of the chosen running tasks each server has."""
    runs = chosen & (state.running.task != NONE)
    server = jnp.where(runs, state.running.server, rules.cluster.num_servers)
    return jnp.zeros(rules.cluster.num_servers, jnp.int32).at[server].add(1, mode="drop")


HOSTS: dict[str, Host] = {
    "mlf": mlf_host,
    "fair": least_loaded,
    "slaq": least_loaded,
    "tiresias": tiresias_host,
    "gandiva": gandiva_host,
    "graphene": least_loaded,
    "hypersched": least_loaded,
    "fifo": least_loaded,
}
"""Choice of servers by order."""


class Choice(NamedTuple):
    """What is done about an offer.

    Attributes:
      offer: the task.
      server: int32, its host.
      placed: bool, it runs there from now on.
      again: int32, priority at which it stays on offer where it is not placed, if it does.
    """

    offer: Offered
    server: Array
    placed: Array
    again: Array | None = None


def place_by_rule(rules: Rules, params: Params, state: State) -> State:
    """Step 4 as the order's own rule takes it: every offer is answered by ``HOSTS``.

    Args:
      rules: static options.
      params: of the episode.
      state: offers open, no task chosen.
    """
    host = HOSTS[rules.order]

    def choice(state: State, status: ServerStatus | None = None) -> Choice:
        offer = off.offered(rules, params, state, status)
        server = host(rules, params, state, offer)
        return Choice(offer, server, offer.valid[server])

    def step(at: tuple[State, Choice]) -> tuple[State, Choice]:
        # What the next choice reads comes after what this one writes: nothing has to be copied.
        state, (offer, server, placed, _) = at
        state = off.settled(rules, params, state, offer, server, placed)
        status = off.status_after(rules, offer.status, state.loads, server)
        return state, choice(state, status)

    state = off.with_next_offer(rules, params, state)
    # Nothing happens to a copy without an offer.
    return jax.lax.while_loop(
        lambda at: any_across_batch(at[0].offers.place != NONE), step, (state, choice(state))
    )[0]


JOB_WEIGHTS = (
    *("job_left", "path_left", "gpu_demand", "num_gpus", "running", "waiting", "attained"),
    *("progress", "late", "due_in_an_hour", "due_in_hours", "urgency", "on_target", "age"),
    *("done", "no_layers"),
)
TASK_WEIGHTS = ("begun", "waited", "layers_below", "work", "task_runs", "due_soon")
PAIR_WEIGHTS = (
    *("moved", "communication", "move", "remote"),
    *("gpu_use", "bandwidth_use", "mem_use"),
)
WEIGHTS = (*JOB_WEIGHTS, *TASK_WEIGHTS, *PAIR_WEIGHTS)
NUM_JOB, NUM_TASK = len(JOB_WEIGHTS), len(TASK_WEIGHTS)
FARTHEST = 12.0  # of exponents
MOVED, REMOTE = 2.0, 4.0  # of weights that make a difference when they are large
LEAST_WORTH = 0.5  # of priority 0; others are whole numbers
MOST_PAIRS = 2**16
"""Scores of so many pairs are all computed; of more, those of the tasks on offer alone."""
AT_ONCE = 256
"""Tasks whose scores are computed at once then."""


class Pairing(NamedTuple):
    """What scores of pairs in a slot are made of.

    Attributes:
      worth: float32 ``[A, K]``.
      server_cost: float32 ``[S]``.
      weights: float32, of ``PAIR_WEIGHTS``.
    """

    worth: Array
    server_cost: Array
    weights: Array


def worth_of(weights: Array, jobs: Job, state: State, priority: Array) -> Array:
    """Worth of every instance, float32 ``[A, K]``, above 0.

    Args:
      jobs: of the window.
      state: jobs admitted.
      priority: int32 ``[A, K]``, at most 2**24.
      weights: float32 ``[W]``.
    """
    progress = progress_of(jobs, state.active.iterations, state.active.limit)
    of_job = of_jobs(jobs, state, progress, weights[:NUM_JOB])
    of_task = of_tasks(jobs, state, progress, weights[NUM_JOB : NUM_JOB + NUM_TASK])
    exponent = jnp.clip(of_job[:, None] + of_task, -FARTHEST, FARTHEST)
    return jnp.maximum(priority.astype(jnp.float32), LEAST_WORTH) * jnp.exp(exponent)


def ordered(value: Array) -> Array:
    """Positive float32 as int32 in the same order."""
    return jax.lax.bitcast_convert_type(value, jnp.int32)


def of_jobs(jobs: Job, state: State, progress: Progress, weights: Array) -> Array:
    """Weighted sum of what is known of jobs, each about of size 1; float32 ``[A]``."""
    active, tasks = state.active, state.tasks
    slot = state.slot
    running = running_tasks(state.running, active.job.shape[0])
    left = slots_left(jobs, progress.after, jnp.int32(0), slot)
    size = jnp.maximum(jobs.num_gpus, 1)
    columns = [
        log_of(progress.residual) / 2.0 - 3.0,
        log_of((progress.after + 1) * (jobs.critical / FULL)) / 2.0 - 2.0,
        log_of(jobs.gpu_demand / 300.0, 1e-3),
        jnp.log2(size.astype(jnp.float32)) / 2.0 - 1.25,
        jnp.log1p(running.astype(jnp.float32)),
        jnp.log1p(count_of(tasks.state == WAITING)),
        jnp.log1p(active.attained.astype(jnp.float32)) / 4.0,
        progress.iteration / jnp.maximum(jobs.iterations, 1),
        left <= 0,
        soon(left, 60.0),
        soon(left, 360.0),
        jobs.urgency / 10.0,
        active.iterations >= jobs.req_iter,
        jnp.log1p(jnp.maximum(slot - jobs.submit_min, 0).astype(jnp.float32)) / 4.0,
        count_of(tasks.state == DONE) / size,
        jobs.model == SVM,
    ]
    return weighted(columns, weights)


def of_tasks(jobs: Job, state: State, progress: Progress, weights: Array) -> Array:
    """Weighted sum of what is known of tasks, float32 ``[A, K]``."""
    tasks, columns = state.tasks, as_columns(jobs)
    place = jnp.arange(MAX_TASKS, dtype=jnp.int32)
    work, tail = spread(jobs, jobs.work), spread(jobs, jobs.tail)
    layers = num_layers(columns)
    below = jnp.maximum(layers - 1 - layer_of(columns, place), 0)
    runs = tasks.state == RUNNING
    waited = jnp.where(tasks.state == WAITING, state.slot - tasks.since, 0)
    features = [
        (tasks.left > 0) | runs,
        jnp.log1p(waited.astype(jnp.float32)) / 4.0,
        below / jnp.maximum(layers, 1),
        log_of(work / 3000.0, 1e-3),
        runs,
        soon(slots_left(columns, progress.after[:, None], tail, state.slot), 60.0),
    ]
    return weighted(features, weights)


def weighted(features: Sequence[Array], weights: Array) -> Array:
    """Sum of features times weights, float32; one pass over each."""
    terms = [weight * feature for weight, feature in zip(weights, features, strict=True)]
    return reduce(jnp.add, terms)


def log_of(value: Array, least: float = 1.0) -> Array:
    """Natural logarithm of a value that is at least ``least``."""
    return jnp.log(jnp.maximum(value.astype(jnp.float32), least))


def soon(left: Array, span: float) -> Array:
    """1 just before a deadline, less before that, 0 after it; ``left`` in minutes."""
    return jnp.where(left > 0, jnp.exp(-left / span), 0.0)


def count_of(chosen: Array) -> Array:
    """How many of each job's tasks, float32 ``[A]``."""
    return jnp.sum(chosen, axis=-1, dtype=jnp.int32).astype(jnp.float32)


def order_by_weights(weights: Array, jobs: Job, state: State, priority: Array) -> Array:
    """Worth of every instance in place of its priority, in the same order; int32 ``[A, K]``."""
    return ordered(worth_of(weights, jobs, state, priority))


def place_by_weights(weights: Array, rules: Rules, params: Params, state: State) -> State:
    """Step 4: pairs are placed one at a time, the one of the highest score first.

    Args:
      weights: float32 ``[W]``.
      rules: static options.
      params: of the episode.
      state: offers open, no task chosen, priorities by ``order_by_weights``.
    """
    worth = jax.lax.bitcast_convert_type(state.tasks.priority, jnp.float32)
    at, step = opened(rules, params, state, pairing_of(rules, state, worth, weights))
    # Nothing happens to a copy without an offer.
    return jax.lax.while_loop(lambda at: any_across_batch(at[0].offers.place != NONE), step, at)[0]


Turn = tuple[State, Choice]
"""A state with an offer, and what is done about it."""


def opened(
    rules: Rules, params: Params, state: State, pairing: Pairing
) -> tuple[Turn, Callable[[Turn], Turn]]:
    """The state that offers the best pair's task, and the step to the next offer.

    A step places the task, or, if servers have filled since its score was found, finds it anew.
    """
    jobs = jobs_at(params, state.episode, state.active.job)
    status = off.status_of(rules, cl.all_servers(rules.cluster, state.loads))
    few = rules.cluster.num_servers * state.tasks.state.size <= MOST_PAIRS
    if few:
        scores = jnp.max(all_scores(rules, jobs, state, pairing), axis=0)
    else:
        scores = best_scores(rules, params, state, pairing, status)
    priority = jnp.where(scores > 0, ordered(scores), off.NONE)
    state = state._replace(tasks=state.tasks._replace(priority=priority))
    offers = off.open_offers(rules, jobs, state.active, state.tasks, state.loads, state.slot)

    def choice(state: State, status: ServerStatus) -> Choice:
        offer = off.offered(rules, params, state, status)
        score = offer_scores(rules, offer, pairing)
        server = jnp.argmax(score).astype(jnp.int32)
        now = jnp.where(score[server] > 0, ordered(score[server]), off.NONE)
        best = offer.there & (now >= state.tasks.priority[offer.place, offer.task])
        return Choice(offer, server, best, now)

    def step(at: Turn) -> Turn:
        state, (offer, server, placed, now) = at
        state = off.settled(rules, params, state, offer, server, placed, again=now)
        status = off.status_after(rules, offer.status, state.loads, server)
        return state, choice(state, status)

    state = off.with_next_offer(rules, params, state._replace(offers=offers))
    return (state, choice(state, status)), step


def best_scores(
    rules: Rules, params: Params, state: State, pairing: Pairing, status: ServerStatus
) -> Array:
    """Highest score of each task on offer, float32 ``[A, K]``; -1 where no server has room.

    As the largest of ``all_scores``, for as many tasks at once as are on offer and no others.
    """
    size = state.tasks.state.size
    asked = on_offer(state.tasks.state).reshape(-1)
    number = jnp.sum(asked, dtype=jnp.int32)
    rank = jnp.cumsum(asked, dtype=jnp.int32) - 1
    rows = jnp.arange(size, dtype=jnp.int32)
    found = jnp.full(size + AT_ONCE, size, jnp.int32)
    found = found.at[jnp.where(asked, rank, size + AT_ONCE)].set(rows, mode="drop")

    def best(task: Array) -> Array:
        place, inside = split(task)
        offers = state.offers._replace(place=place, task=inside)
        offer = off.offered(rules, params, state._replace(offers=offers), status)
        return jnp.max(offer_scores(rules, offer, pairing))

    def some(at: tuple[Array, Array]) -> tuple[Array, Array]:
        first, scores = at
        tasks = jax.lax.dynamic_slice(found, (first,), (AT_ONCE,))
        now = jax.vmap(best)(jnp.minimum(tasks, size - 1))
        return first + AT_ONCE, scores.at[tasks].set(now, mode="drop")

    scores = jax.lax.while_loop(
        lambda at: any_across_batch(at[0] < number),
        some,
        (jnp.int32(0), jnp.full(size, -1.0, jnp.float32)),
    )[1]
    return scores.reshape(state.tasks.state.shape)


def pairing_of(rules: Rules, state: State, worth: Array, weights: Array) -> Pairing:
    """What scores of this slot's pairs are made of."""
    own = weights[NUM_JOB + NUM_TASK :]
    used = cl.utilisation(rules.cluster, cl.all_servers(rules.cluster, state.loads)) / FULL
    cost = own[-3] * used[:, 0] + own[-2] * used[:, 3] + own[-1] * used[:, 2]
    return Pairing(worth, cost, own)


def possible_pairs(rules: Rules, jobs: Job, state: State) -> Array:
    """Tasks on offer and the servers that have room for them, bool ``[S, A, K]``."""
    servers = cl.all_servers(rules.cluster, state.loads)
    room = off.servers_with_room(rules, state.active, off.room_of(rules, servers))
    roomy = with_room(pair_classes(rules, jobs, state), jnp.moveaxis(room, -1, 1))
    return roomy & on_offer(state.tasks.state)


def pair_classes(rules: Rules, jobs: Job, state: State) -> Array:
    """Class of the estimated demand of all tasks, int32 ``[A, K]``."""
    place = jnp.arange(MAX_TASKS, dtype=jnp.int32)
    tasks, job = state.tasks, state.active.job[:, None]
    return off.class_of(
        rules, as_columns(jobs), job, tasks.state, state.slot, place, tasks.measured
    )


def with_room(classes: Array, room: Array) -> Array:
    """Tasks for which there is room, bool ``[..., A, K]``.

    Args:
      classes: of the tasks, ``[A, K]``.
      room: for tasks of each class and job, bool ``[C, ..., A]``.
    """
    valid = [(classes == index) & of_class[..., None] for index, of_class in enumerate(room)]
    return reduce(jnp.logical_or, valid)


def all_scores(rules: Rules, jobs: Job, state: State, pairing: Pairing) -> Array:
    """Scores of the pairs at the beginning of a slot, float32 ``[S, A, K]``; -1: no room."""
    which = np.arange(rules.cluster.num_servers, dtype=np.int32)[:, None, None]
    total, local = all_communication(rules, jobs, state)
    last = state.tasks.server.astype(jnp.int32)
    score = pair_scores(
        rules,
        pairing._replace(server_cost=pairing.server_cost[:, None, None]),
        pairing.worth,
        (total, local),
        spread(jobs, jobs.work),
        state.tasks.left,
        (last >= 0) & (last != which),
    )
    return jnp.where(possible_pairs(rules, jobs, state), score, -1.0)


def offer_scores(rules: Rules, offer: Offered, pairing: Pairing) -> Array:
    """Scores of the servers for the task on offer, float32 ``[S]``; -1: no room."""
    value = pairing.worth[offer.place, offer.task]
    talk = offer.talk.total_mb, offer.talk.local_mb
    score = pair_scores(rules, pairing, value, talk, offer.work, offer.left, offer.moves)
    return jnp.where(offer.valid, score, -1.0)


def pair_scores(
    rules: Rules,
    pairing: Pairing,
    worth: Array,
    talk: tuple[Array, Array],
    work: Array,
    left: Array,
    moved: Array,
) -> Array:
    """Scores of pairs, float32.

    Args:
      rules: static options.
      pairing: of the slot.
      worth: of the tasks.
      talk: MB that they send in all, and inside each server.
      work: of an instance, mmin.
      left: of a started one, mmin; 0 of others.
      moved: bool, the task ran elsewhere last.
    """
    moved_weight, communication_weight, move_weight, remote_weight = pairing.weights[:4]
    total, local = talk
    cross = total - local
    minutes = jnp.where(left == 0, off.sent_minutes(rules, cross), 0)
    work = jnp.maximum(work, 1)
    cost = (
        MOVED * moved_weight * moved
        + (1.0 + communication_weight) * (minutes / work)
        + (1.0 + move_weight) * jnp.where(moved, rules.move_work / work, 0.0)
        + REMOTE * remote_weight * (cross / jnp.maximum(total, 1))
        + pairing.server_cost
    )
    return worth * jnp.exp(-jnp.clip(cost, -FARTHEST, FARTHEST))


def all_communication(rules: Rules, jobs: Job, state: State) -> tuple[Array, Array]:
    """What every instance would send in all, MB, and inside each server, as ``communication``.

    Int32 ``[A, K]`` and ``[S, A, K]``.
    """
    columns = as_columns(jobs)
    place = jnp.arange(MAX_TASKS, dtype=jnp.int32)
    servers = np.arange(rules.cluster.num_servers, dtype=np.int32)[:, None]
    layer, layers = layer_of(columns, place), num_layers(columns)
    root, sink = layer == 0, layer == layers - 1
    ends_mb = columns.server_mb * (root.astype(jnp.int32) + sink)
    there_too = parents_that(jobs, state.tasks.server == servers[..., None])
    at_home = (state.active.home == NONE) | (state.active.home == servers)
    total = columns.worker_mb * jnp.where(root, 0, columns.width) + ends_mb
    return total, columns.worker_mb * there_too + jnp.where(at_home[..., None], ends_mb, 0)
