"""Rules of weighted features of what is observed, whose weights were found by search.

``linear`` orders jobs and prefers machines; the weights of the order depend linearly on the load,
so that one rule can be first-come-first-served in quiet times and prefer small jobs in a backlog,
or the reverse. ``linear_rules.json`` has those of three clusters and how each was found: most of
them by search in parameter space (:mod:`jaxsched.algorithms.evolution`).

``scored`` is richer, for search over whole episodes from a rule that is known to be good. Weights
of the order and of the placement depend on the load; there are features of what a start does to
neighbours and to what is left and, where the environment shows them, of how long the job may take
(``DAS.estimates``). It starts as the linear rule, or as ``shortest``: least estimated GPU time
first. ``scored_rules.json`` has the weights that were found.

Axes: ``N`` positions, ``M`` machines.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics import baseline
from jaxsched.envs.das.rules import DURATION, NUM_GPUS
from jaxsched.envs.das.rules.observation import (
    ESTIMATE_NAMES,
    JOB_NAMES,
    LOG2_SCALE,
    PRIOR_LOG2,
    Observation,
    Recovered,
    recover,
)
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


LINEAR_FILE = "linear_rules.json"
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
    return {rule["num_servers"]: _weights(LinearParams, rule) for rule in _rules_of(LINEAR_FILE)}


def _rules_of(file: str) -> list[dict[str, Any]]:
    """The rules that a file beside this one lists."""
    found = resources.files("jaxsched.envs.das.heuristics") / file
    rules: list[dict[str, Any]] = json.loads(found.read_text(encoding="utf-8"))["rules"]
    return rules


def _weights(kind: Callable[..., Any], rule: Mapping[str, Any]) -> Any:
    """The weights that a file lists, NumPy arrays."""
    return kind(*(np.asarray(rule[part], np.float32) for part in ("order", "place")))


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
        raise JaxschedError(f"das: {LINEAR_FILE} holds no rule; train one with the preset 'search'")
    return rules[min(rules, key=lambda size: abs(size - env.num_servers))]


def decide_linear(env: DAS, params: LinearParams, observation: Observation) -> dict[str, Array]:
    """The rule's action."""
    seen = recover(env, observation)
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
    free = seen.free / jnp.array(env.capacity, jnp.float32)
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


OWN_JOB_FEATURES = ("share_of_free", "tightest", "machines", "log2_gpus_squared")
OWN_PLACE_FEATURES = ("fills", "neighbours", "network", "mem_left", "free_gpus_squared")
PLACE_LOADS = ("always", "busy")
ORDER_SCALE, PLACE_SCALE = 4.0, 2.0
"""Factors on the linear rule's weights, which change no decision: noise of search then disturbs
small differences between jobs less."""

GPUS_POWER = 1.5
"""Of the GPUs in ``shortest``, the estimated run time having power 1: chosen on drawn episodes."""
RUN_SPREAD = 4.0  # of log2 of run times
RUN_WEIGHT = -4.0
SCORED_FILE = "scored_rules.json"
Beginning = Literal["linear", "shortest"]


class ScoredParams(NamedTuple):
    """Weights, float32."""

    order: Array | np.ndarray  # [loads, job features]
    place: Array | np.ndarray  # [splits * place loads, place features]


def job_feature_names(env: DAS) -> tuple[str, ...]:
    """What the order's columns weigh."""
    return (
        *JOB_FEATURES,
        *OWN_JOB_FEATURES,
        *(ESTIMATE_NAMES if env.estimates else ()),
    )


def start_at(env: DAS, rule: LinearParams) -> ScoredParams:
    """The weights that decide as a linear rule does."""
    order = np.zeros((len(LOADS), len(job_feature_names(env))), np.float32)
    order[:, : len(JOB_FEATURES)] = ORDER_SCALE * np.asarray(rule.order)
    columns = len(PLACE_FEATURES) + len(OWN_PLACE_FEATURES)
    place = np.zeros((len(PLACE_LOADS), len(SPLITS), columns), np.float32)
    place[0, :, : len(PLACE_FEATURES)] = PLACE_SCALE * np.asarray(rule.place)
    return ScoredParams(jnp.asarray(order), jnp.asarray(place.reshape(-1, columns)))


def shortest(env: DAS) -> ScoredParams:
    """Least estimated GPU time first, placed as by the linear rule that suits a busy cluster.

    Raises:
      JaxschedError: the environment shows no estimates.
    """
    if not env.estimates:
        raise JaxschedError("das: shortest reads estimates of run times; set env.estimates")
    size = 8 if env.num_servers < 16 else 16  # that of 32 machines spreads jobs, for quiet times
    begun, names = start_at(env, known_rules()[size]), job_feature_names(env)
    order = np.zeros(begun.order.shape, np.float32)
    order[0, names.index("run")] = RUN_WEIGHT
    log2_gpus = LOG2_MOST_GPUS / RUN_SPREAD  # of a feature's unit over that of the other
    order[0, names.index("log2_gpus")] = RUN_WEIGHT * log2_gpus * GPUS_POWER
    return ScoredParams(jnp.asarray(order), begun.place)


def beginning(env: DAS, begins: Beginning) -> ScoredParams:
    """Where a search starts."""
    return shortest(env) if begins == "shortest" else start_at(env, found_rule(env))


@cache
def known_scored() -> dict[tuple[bool, int], ScoredParams]:
    """What was found, by whether it reads estimates and number of machines (numpy arrays)."""
    return {
        (rule["estimates"], rule["num_servers"]): _weights(ScoredParams, rule)
        for rule in _rules_of(SCORED_FILE)
    }


def found_scored(env: DAS) -> ScoredParams:
    """The weights found for a cluster of about as many machines.

    Raises:
      JaxschedError: none are shipped.
    """
    sizes = [size for estimates, size in known_scored() if estimates == env.estimates]
    if not sizes:
        raise JaxschedError(
            f"das: {SCORED_FILE} holds no rule; train one with the preset 'contended'"
        )
    nearest = min(sizes, key=lambda size: abs(size - env.num_servers))
    return known_scored()[env.estimates, nearest]


def scored_policy(env: DAS, params: ScoredParams | None = None, name: str = "scored") -> Policy:
    """The rule as a policy; its weights are ``ScoredParams``, unless ``params`` are given."""
    return rule_policy(env, decide_scored, params, name)


def oracle_policy(env: DAS) -> Policy:
    """Least GPU time first, durations being known; placed as ``shortest``, or as ``linear``.

    What an order could gain at most, about: no policy can know durations.
    """
    rule = shortest(env) if env.estimates else start_at(env, found_rule(env))

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        del weights, key
        rows = view.state.window.rows.astype(jnp.float32)
        gpu_seconds = jnp.maximum(rows[DURATION], 1.0) * jnp.maximum(rows[NUM_GPUS], 1.0)
        action = decide_scored(env, rule, view.observation)
        return {**action, "priority": -gpu_seconds}, memory

    return Policy("oracle", no_memory, act, privileged=True)


def decide_scored(env: DAS, params: ScoredParams, observation: Observation) -> dict[str, Array]:
    """The rule's action."""
    seen = recover(env, observation)
    loads = load_features(env, seen)
    jobs, more = job_features(env, seen), _more_job_features(env, seen)
    if env.estimates:
        more += _estimates(observation)
    priority = _weighted(jobs, more, _split_weights(jobs, jnp.stack(loads), params.order))

    free_net = observation.machines[:, 3]
    pairs, more = place_features(env, seen, free_net), _more_place_features(env, seen, free_net)
    busy = dict(zip(LOADS, loads, strict=True))["busy"]
    place = params.place.reshape(len(PLACE_LOADS), len(SPLITS), -1)
    place = place[0] + busy * place[1]
    alone, spread = (_weighted(pairs, more, jnp.split(row, [len(pairs)])) for row in place)
    splits = jnp.max(seen.fit, axis=-1) < seen.instances
    affinity = jnp.where(splits[:, None], spread, alone)
    return {"priority": priority, "affinity": affinity}


def _estimates(observation: Observation) -> list[Array]:
    """``[N]`` each, in the order of ``ESTIMATE_NAMES``, run times about from -1 to 1."""
    run, user_run, *evidence = observation.jobs[:, len(JOB_NAMES) :].T
    runs = [(x * LOG2_SCALE - PRIOR_LOG2) / RUN_SPREAD for x in (run, user_run)]
    return [*runs, *evidence]


def _split_weights(features: list[Array], loads: Array, order: Any) -> list[Array]:
    """Weights of the linear rule's features at this load, and of the others."""
    return [loads @ part for part in jnp.split(order, [len(features)], axis=-1)]


def _weighted(features: list[Array], more: list[Array], weights: list[Array]) -> Array:
    """Sum of features by weights, those of the linear rule first, as there."""
    total = jnp.stack(features, axis=-1) @ weights[0]
    for index, feature in enumerate(more):
        total += weights[1][index] * feature
    return total


def _more_job_features(env: DAS, seen: Recovered) -> list[Array]:
    """``[N]`` each, about the unit interval; in the order of ``OWN_JOB_FEATURES``."""
    gpus, free = seen.num_gpus, seen.free[:, 0]
    holds = seen.fit >= seen.instances[:, None]
    left = jnp.where(holds, free[None, :] - gpus[:, None], env.gpus_per_server)
    size = jnp.log2(jnp.maximum(gpus, 1.0)) / LOG2_MOST_GPUS
    machines = jnp.sum(seen.fit >= 1.0, axis=-1, dtype=jnp.float32) / env.num_servers
    return [
        jnp.minimum(gpus / jnp.maximum(jnp.sum(free), 1.0), 1.0),
        jnp.min(left, axis=-1) / env.gpus_per_server,
        machines,
        size**2,
    ]


def _more_place_features(env: DAS, seen: Recovered, free_net: Array) -> list[Array]:
    """``[N, M]`` each, about the unit interval; in the order of ``OWN_PLACE_FEATURES``."""
    taken = jnp.minimum(seen.fit, seen.instances[:, None])
    left = seen.free[None] - taken[..., None] * seen.requests[:, None]
    share = seen.free[:, 0] / env.gpus_per_server
    cpus = taken * seen.requests[:, 1, None] / env.cpus_per_server
    gpus = taken * seen.requests[:, 0, None] / env.gpus_per_server
    return [
        (left[..., 0] < 0.5).astype(jnp.float32),
        cpus * (1.0 - share),
        gpus * (1.0 - free_net),
        left[..., 2] / env.mem_per_server,
        jnp.broadcast_to(share**2, seen.fit.shape),
    ]


def policy_named(name: str, env: DAS) -> Policy:
    """A heuristic; ``linear``, ``shortest``, ``scored`` or ``oracle`` with the weights shipped.

    Raises:
      JaxschedError: no such heuristic, or none for this environment.
    """
    if name == "linear":
        return linear_policy(env, found_rule(env))
    if name == "shortest":
        return scored_policy(env, shortest(env), name)
    if name == "scored":
        return scored_policy(env, found_scored(env), name)
    if name == "oracle":
        return oracle_policy(env)
    return baseline(name, env)
