"""Golden cases of DAS (specification, section 14)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.policies import Policy, View, one_of
from jaxsched.core.trajectory import Step, Trajectory, record_trajectory
from jaxsched.envs.das.environment import DAS, Action, StepMetrics
from jaxsched.envs.das.heuristics import baseline, surrogate
from jaxsched.envs.das.jobs import CLUSTERS, GANG_JOBS, das_stream
from jaxsched.envs.das.rules import SCALARS, Params, with_room
from jaxsched.envs.das.rules.dynamics import State, real_positions
from jaxsched.envs.das.rules.observation import Observation
from jaxsched.envs.das.show import log
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, from_records
from jaxsched.networks import walk_process as wp
from jaxsched.systems.cases import (
    Content,
    Episode,
    keyed,
    list_of,
    listed_actions,
    options_of,
    whole_moment,
)
from jaxsched.traces.csv_tables import read_tables
from jaxsched.types import Array, PRNGKey, PyTree

GOLDEN_LENGTH = 24  # of walks, in cases
KEYS = (
    *("num_servers", "gpus_per_server", "cpus_per_server", "mem_per_server"),
    *("bandwidth_per_server", "window", "net_per_gpu", "spread_pct", "spread_cap", "net_pct"),
    *("cpu_pct", "on_no_fit", "reward_mode"),
)
OPTIONS = {key: DAS.former_options.get(key, key) for key in KEYS}
"""Options of the environment by their name in a case."""
WHOLE = ("finished", "steps")
LEAST_ROOM = 32  # jobs
HASH_RANGE = 1000
SALT_STEP = 1000003
TABLE_POLICIES = ("fifo_firstfit", "fifo_loadbalance", "drf_firstfit", "drf_loadbalance", "tetris")
SHIPPED_TABLE = "workload_20000.csv"
TABLE_METRICS = ("avg_jct_min", "avg_fee", "avg_inflation", "utilization", "makespan", "return")


def read(case: Mapping[str, Any]) -> Content:
    """A case that is an episode, by a policy or by actions, or a computation of another kind.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    others = {"surrogate": _surrogate, "table_results": table_results, "rwgp": walk_process_case}
    kind = case.get("kind", "episode")
    if kind in others:
        return partial(others[kind], case)
    if kind not in ("episode", "load_error"):
        raise JaxschedError(
            f"das: kind is {kind!r}; accepted: episode, load_error, {', '.join(others)}"
        )
    env, params = environment_of(case)
    policy, weights, count = _decided(env, case)
    if policy in (together := _of_tables(env)):
        policy, weights = one_of(together), jnp.int32(together.index(policy))
    result, name = partial(_result, int(params.num_jobs[0])), case.get("policy", "")
    return Episode(env, params, policy, result, weights, name, _row, count)


def environment_of(case: Mapping[str, Any]) -> tuple[DAS, Params]:
    """The environment of a case and the parameters of its job table, with room for more jobs."""
    options, numbers = options_of(case, OPTIONS, SCALARS)
    env = DAS(**options)
    table = from_records(list_of(case, "jobs"), schema=GANG_JOBS)
    params = env.params([table], **numbers)
    room = max(LEAST_ROOM, 1 << (params.max_jobs - 1).bit_length())  # cases share programs
    return env, with_room(params, room, room)


def _decided(env: DAS, case: Mapping[str, Any]) -> tuple[Policy, PyTree, int | None]:
    """Who decides, its weights, and how many actions are listed if they are."""
    if ("policy" in case) == ("actions" in case):
        raise JaxschedError("a case needs 'policy' or 'actions', one of both")
    if "policy" in case:
        return baseline(case["policy"], env), (), None
    actions = case["actions"]
    if isinstance(actions, Mapping):
        return _by_hash(env), jnp.uint32(salt_of(actions)), None
    listed = [
        listed_action(env, a, f"actions[{i}]") for i, a in enumerate(list_of(case, "actions"))
    ]
    unlisted = listed_action(env, {"priority": [], "affinity": []}, "actions")
    return *listed_actions(listed or [unlisted]), len(listed)


@cache
def _of_tables(env: DAS) -> tuple[Policy, ...]:
    """Those of ``TABLE_POLICIES`` that the cluster has, which are compiled as one program."""
    found = []
    for name in TABLE_POLICIES:
        with suppress(JaxschedError):
            found.append(baseline(name, env))
    return tuple(found)


def hash_values(a: Any, b: Any, c: Any) -> Array:
    """H(a, b, c), uint32 from 0 to 999 for each entry of the (broadcast) arguments."""
    mixed = jnp.uint32(0)
    for value, factor in ((a, 73856093), (b, 19349663), (c, 83492791)):
        mixed = mixed ^ (jnp.asarray(value, jnp.uint32) * jnp.uint32(factor))
    return (mixed >> 8) % jnp.uint32(HASH_RANGE)


def salt_of(actions: Mapping[str, Any]) -> int:
    """The salt of a case with hash actions.

    Raises:
      JaxschedError: there is none, or something else.
    """
    keyed(actions, "actions", ("hash_salt",))
    salt = actions.get("hash_salt")
    if not isinstance(salt, int) or isinstance(salt, bool) or not 0 <= salt < 2**31:
        raise JaxschedError(f"hash_salt is {salt!r}; accepted: a whole number from 0 on")
    return salt


@cache
def _by_hash(env: DAS) -> Policy:
    """Hash actions, whose weights are the salt, uint32."""
    position, machine = np.arange(env.window), np.arange(env.num_servers)

    def first(params: Params) -> Array:
        del params
        return jnp.uint32(0)

    def act(salt: Array, decision: Array, view: View, key: PRNGKey) -> tuple[Action, Array]:
        del view, key
        k = decision + jnp.uint32(SALT_STEP) * salt
        action = {
            "priority": hash_values(k, position, 0).astype(jnp.float32),
            "affinity": hash_values(k, position[:, None], 1 + machine).astype(jnp.float32),
        }
        return action, decision + 1

    return Policy("listed actions", first, act)


def listed_action(env: DAS, entry: Any, where: str) -> dict[str, np.ndarray]:
    """An action as a case lists it, for some positions or all; null stands for NaN.

    Raises:
      JaxschedError: not an object of a list and a list of lists of these sizes.
    """
    keyed(entry, where, ("priority", "affinity"))
    priority, affinity = entry.get("priority"), entry.get("affinity")
    sizes = isinstance(priority, list) and _is_matrix(affinity, env.num_servers)
    if not sizes or len(priority) != len(affinity) or len(priority) > env.window:
        raise JaxschedError(
            f"{where}: accepted: 'priority' of at most {env.window} numbers and as many rows of "
            f"{env.num_servers} numbers under 'affinity'"
        )
    try:
        values = np.array(priority, np.float32), np.array(affinity, np.float32)
    except (TypeError, ValueError) as error:
        raise JaxschedError(f"{where}: accepted: numbers and null; {error}") from None
    missing = env.window - len(priority)
    rows = values[1].reshape(-1, env.num_servers)
    return {
        "priority": np.pad(values[0], (0, missing)),
        "affinity": np.pad(rows, ((0, missing), (0, 0))),
    }


def _is_matrix(rows: Any, width: int) -> bool:
    return isinstance(rows, list) and all(isinstance(r, list) and len(r) == width for r in rows)


class Kept(NamedTuple):
    """What is kept of a step: what the agents saw, and what happened."""

    seen: Observation
    happened: StepMetrics
    reward: Array
    done: Array


def _row(env: DAS, step: Step, params: Params) -> Kept:
    del env, params
    told = step.timestep
    return Kept(step.observation, told.metrics, told.reward, told.done)


def _result(count: int, trajectory: Trajectory, metrics: dict[str, Any]) -> dict[str, Any]:
    kept: Kept | None = trajectory.moments
    steps = range(0 if kept is None else len(kept.done))
    rows = [_told(at, jax.tree.map(lambda leaf, at=at: leaf[at], kept)) for at in steps]
    return {"metrics": metrics, "jobs": _jobs(count, trajectory.records), "trajectory": rows}


def _told(step: int, kept: Kept) -> dict[str, Any]:
    """A step as the trajectory lists it."""
    happened, real = kept.happened, kept.seen.real
    order = happened.order[: int(real.sum())]
    ended = np.flatnonzero(happened.finish >= 0)
    ended = ended[np.lexsort((happened.running[ended], happened.finish[ended]))]
    return {
        "step": step,
        "time": int(happened.time),
        "window": happened.window[real].tolist(),
        "placed": happened.window[order[happened.placed[order]]].tolist(),
        "failed": happened.window[order[happened.failed[order]]].tolist(),
        "finished": happened.running[ended].tolist(),
        "reward": float(kept.reward),
        "done": bool(kept.done),
        "obs_jobs": kept.seen.jobs[real].tolist(),
        "obs_cluster": kept.seen.machines.tolist(),
    }


def _jobs(count: int, records: log.Records) -> list[dict[str, Any]]:
    """Start, finish (None before) and machines of each job."""
    start, finish, machines = (
        np.asarray(x)[:count] for x in (records.start, records.finish, records.machines)
    )
    return [
        {
            "start": whole_moment(s),
            "finish": whole_moment(f),
            "machines": [[int(m), int(row[m])] for m in np.flatnonzero(row)],
        }
        for s, f, row in zip(start, finish, machines, strict=True)
    ]


@partial(jax.jit, static_argnames="env")
def _scores(env: DAS, state: State, params: Params, action: Action) -> tuple[Array, Array, Array]:
    return surrogate(env, state, params, action)


def _before(env: DAS, step: Step, params: Params) -> State:
    del env, params
    state: State = step.before
    return state


def _surrogate(case: Mapping[str, Any]) -> dict[str, Any]:
    """Scores of the candidates that ``expect`` (or the case itself) lists."""
    env, params = environment_of(case)
    policy, weights, count = _decided(env, case)
    steps = case.get("steps", 0)
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 0:
        raise JaxschedError(f"steps is {steps!r}; accepted: a whole number from 0 on")
    if count is not None and count < steps:
        raise JaxschedError(f"the case lists {count} actions for {steps} steps; accepted: as many")
    states = record_trajectory(env, policy, log.recorder(env), params, _before, weights=weights,
                    most_steps=steps + 1, past_end=True).moments  # fmt: skip
    state = jax.tree.map(lambda leaf: leaf[-1], states)
    listed = list_of(case if "candidates" in case else case.get("expect", {}), "candidates")
    candidates = []
    for index, candidate in enumerate(listed):
        inputs = {key: candidate[key] for key in ("priority", "affinity") if key in candidate}
        action = listed_action(env, inputs, f"candidates[{index}]")
        f1, f2, cost = (float(x) for x in _scores(env, state, params, action))
        candidates.append({**inputs, "f1": f1, "f2": f2, "cost": cost})
    window = np.asarray(state.window.job)[np.asarray(real_positions(state))]
    return {"time": int(state.time), "window": window.tolist(), "candidates": candidates}


def walk_process_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """What a case of kind ``rwgp`` expects, in float64, from its inputs (section 14)."""
    config = case["config"]
    with jax.enable_x64(True):
        given = {name: jnp.asarray(value, jnp.float64) for name, value in case["inputs"].items()}
        scalars = {name: jnp.float64(config[name]) for name in ("rho", "beta", "sigma2")}
        found = _predicted(given, scalars, config["product"], config["kernel"])
        return {name: value.tolist() for name, value in found.items()}


@partial(jax.jit, static_argnames=("product", "kernel"))
def _predicted(
    given: dict[str, Array], scalars: dict[str, Array], product: wp.Product, kernel: wp.Kernel
) -> dict[str, Array]:
    """The process of a case: the graph of position 0, mean and covariance, density and entropy."""

    def features_of(jobs: Array, machines: Array) -> tuple[Array, Array]:
        graph = wp.machine_graph(jobs, machines, scalars["rho"], product)
        return graph, wp.kernel_features(graph, scalars["beta"], GOLDEN_LENGTH, "centred", kernel)

    valid = given["valid"] > 0
    _, past = features_of(given["shat_hist"], given["sc_hist"])
    graph, features = features_of(given["shat"], given["sc"])
    past = jnp.where(valid[..., None, None], past, 0.0)
    residual = jnp.where(valid[..., None], given["Y"] - given["mean_hist"], 0.0)
    seen = jax.tree.map(lambda x: jnp.sum(x, axis=0), wp.evidence(past, residual))
    weights = wp.posterior(seen, scalars["sigma2"])
    mean = wp.predict(weights, features, given["mean_now"])
    log_prob, entropy = wp.log_density(weights, features, mean, given["action"])
    covariance = wp.latent_covariance(weights, features)
    if kernel == "graph":  # the same variance for each machine, apart from others
        covariance = covariance * jnp.eye(mean.shape[-1], dtype=mean.dtype)
    return {
        "graph_now_slot0": graph[0],  # as the case files call it
        "mean": mean,
        "cov": covariance,
        "log_prob": log_prob,
        "entropy": entropy,
    }


def table_results(
    case: Mapping[str, Any],
    table: JobTable | None = None,
    *,
    segments: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Metrics of the heuristics on episodes cut from a long table.

    Args:
      case: with ``segment_starts`` and ``segment_length``; where its ``expect`` lists results (by
        cluster and policy, as ``small/tetris``), only those are found.
      table: the table; the one that the case names by default.
      segments: which of the episodes to play; all by default.
    """
    table = _named_table(case.get("table")) if table is None else table
    starts = list_of(case, "segment_starts")
    starts = starts if segments is None else [starts[index] for index in segments]
    length = case.get("segment_length")
    if not isinstance(length, int) or isinstance(length, bool):
        raise JaxschedError(f"segment_length is {length!r}; accepted: a whole number")
    known = [f"{cluster}/{policy}" for cluster in CLUSTERS for policy in TABLE_POLICIES]
    wanted = keyed(case.get("expect", dict.fromkeys(known)), "expect", known)
    found: dict[str, Any] = {}
    for cluster, num_servers in CLUSTERS.items():
        env = DAS(num_servers=num_servers)
        params = env.params([table], starts=starts, episode_jobs=length)
        for policy in TABLE_POLICIES:
            if f"{cluster}/{policy}" in wanted:
                values = play_heuristic(env, policy, params)
                found[f"{cluster}/{policy}"] = {key: values[key].tolist() for key in TABLE_METRICS}
    return found


def _named_table(name: Any) -> JobTable:
    """The table that a case names: the path of a file, or the name of the shipped one."""
    if name in (SHIPPED_TABLE, f"{SHIPPED_TABLE}.gz"):
        return das_stream()
    if not isinstance(name, str) or not Path(name).is_absolute():
        raise JaxschedError(
            f"table is {name!r}; accepted: {SHIPPED_TABLE}, or the whole path of a file"
        )
    tables = read_tables(name, schema=GANG_JOBS)
    if len(tables) != 1:
        raise JaxschedError(f"table: {name} holds {len(tables)} tables; accepted: one")
    return tables[0]


def play_heuristic(env: DAS, name: str, params: Params) -> dict[str, np.ndarray]:
    """Metrics of a heuristic on every episode of ``params``, float64 ``[E]``."""
    return log.play(env, baseline(name, env), params)
