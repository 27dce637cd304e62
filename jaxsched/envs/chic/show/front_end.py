"""Chic's cluster from outside: as plain arrays, and as a front end describes it in JSON.

The workloads of the window, oldest first, with what they have left and are given so far. A decision
is the allocation of the coming training phase. Neither times nor what workloads held before matter:
allocations begin anew in each phase.

Axes: ``I`` rows of the window.
"""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.elastic.jobs import CHIC_JOBS
from jaxsched.elastic.models import NAMES
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.jobs import LEAST_ITERATIONS, MOST_ITERATIONS
from jaxsched.envs.chic.rules import NUM_MODELS, Params, build_tables, dynamics
from jaxsched.envs.chic.rules.dynamics import Row, State, column
from jaxsched.envs.chic.rules.observation import SCALES, observation_of
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
from jaxsched.systems.cluster_arrays import ClusterArrays, ClusterInput, mask_input
from jaxsched.systems.cluster_estimates import (
    ESTIMATED_SCHEMA,
    Estimate,
    assume_schema,
    is_number,
    model_estimate,
    model_schema,
)
from jaxsched.systems.cluster_reader import Cluster, ClusterReader, jobs_of, name_of, shown
from jaxsched.types import Array, ArraySpec, TimeStep


def cluster_arrays(env: Chic) -> ClusterArrays:
    """Arrays of a cluster; workloads oldest first, ``present`` false behind the last."""

    def of_rows(meaning: str, unit: str, dtype: type = jnp.int32) -> ClusterInput:
        return ClusterInput(ArraySpec((env.window,), dtype), meaning, unit)

    models = ", ".join(f"{i} {name}" for i, name in enumerate(NAMES[:NUM_MODELS]))
    inputs = {
        "present": of_rows("whether the row holds a workload", "", jnp.bool_),
        "model": of_rows(f"its model: {models}", ""),
        "iterations_left": of_rows("iterations left", "iterations"),
        "workers": of_rows("workers in the coming phase so far", "tasks"),
        "servers": of_rows("parameter servers likewise; not read by Chic-Pair", "tasks"),
        "backlog": ClusterInput(
            ArraySpec((), jnp.int32), "workloads that wait behind the window", "workloads"
        ),
        "mask": mask_input(env, ", in the order of the manifest's names"),
    }
    return ClusterArrays(inputs, partial(_observe, env), partial(_example, env))


def _observe(env: Chic, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """Observation and mask, as of a window with these rows."""
    names = ("model", "iterations_left", "workers", "servers")
    told = [jnp.where(arrays["present"], arrays[name], 0) for name in names]
    rows = (Row(jnp.arange(env.window), *told),)
    return observation_of(rows, arrays["backlog"], SCALES, env.pair), arrays["mask"]


def _example(env: Chic, random: np.random.Generator) -> dict[str, Any]:
    """Some workloads, some units."""
    rows, actions = env.window, env.action_spec(None).num_actions  # type: ignore[arg-type]
    return {
        "present": np.arange(rows) < random.integers(1, rows + 1),
        "model": random.integers(0, NUM_MODELS, rows).astype(np.int32),
        "iterations_left": random.integers(1, 400, rows).astype(np.int32),
        "workers": random.integers(0, 9, rows).astype(np.int32),
        "servers": random.integers(0, 9, rows).astype(np.int32),
        "backlog": np.int32(random.integers(0, 20)),
        "mask": np.append(random.random(actions - 1) < 0.5, True),
    }


MODELS = NAMES[:NUM_MODELS]
MOST_LEFT = 2**23 - 1


def _iterations(value: Any, where: str) -> int:
    """Whole iterations, from 1 on."""
    if not (is_number(value) and value == int(value) and 1 <= value <= MOST_LEFT):
        raise JaxschedError(
            f"{where} is {shown(value)}; accepted: a whole number from 1 to {MOST_LEFT}, null"
        )
    return int(value)


ESTIMATES = {
    "model": model_estimate(MODELS, "ResNet50", "whose needs are the smallest"),
    "iterations_left": Estimate(
        (LEAST_ITERATIONS + MOST_ITERATIONS) // 2,
        _iterations,
        "the median of training workloads",
        "a whole number from 1 on",
    ),
}


class Decision(NamedTuple):
    """Units of each row of the window, int32 ``[I]``."""

    workers: Array
    servers: Array


class ChicReader(ClusterReader[Chic]):
    """Workers and parameter servers of the workloads in the window."""

    schema = {
        "type": "object",
        "required": ["workloads"],
        "properties": {
            "workloads": {
                "type": "array",
                "minItems": 1,
                "description": "submitted and not finished, oldest first; those beyond the window "
                "wait",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"description": "any; the place in the list if absent"},
                        "model": model_schema(MODELS),
                        "iterations_left": {"type": ["integer", "null"], "minimum": 1},
                    },
                },
            },
            "assume": assume_schema(ESTIMATES),
        },
    }
    answer_schema = {
        "type": "object",
        "properties": {
            "allocation": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "workload": {"description": "id"},
                        "workers": {"type": "integer"},
                        "parameter_servers": {"type": "integer"},
                    },
                },
            },
            "waiting": {"type": "array", "description": "ids of the workloads beyond the window"},
            "estimated": ESTIMATED_SCHEMA,
        },
    }
    example = {
        "workloads": [
            {"id": "a", "model": MODELS[0], "iterations_left": 220},
            {"id": "b", "model": MODELS[1], "iterations_left": 90},
        ]
    }
    jobs = "workloads"
    job_word = "workload"
    estimates = ESTIMATES

    def read(self, env: Chic, clusters: Sequence[Cluster], length: int) -> tuple[Params, Array]:
        """See the base class."""
        tables = [from_records(_records(c), schema=CHIC_JOBS, name="workloads") for c in clusters]
        params = _speeds(env)._replace(jobs=build_tables(tables, env.capacity, length))
        return params, jnp.arange(len(clusters), dtype=jnp.int32)

    def state(self, env: Chic, params: Params, told: Array) -> State:
        """At the first submission, which is that of all."""
        return dynamics.new_state(params.jobs, told, env.window)

    def nothing(self, env: Chic, params: Params) -> Decision:
        """No units."""
        del params
        return Decision(*[jnp.zeros(env.window, jnp.int32)] * 2)

    def decided(
        self, so_far: Decision, state: State, after: State, timestep: TimeStep
    ) -> tuple[Decision, Array]:
        """Until the workloads train."""
        del so_far, after
        held = Decision(
            column([row.workers for row in state.rows]),
            column([row.servers for row in state.rows]),
        )
        return held, ~timestep.metrics.decides

    def answer(self, env: Chic, cluster: Cluster, decision: Decision) -> dict[str, Any]:
        """Units of the workloads in the window."""
        names = [name_of(job, place) for place, job in enumerate(cluster["workloads"])]
        return {
            "allocation": [
                {"workload": name, "workers": int(workers), "parameter_servers": int(servers)}
                for name, workers, servers in zip(names, *decision, strict=False)
            ],
            "waiting": names[env.window :],
        }


@cache
def _speeds(env: Chic) -> Params:
    """Parameters of a cluster, whose tables of speeds take longer to make than a decision."""
    job = {"submit_time": 0, "model": 0, "iterations": 1}
    return env.params([from_records([job], schema=CHIC_JOBS, name="workloads")])


def _records(cluster: Cluster) -> list[dict[str, Any]]:
    jobs, _ = jobs_of(cluster, "workloads", ESTIMATES)
    if not jobs:
        raise JaxschedError("workloads is empty; accepted: one or more")
    return [
        {"submit_time": 0, "model": job["model"], "iterations": job["iterations_left"]}
        for job in jobs
    ]
