"""Golden cases of DAS (specification, section 14)."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.policies import Policy, View
from jaxsched.envs.das import records as rec
from jaxsched.envs.das.environment import DAS, Action
from jaxsched.envs.das.heuristics import baseline
from jaxsched.envs.das.jobs import GANG_JOBS
from jaxsched.envs.das.simulator.dynamics import State, real_positions
from jaxsched.envs.das.simulator.tables import SCALARS, Params
from jaxsched.envs.das.surrogate import surrogate
from jaxsched.envs.das.traces import das_stream
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, from_records
from jaxsched.systems.cases import keyed, list_of, whole_moment
from jaxsched.traces.csv_tables import read_tables
from jaxsched.types import Array, TimeStep

STATIC = (
    "num_servers",
    "gpus_per_server",
    "cpus_per_server",
    "mem_per_server",
    "bandwidth_per_server",
    "window",
    "net_per_gpu",
    "spread_pct",
    "spread_cap",
    "net_pct",
    "cpu_pct",
    "on_no_fit",
    "reward_mode",
)
WHOLE = ("finished", "steps")
LEAST_ROOM = 32  # jobs
HASH_RANGE = 1000
SALT_STEP = 1000003
CLUSTERS = {"small": 8, "medium": 16, "large": 32}
TABLE_POLICIES = ("fifo_firstfit", "fifo_loadbalance", "drf_firstfit", "drf_loadbalance", "tetris")
SHIPPED_TABLE = "workload_20000.csv"
TABLE_METRICS = ("avg_jct_min", "avg_fee", "avg_inflation", "utilization", "makespan", "return")


def simulate(case: Mapping[str, Any]) -> dict[str, Any]:
    """Run one case; the result has all keys of its ``expect``.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    kinds = {
        "episode": _episode,
        "load_error": _episode,
        "surrogate": _surrogate,
        "table_results": table_results,
        "rwgp": _walk_process,
    }
    kind = case.get("kind", "episode")
    if kind not in kinds:
        raise JaxschedError(f"das: kind is {kind!r}; accepted: {', '.join(kinds)}")
    return kinds[kind](case)


def _walk_process(case: Mapping[str, Any]) -> dict[str, Any]:
    from jaxsched.envs.das.learning import walk_process

    return walk_process.golden(case)


def environment_of(case: Mapping[str, Any]) -> tuple[DAS, Params]:
    """The environment of a case and the parameters of its job table, with room for more jobs."""
    config = keyed(case.get("config", {}), "config", (*STATIC, *SCALARS))
    env = DAS(**{DAS.former_options.get(key, key): config[key] for key in STATIC if key in config})
    table = from_records(list_of(case, "jobs"), schema=GANG_JOBS)
    params = env.params([table], **{n: config[n] for n in SCALARS if n in config})
    return env, with_room(params)


def with_room(params: Params) -> Params:
    """Parameters that play alike, of one of a few sizes: cases of such a size share programs."""
    room = max(LEAST_ROOM, 1 << (params.max_jobs - 1).bit_length())
    behind = ((0, room - params.max_jobs), (0, 0))
    return params._replace(
        rows=jnp.pad(params.rows, behind, mode="edge"),  # the last row is the empty one
        submitted_sum=jnp.pad(params.submitted_sum, behind, mode="edge"),
        places=jnp.arange(room, dtype=jnp.int32),
    )


def hash_values(a: Any, b: Any, c: Any) -> np.ndarray:
    """H(a, b, c), a number from 0 to 999 for each entry of the (broadcast) arguments."""
    mixed: Any = np.uint64(0)
    for value, factor in ((a, 73856093), (b, 19349663), (c, 83492791)):
        mixed = mixed ^ (np.asarray(value, np.uint64) * np.uint64(factor) % np.uint64(2**32))
    return (mixed >> np.uint64(8)) % np.uint64(HASH_RANGE)


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


def hash_action(env: DAS, salt: int, step: int) -> Action:
    """The action of decision ``step`` (from 0) of a case with hash actions."""
    k, position = step + SALT_STEP * salt, np.arange(env.window)
    affinity = hash_values(k, position[:, None], 1 + np.arange(env.num_servers))
    return {
        "priority": jnp.asarray(hash_values(k, position, 0), jnp.float32),
        "affinity": jnp.asarray(affinity, jnp.float32),
    }


def listed_action(env: DAS, entry: Any, where: str) -> Action:
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
    return {
        "priority": jnp.asarray(np.pad(values[0], (0, missing))),
        "affinity": jnp.asarray(
            np.pad(values[1].reshape(-1, env.num_servers), ((0, missing), (0, 0)))
        ),
    }


def _is_matrix(rows: Any, width: int) -> bool:
    return isinstance(rows, list) and all(isinstance(r, list) and len(r) == width for r in rows)


@partial(jax.jit, static_argnames="env")
def _reset(env: DAS, params: Params) -> tuple[State, TimeStep]:
    return env.reset(jax.random.key(0), params, jnp.int32(0))


@partial(jax.jit, static_argnames="env")
def _step(
    env: DAS, state: State, action: Action, params: Params, records: rec.Records
) -> tuple[State, TimeStep, rec.Records]:
    state, timestep = env.step(jax.random.key(0), state, action, params)
    records = rec.recorder(env, machines=True).update(records, timestep, jnp.bool_(True))
    return state, timestep, records


@partial(jax.jit, static_argnames=("env", "policy"))
def _decide(env: DAS, policy: Policy, state: State, params: Params) -> Action:
    view = View(*env.observe(state, params), state, params)
    return policy.act((), (), view, jax.random.key(0))[0]


def _chooser(env: DAS, params: Params, case: Mapping[str, Any]) -> Any:
    """``choose(step, state) -> action``, or None where the case lists no more."""
    if ("policy" in case) == ("actions" in case):
        raise JaxschedError("a case needs 'policy' or 'actions', one of both")
    if "policy" in case:
        policy = baseline(case["policy"], env)
        return lambda step, state: _decide(env, policy, state, params)
    actions = case["actions"]
    if isinstance(actions, Mapping):
        salt = salt_of(actions)
        return lambda step, state: hash_action(env, salt, step)
    listed = [
        listed_action(env, a, f"actions[{i}]") for i, a in enumerate(list_of(case, "actions"))
    ]
    return lambda step, state: listed[step] if step < len(listed) else None


def _episode(case: Mapping[str, Any]) -> dict[str, Any]:
    env, params = environment_of(case)
    choose = _chooser(env, params, case)
    state, timestep = _reset(env, params)
    records = rec.recorder(env, machines=True).init(params)
    trajectory: list[dict[str, Any]] = []
    while not timestep.done:
        action = choose(len(trajectory), state)
        if action is None:
            break
        seen = timestep.observation
        state, timestep, records = _step(env, state, action, params, records)
        trajectory.append(_row(len(trajectory), seen, timestep))
    return {
        "metrics": _metrics(env, params, records),
        "jobs": _jobs(params, records),
        "trajectory": trajectory,
    }


def _row(step: int, seen: Any, timestep: TimeStep) -> dict[str, Any]:
    happened = jax.tree.map(np.asarray, timestep.metrics)
    real = np.asarray(seen.real)
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
        "reward": float(timestep.reward),
        "done": bool(timestep.done),
        "obs_jobs": np.asarray(seen.jobs)[real].tolist(),
        "obs_cluster": np.asarray(seen.machines).tolist(),
    }


def _metrics(env: DAS, params: Params, records: rec.Records) -> dict[str, Any]:
    batched = jax.tree.map(lambda x: np.asarray(x)[None], records)
    values = rec.summarise(env, params, np.zeros(1, int), batched)
    return {n: int(v[0]) if n in WHOLE else float(v[0]) for n, v in values.items()}


def _jobs(params: Params, records: rec.Records) -> list[dict[str, Any]]:
    """Start, finish (None before) and machines of each job."""
    count = int(params.num_jobs[0])
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


def _surrogate(case: Mapping[str, Any]) -> dict[str, Any]:
    """Scores of the candidates that ``expect`` (or the case itself) lists."""
    env, params = environment_of(case)
    choose = _chooser(env, params, case)
    state, _ = _reset(env, params)
    records = rec.recorder(env, machines=True).init(params)
    steps = case.get("steps", 0)
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 0:
        raise JaxschedError(f"steps is {steps!r}; accepted: a whole number from 0 on")
    for step in range(steps):
        action = choose(step, state)
        if action is None:
            raise JaxschedError(
                f"the case lists {step} actions for {steps} steps; accepted: as many"
            )
        state, _, records = _step(env, state, action, params, records)
    listed = list_of(case if "candidates" in case else case.get("expect", {}), "candidates")
    candidates = []
    for index, candidate in enumerate(listed):
        inputs = {key: candidate[key] for key in ("priority", "affinity") if key in candidate}
        action = listed_action(env, inputs, f"candidates[{index}]")
        f1, f2, cost = (float(x) for x in _scores(env, state, params, action))
        candidates.append({**inputs, "f1": f1, "f2": f2, "cost": cost})
    window = np.asarray(state.window.job)[np.asarray(real_positions(state))]
    return {"time": int(state.time), "window": window.tolist(), "candidates": candidates}


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
    return rec.play(env, baseline(name, env), params)
