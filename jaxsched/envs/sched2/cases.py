"""Golden cases of SCHED2: a job table with a list of actions or a baseline (section 14)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.evaluation import Outcome, run_episodes
from jaxsched.envs.sched2 import records as rec
from jaxsched.envs.sched2.dynamics import ClusterState
from jaxsched.envs.sched2.environment import Params, Sched2
from jaxsched.envs.sched2.heuristics import MODES, any_baseline, numbered
from jaxsched.envs.sched2.slowdown import NUM_LEVELS
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
from jaxsched.ops.programs import bounded_programs
from jaxsched.systems.cases import (
    actions_of,
    keyed,
    list_of,
    shared_length,
    whole_moment,
)
from jaxsched.systems.recording import Staged, listed_actions
from jaxsched.types import Array, TimeStep

STATIC = ("num_servers", "gpus_per_server", "window", "profile", "auto_advance", "reward", "extras")
SCALARS = {"time_scale": 3600.0, "invalid_penalty": 0.0}
BASELINE = {"baseline_mode": "skip", "baseline_window": 10}
PROGRAMS = 4  # kept of each kind


class Config(NamedTuple):
    """A case's ``config`` with its defaults."""

    static: dict[str, Any]
    scalars: dict[str, float]
    mode: str
    baseline_window: int


class Ready(NamedTuple):
    """A case, ready to be played: by the baseline of that name and mode, or by actions."""

    env: Sched2
    params: Params
    baseline: tuple[str, str] | None
    actions: list[int]

    @property
    def number(self) -> Array:
        """Of the baseline."""
        assert self.baseline is not None
        return jnp.int32(numbered(*self.baseline))  # type: ignore[arg-type]


def simulate(case: Mapping[str, Any]) -> dict[str, Any]:
    """Run one case; the result has all keys of its ``expect``.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    ready = read_case(case)
    return _run_actions(ready) if ready.baseline is None else _run_baseline(ready)


def staged(case: Mapping[str, Any]) -> Staged:
    """A golden case, ready to be played.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    ready = read_case(case)
    if ready.baseline is not None:
        policy = any_baseline()._replace(name=ready.baseline[0])
        return Staged(ready.env, ready.params, policy, ready.number)
    listed = jnp.asarray(ready.actions or [ready.env.window], jnp.int32)
    policy, weights = listed_actions(listed)
    return Staged(ready.env, ready.params, policy, weights, len(ready.actions))


def read_case(case: Mapping[str, Any]) -> Ready:
    """A case that has either a policy or actions."""
    config = read_config(case.get("config", {}))
    if ("policy" in case) == ("actions" in case):
        raise JaxschedError("a case needs either 'policy' or 'actions'")
    table = from_records(list_of(case, "jobs"), name="jobs")
    baseline, actions, static = None, [], config.static
    if "policy" in case:
        baseline = (str(case["policy"]), config.mode)
        static = {**static, "window": config.baseline_window or max(len(table), 1)}
    else:
        actions = actions_of(case)
    env = Sched2(**static)
    params = env.params([table], **config.scalars, length=shared_length(len(table)))
    return Ready(env, params, baseline, actions)


def read_config(config: Any) -> Config:
    """Check a case's ``config`` and fill in the defaults."""
    config = keyed(config, "config", (*STATIC, *SCALARS, *BASELINE, "k"))
    if config.get("k", NUM_LEVELS) != NUM_LEVELS:
        raise JaxschedError(f"config: k must be {NUM_LEVELS}, not {config['k']!r}")
    for name in ("auto_advance", "extras"):
        if not isinstance(config.get(name, False), bool):
            raise JaxschedError(f"config: {name} must be true or false, not {config[name]!r}")
    scalars = {name: config.get(name, default) for name, default in SCALARS.items()}
    for name, value in scalars.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise JaxschedError(f"config: {name} must be a number, not {value!r}")
    mode = config.get("baseline_mode", BASELINE["baseline_mode"])
    if mode not in MODES:
        raise JaxschedError(
            f"config: baseline_mode must be one of {', '.join(MODES)}, not {mode!r}"
        )
    window = config.get("baseline_window", BASELINE["baseline_window"])
    if isinstance(window, bool) or not isinstance(window, int) or window < 0:
        raise JaxschedError(
            f"config: baseline_window must be a whole number from 0 (whole queue), not {window!r}"
        )
    static = {name: config[name] for name in STATIC if name in config}
    return Config(static, scalars, mode, window)


def _run_baseline(ready: Ready) -> dict[str, Any]:
    env, params = ready.env, ready.params
    outcome = _play(env, params, ready.number)
    if not bool(outcome.finished[0]):
        raise JaxschedError("the episode did not end within its step bound")
    records = jax.tree.map(np.asarray, outcome.records)
    order = records.order[0][: records.num_started[0]].tolist()
    return {"order": order, **_summary(env, params, records)}


def _run_actions(ready: Ready) -> dict[str, Any]:
    env, params, _, actions = ready
    state, timestep, records = _reset(env, params)
    trajectory = []
    for index, action in enumerate(actions):
        row = {
            "step": index,
            "time": int(state.time),
            "mask": np.asarray(timestep.action_mask).astype(int).tolist(),
            "action": action,
            "obs": np.asarray(timestep.observation).tolist(),
        }
        state, timestep, records = _step(env, state, jnp.int32(action), params, records)
        row |= {
            "reward": float(timestep.reward),
            "done": bool(timestep.terminated),
            "invalid": bool(timestep.metrics.invalid),
            "elapsed": int(timestep.elapsed),
        }
        trajectory.append(row)
    batched = jax.tree.map(lambda x: np.asarray(x)[None], records)
    return {
        "trajectory": trajectory,
        "return": sum(row["reward"] for row in trajectory),
        "invalid_actions": int(records.invalid_actions),
        **_summary(env, params, batched),
    }


@bounded_programs(most=PROGRAMS)
def _play(env: Sched2, params: Params, number: Array) -> Outcome:
    """The baseline of that number on the only table."""
    episodes, key = jnp.zeros(1, jnp.int32), jax.random.key(0)
    return run_episodes(env, any_baseline(), rec.recorder(env), params, episodes, key, number)


@bounded_programs(most=PROGRAMS)
def _reset(env: Sched2, params: Params) -> tuple[ClusterState, TimeStep, rec.Records]:
    state, timestep = env.reset(jax.random.key(0), params, jnp.int32(0))
    return state, timestep, rec.recorder(env).init(params)


@bounded_programs(most=PROGRAMS)
def _step(
    env: Sched2, state: ClusterState, action: Array, params: Params, records: rec.Records
) -> tuple[ClusterState, TimeStep, rec.Records]:
    state, timestep = env.step(jax.random.key(0), state, action, params)
    return state, timestep, rec.recorder(env).update(records, timestep, jnp.bool_(True))


def _summary(env: Sched2, params: Params, records: Any) -> dict[str, Any]:
    """Metrics, jobs and curves of the single episode in ``records`` (leaves ``[1, ...]``)."""
    metrics = rec.summarise(env, params, np.zeros(1, int), records)
    count = int(records.num_started[0])
    values = {name: float(value[0]) for name, value in metrics.items()}
    values["finished"] = int(values["finished"])
    values["makespan"] = int(values["makespan"])
    return {
        "metrics": values,
        "jobs": [_job(records, job) for job in range(int(params.jobs.num_jobs[0]))],
        "fragmentation_curve": records.fragmentation_curve[0][:count].tolist(),
        "queue_gpus_curve": records.queue_gpus_curve[0][:count].tolist(),
    }


def _job(records: Any, job: int) -> dict[str, Any]:
    """What became of a job; one that never starts has no times, no locality and no GPUs."""
    started = bool(records.start[0, job] >= 0)
    counts = [int(bits).bit_count() for bits in records.gpus[0, job]]
    servers = [server for server, count in enumerate(counts) if count]
    return {
        "start": whole_moment(records.start[0, job]),
        "finish": whole_moment(records.finish[0, job]),
        "level": int(records.level[0, job]) if started else None,
        "servers": servers,
        "counts": [counts[server] for server in servers],
        "reused": bool(records.reused[0, job]),
    }
