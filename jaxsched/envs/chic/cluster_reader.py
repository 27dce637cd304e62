"""Chic's cluster as a front end describes it: the workloads, oldest first, and what they have left.

A decision is the allocation of the coming training phase. Neither times nor what workloads held
before matter: allocations begin anew in each phase.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxsched.elastic.jobs import CHIC_JOBS
from jaxsched.elastic.models import NAMES
from jaxsched.envs.chic import dynamics
from jaxsched.envs.chic.dynamics import State
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.rows import column
from jaxsched.envs.chic.tables import NUM_MODELS, Params, build_tables
from jaxsched.envs.chic.workload import LEAST_ITERATIONS, MOST_ITERATIONS
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
from jaxsched.systems.cluster_estimates import (
    ESTIMATED_SCHEMA,
    Estimate,
    assume_schema,
    is_number,
    model_estimate,
    model_schema,
)
from jaxsched.systems.cluster_reader import Cluster, ClusterReader, jobs_of, name_of, shown
from jaxsched.types import Array, TimeStep

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

    def decided(self, so_far: Decision, state: State, timestep: TimeStep) -> tuple[Decision, Array]:
        """Until the workloads train."""
        del so_far
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
