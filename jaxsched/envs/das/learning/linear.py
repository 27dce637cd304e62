"""A linear rule over what is observed: orders jobs and prefers machines by weighted features.

The weights of the order depend linearly on the load, so that one rule can be first-come-first-
served in quiet times and prefer small jobs in a backlog, or the reverse. ``linear_rules.json`` has
those of three clusters and how each was found: most of them by search in parameter space
(:mod:`jaxsched.algorithms.evolution`).

Axes: ``N`` positions, ``M`` machines.
"""

import hashlib
import json
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learning.decoded_observation import Recovered, recover
from jaxsched.envs.das.observation import Observation
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree, Specs

JOB_FEATURES = (
    "position",
    "log2_gpus",
    "gpus",
    "log_wait",
    "gpus_per_instance",
    "cpus_per_gpu",
    "one_machine",
    "spread",
)
LOADS = ("always", "queue", "asked", "busy")
PLACE_FEATURES = (
    "free_gpus",
    "free_cpus",
    "free_mem",
    "free_net",
    "share_of_job",
    "holds_all",
    "gpus_left",
    "cpus_left",
    "empty",
)
SPLITS = ("alone", "distributed")


FILE = "linear_rules.json"
LOG2_MOST_GPUS = 6.0  # of a job: 64 GPUs


Decide = Callable[[DAS, Any, Observation], dict[str, Array]]
"""``(environment, parameters of a rule, observation) -> action``."""


class LinearParams(NamedTuple):
    """Weights of the rule, float32."""

    order: Array | np.ndarray  # [loads, job features]
    place: Array | np.ndarray  # [splits, place features]


StartOrder = Literal["fifo", "fewest_gpus"]
SORTED_BY = {"fifo": "position", "fewest_gpus": "gpus"}
"""The job feature that ascends in each order."""


def init_linear(key: PRNGKey, specs: Specs | None, order: StartOrder = "fifo") -> LinearParams:
    """Jobs in a plain order on the machine with most free GPUs: where the search starts."""
    del key, specs
    column = JOB_FEATURES.index(SORTED_BY[order])
    weights = jnp.zeros((len(LOADS), len(JOB_FEATURES)), jnp.float32).at[0, column].set(-1.0)
    place = jnp.zeros((len(SPLITS), len(PLACE_FEATURES)), jnp.float32).at[:, 0].set(1.0)
    return LinearParams(weights, place)


@cache
def known_rules() -> dict[int, LinearParams]:
    """The rules that were found, by number of machines (numpy arrays)."""
    text = (resources.files("jaxsched.envs.das.learning") / FILE).read_text(encoding="utf-8")
    return {
        rule["num_servers"]: LinearParams(
            *(np.asarray(rule[part], np.float32) for part in LinearParams._fields)
        )
        for rule in json.loads(text)["rules"]
    }


def rule_digest(rule: LinearParams) -> str:
    """SHA-256 of a rule's weights, hexadecimal."""
    return hashlib.sha256(b"".join(np.asarray(part).tobytes() for part in rule)).hexdigest()


def rules_digest() -> str:
    """SHA-256 of all rules' weights and sizes, hexadecimal."""
    rules = [f"{size} {rule_digest(rule)}" for size, rule in sorted(known_rules().items())]
    return hashlib.sha256("\n".join(rules).encode()).hexdigest()


def linear_policy(env: DAS, params: LinearParams | None = None, name: str = "linear") -> Policy:
    """The rule as a policy; its weights are ``LinearParams``, unless ``params`` are given."""
    return rule_policy(env, decide_linear, params, name)


def rule_policy(env: DAS, decide: Decide, params: Any, name: str) -> Policy:
    """A rule as a policy whose weights are the rule's parameters, unless ``params`` are given."""

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        del key
        rule = weights if params is None else jax.tree.map(jnp.asarray, params)
        return decide(env, rule, view.observation), memory

    return Policy(name, no_memory, act)


def found_rule(env: DAS) -> LinearParams:
    """The rule found for a cluster of about as many machines.

    Raises:
      JaxschedError: no rule is shipped.
    """
    rules = known_rules()
    if not rules:
        raise JaxschedError(f"das: {FILE} holds no rule; train one with the preset 'search'")
    return rules[min(rules, key=lambda size: abs(size - env.num_servers))]


def decide_linear(env: DAS, params: LinearParams, observation: Observation) -> dict[str, Array]:
    """The rule's action."""
    seen = recover(env.cluster, observation)
    loads = jnp.stack(load_features(env, seen))
    weights = loads @ params.order
    priority = jnp.stack(job_features(env, seen), axis=-1) @ weights
    spread = jnp.max(seen.fit, axis=-1) < seen.instances
    features = jnp.stack(place_features(env, seen, observation.machines[:, 3]), axis=-1)
    affinity = jnp.where(spread[:, None], features @ params.place[1], features @ params.place[0])
    return {"priority": priority, "affinity": affinity}


def load_features(env: DAS, seen: Recovered) -> list[Array]:
    """One number each: constant, filled positions, GPUs asked for, GPUs in use."""
    total = float(env.num_servers * env.gpus_per_server)
    queue = jnp.mean(seen.real, dtype=jnp.float32)
    asked = jnp.tanh(jnp.sum(seen.num_gpus) / (4.0 * total))
    return [jnp.float32(1), queue, asked, 1.0 - jnp.sum(seen.free[:, 0]) / total]


def job_features(env: DAS, seen: Recovered) -> list[Array]:
    """``[N]`` each, about the unit interval."""
    num_positions = seen.real.shape[0]
    gpus, each = seen.num_gpus, jnp.maximum(seen.requests[:, 0], 1.0)
    return [
        jnp.arange(num_positions, dtype=jnp.float32) / num_positions,
        jnp.log2(jnp.maximum(gpus, 1.0)) / LOG2_MOST_GPUS,
        gpus / 64.0,
        jnp.log1p(seen.wait_s / 600.0) / 5.0,
        each / env.gpus_per_server,
        seen.requests[:, 1] / each / 12.0,
        (jnp.max(seen.fit, axis=-1) >= seen.instances).astype(jnp.float32),
        _machines_needed(seen) / env.num_servers,
    ]


def place_features(env: DAS, seen: Recovered, free_net: Array) -> list[Array]:
    """``[N, M]`` each, about the unit interval."""
    taken = jnp.minimum(seen.fit, seen.instances[:, None])
    left = seen.free[None] - taken[..., None] * seen.requests[:, None]
    shape = seen.fit.shape
    free = seen.free / jnp.array(env.cluster.capacity, jnp.float32)
    wide = [jnp.broadcast_to(column, shape) for column in (*free.T, free_net)]
    return [
        *wide,
        taken / jnp.maximum(seen.instances[:, None], 1.0),
        (seen.fit >= seen.instances[:, None]).astype(jnp.float32),
        left[..., 0] / env.gpus_per_server,
        left[..., 1] / env.cpus_per_server,
        jnp.broadcast_to((seen.free[:, 0] >= env.gpus_per_server).astype(jnp.float32), shape),
    ]


def _machines_needed(seen: Recovered) -> Array:
    """Fewest machines that could hold the job now, ``[N]``: fullest fits first."""
    ahead = seen.fit[:, None, :] > seen.fit[:, :, None]
    tied = (seen.fit[:, None, :] == seen.fit[:, :, None]) & jnp.tri(
        seen.fit.shape[1], k=-1, dtype=bool
    )
    before = jnp.sum(jnp.where(ahead | tied, seen.fit[:, None, :], 0.0), axis=-1)
    return jnp.sum(before < seen.instances[:, None], axis=-1).astype(jnp.float32)
