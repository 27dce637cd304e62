"""The library's functions over the record of a system."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.array_policy import ArrayPolicy
from jaxsched.core.environment import Environment
from jaxsched.core.evaluation import Recorder, run_episodes
from jaxsched.core.policies import Play, Policy, greedy_scores, real_outputs, sampled_scores
from jaxsched.core.trajectory import Trajectory
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.jobs.metrics import METRICS, Metric
from jaxsched.jobs.schedule import Schedule
from jaxsched.ops.arrays import to_device
from jaxsched.systems.cluster_arrays import ClusterArrays
from jaxsched.systems.cluster_reader import ClusterReader
from jaxsched.systems.parts import Heuristic, Kind, Network, Played, Rule, Shipped, TraceSet
from jaxsched.systems.system import System
from jaxsched.traces.mapping import MappingConfig
from jaxsched.types import ArraySpec, PRNGKey, PyTree, Specs

# The environment


def environment(system: System, **options: Any) -> Any:
    """An environment with these static options, the paper's by default.

    Raises:
      JaxschedError: no such option, or a bad value.
    """
    known = _option_names(system)
    for name in options:
        if name not in known:
            raise JaxschedError(
                f"{system.name}: unknown environment option {name!r}; known are {', '.join(known)}"
            )
    return system.environment(**options)


def saved_environment(system: System, options: Mapping[str, Any]) -> Any:
    """An environment with saved options, former names included.

    Raises:
      JaxschedError: no such option, or a bad value.
    """
    former = system.environment.former_options
    return environment(system, **{former.get(name, name): options[name] for name in options})


def environment_options(system: System, env: Environment) -> dict[str, Any]:
    """The static options of an environment, JSON-able."""
    options = {name: getattr(env, name) for name in _option_names(system)}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in options.items()}


def facts(system: System, env: Any, options: Mapping[str, Any]) -> dict[str, str]:
    """The cluster and the heuristics' options in words, shown with results.

    Raises:
      JaxschedError: the system's heuristics have no such option.
    """
    return {**env.facts(), **system.options.words(env, checked_options(system, options))}


def _option_names(system: System) -> list[str]:
    return [option.name for option in fields(system.environment)]


# Jobs


def traces(system: System) -> TraceSet:
    """Traces of evaluations without a recipe.

    Raises:
      JaxschedError: the system has no named traces.
    """
    if system.jobs.traces is not None:
        return system.jobs.traces
    if not system.jobs.workload.traces:
        raise JaxschedError(f"{system.name}: has no named traces; name a file of job tables")
    first = system.jobs.workload.traces[0].name
    return TraceSet(first, first)


def mapping(
    system: System, env: Any, *, mean_gap_s: float | None, load: float | None
) -> MappingConfig:
    """How real traces are mapped onto this system, rescaled to a gap or a load if given.

    Args:
      system: the system.
      env: the environment; a load is that of its cluster.
      mean_gap_s: mean gap between submissions; None: not given.
      load: load of the cluster; None: not given.

    Raises:
      JaxschedError: a load is given, and the cluster is unknown or has no GPUs.
    """
    gpus, jobs = env.server_gpus(), system.jobs
    if mean_gap_s is None and load is None:
        mean_gap_s = jobs.mean_gap_s
        load = jobs.load if jobs.busy_gpus is None else jobs.busy_gpus / sum(gpus)
    others = {
        "mean_gap_s": mean_gap_s,
        "load": load,
        "largest_job": env.largest_job(),
        "slots": env.gpu_slots(),
    }
    return MappingConfig.on(gpus, **others, **jobs.mapping)


# Policies without training


def with_further_columns(env: Environment, tables: Sequence[JobTable]) -> list[JobTable]:
    """Tables with the columns that a cluster needs besides, usual values where they have none."""
    usual = env.further_columns().items()
    return [
        table.with_columns(
            **{name: np.full(len(table), each) for name, each in usual if name not in table.columns}
        )
        for table in tables
    ]


def checked_options(system: System, options: Mapping[str, Any]) -> dict[str, Any]:
    """The heuristics' options, with defaults filled in.

    Raises:
      JaxschedError: the system's heuristics have no such option, or it has a bad value.
    """
    defaults, accepted = system.options.defaults, system.options.accepted
    for name, value in options.items():
        if name not in defaults:
            known = ", ".join(defaults) or "none"
            raise JaxschedError(
                f"{system.name}: heuristics have no option {name!r}; known: {known}"
            )
        values = accepted.get(name, (value,))
        if value not in values or type(value) not in map(type, values):
            words = ", ".join(map(str, values))
            raise JaxschedError(f"{system.name}: {name} is {value!r}; accepted: {words}")
    return {**defaults, **options}


def policy_info(system: System, name: str) -> Rule:
    """The record of a heuristic.

    Raises:
      JaxschedError: no such policy.
    """
    if name not in system.policies:
        known = ", ".join(system.policies)
        raise JaxschedError(f"{system.name}: unknown policy {name!r}; known are {known}")
    return system.policies[name]


def heuristic(
    system: System, name: str, env: Any, num_jobs: int, options: Mapping[str, Any]
) -> Heuristic:
    """The heuristic of that name, on the cluster of ``env``.

    The same objects for equal arguments: they are static arguments of the evaluation.

    Args:
      system: the system.
      name: one of ``system.policies``.
      env: the cluster.
      num_jobs: jobs of the longest table.
      options: some of ``system.options``.

    Raises:
      JaxschedError: no such policy, or an option with a bad value.
    """
    chosen = checked_options(system, options)
    rule = policy_info(system, name)
    played = rule.plays_in(env, num_jobs, **chosen)
    return Heuristic(played, _made(name, rule.make, played, tuple(chosen.items())))


@lru_cache(maxsize=1024)
def _made(name: str, make: Any, env: Environment, options: tuple[tuple[str, Any], ...]) -> Policy:
    made = make(env, **dict(options))
    return made if isinstance(made, Policy) else greedy_scores(name, lambda _, seen: made(seen))


def policy_names(system: System, *kinds: Kind, env: Any = None) -> tuple[str, ...]:
    """Names among ``usual_policies`` of these kinds, in table order."""
    usual = usual_policies(system, env)
    return tuple(name for name in usual if system.policies[name].kind in kinds)


def usual_policies(system: System, env: Any = None) -> list[str]:
    """Names of the heuristics that are evaluated by default: all but slow ones.

    Args:
      system: the system.
      env: the cluster, for systems in which it matters; the default one if None.
    """
    return [name for name, rule in system.policies.items() if not rule.slow and rule.usual(env)]


def best_rule(system: System, names: Iterable[str]) -> str:
    """Name of the best known rule among ``names``, for comparisons to list first; empty: none.

    If several are marked best, for different options of the cluster, the system's first.
    """
    known = set(names)
    return next((name for name, rule in system.policies.items() if rule.best and name in known), "")


def teacher(system: System, name: str, env: Any) -> Policy:
    """The policy of that name for imitation in ``env``.

    Raises:
      JaxschedError: there is no policy of that name.
    """
    if system.training.teacher is not None:
        return system.training.teacher(env, name)
    return heuristic(system, name, env, system.jobs.num_jobs, {}).policy


def shipped_rule(system: System, name: str, env: Any) -> Shipped | None:
    """The shipped weights of a heuristic that has some, for export; or None."""
    shipped = system.networks.shipped
    return None if shipped is None else shipped(env, name)


# Trained policies


def saved_network(system: System, kind: str) -> str:
    """The present name of a saved kind of network."""
    return system.networks.aliases.get(kind, kind)


def network(system: System, env: Any, kind: str) -> Network:
    """The network of that kind.

    Raises:
      JaxschedError: no such kind, or there is no network with a score for each action.
    """
    return system.networks.policy(env, kind)


def network_policy(system: System, env: Any, kind: str, name: str, play: Play) -> Policy:
    """The policy whose weights are the parameters of that network.

    The same object at each call, so that evaluations are compiled once.
    """
    if system.networks.policy_of is not None:
        return system.networks.policy_of(env, kind, name, play)
    real = isinstance(env.action_spec(None), ArraySpec)
    return scoring(network(system, env, kind), name, "output" if real else play)


def init_weights(system: System, env: Any, kind: str, params: Any) -> PyTree:
    """Network parameters of the right structure, shapes and dtypes (values arbitrary)."""
    return initial(system, env, kind, jax.random.key(0), env.specs(params))


def initial(system: System, env: Any, kind: str, key: PRNGKey, specs: Specs) -> PyTree:
    """Initial weights of that network for training."""
    if system.networks.init is not None:
        return system.networks.init(env, kind, key, specs)
    return network(system, env, kind).init(key, specs.observation.zeros()[None])


def weights_spec(system: System, env: Any, kind: str, params: Any) -> PyTree:
    """``init_weights`` as ``jax.ShapeDtypeStruct`` leaves on the default device."""
    spec = jax.eval_shape(lambda: init_weights(system, env, kind, params))
    here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=here), spec)


def array_policy(system: System, env: Any, kind: str) -> ArrayPolicy | None:
    """The policy as a function of named arrays, for policies that are more than scores; or None.

    None: the policy depends on the network's scores and the mask alone.
    """
    arrays = system.networks.arrays
    return None if arrays is None else arrays(env, kind)


_MAKE = {"greedy": greedy_scores, "sampled": sampled_scores, "output": real_outputs}


def scoring(scores: Any, name: str, play: str) -> Policy:
    """The policy of a network's scores; the same object for equal networks that can be hashed."""
    try:
        hash(scores)
    except TypeError:
        return _kept_scoring.__wrapped__(scores, name, play)
    return _kept_scoring(scores, name, play)


@lru_cache(maxsize=64)
def _kept_scoring(scores: Any, name: str, play: str) -> Policy:
    return _MAKE[play](name, scores.apply)


# Evaluations


def play(
    system: System,
    env: Any,
    policy: Policy,
    params: Any,
    weights: PyTree = (),
    *,
    schedule: Sequence[int] = (),
    key: PRNGKey | None = None,
) -> Played:
    """Evaluate one policy on every episode of ``params``.

    Args:
      system: the system.
      env: the environment.
      policy: the decision rule.
      params: environment parameters.
      weights: the policy's network parameters, if it has any.
      schedule: episodes whose schedule to return.
      key: for policies and environments that draw; that of seed 0 by default.

    Raises:
      JaxschedError: an episode did not end within the environment's step bound.
    """
    log, env = system.log, system.log.evaluation(env)
    episodes = np.arange(env.num_episodes(params))
    recorder: Recorder = log.recording(env).recorder if len(schedule) else log.recorder(env)
    outcome = run_episodes(
        env,
        policy,
        recorder,
        params,
        to_device(episodes, jnp.int32),
        jax.random.key(0) if key is None else key,
        weights,
    )
    if not bool(jnp.all(outcome.finished)):
        raise JaxschedError(f"{policy.name}: an episode did not end within its step bound")
    records = jax.tree.map(np.asarray, outcome.records)
    return Played(
        log.metrics(env, params, episodes, records),
        log.curves(records),
        schedules(system, env, params, episodes, records, schedule),
    )


def schedules(
    system: System, env: Any, params: Any, episodes: Any, records: Any, wanted: Sequence[int]
) -> list[Schedule]:
    """Schedules of the listed episodes from their records; empty if records do not suffice.

    The caller fills in the names of policy and episode.

    Args:
      system: the system.
      env: the environment the records come from.
      params: its parameters.
      episodes: int ``[E]``, indices of the episodes.
      records: of the recorder of ``system.log.recording``, leaves ``[E, ...]``.
      wanted: indices into ``episodes``.
    """
    schedule, found = system.log.recording(env).schedule, []
    for index in wanted:
        one = jax.tree.map(lambda leaf, at=index: np.asarray(leaf)[at], records)
        found.append(schedule(env, params, int(episodes[index]), Trajectory(one)))
    return [made for made in found if made is not None]


def metric(system: System, name: str) -> Metric:
    """Label, unit, direction and meaning of a metric."""
    own = system.metrics.own
    return own[name] if name in own else METRICS[name]


def score(system: System, played: Played, tables: Sequence[JobTable]) -> float:
    """The score by which policies are chosen: the mean of the primary metric over the episodes.

    A job that did not finish before its episode was cut counts as ``system.metrics.unfinished``.
    """
    if system.metrics.score is not None:
        return system.metrics.score(played)
    values = np.asarray(played.metrics[system.metrics.primary], np.float64)
    if system.metrics.unfinished is not None:
        done = np.asarray(played.metrics["finished"], np.float64)
        total = np.array([len(table) for table in tables], np.float64)
        values = (values * done + system.metrics.unfinished * (total - done)) / total
    return float(values.mean())


def score_sign(system: System) -> float:
    """1 where a higher score is the better one, -1 where a lower one is."""
    return 1.0 if metric(system, system.metrics.primary).better == "higher" else -1.0


def best_of(system: System, scores: Sequence[float | None]) -> int:
    """Index of the best score, the first of equals; 0 if no score is known."""
    sign = score_sign(system)
    known = [
        (sign * score, -place)
        for place, score in enumerate(scores)
        if isinstance(score, int | float) and not math.isnan(score)
    ]
    return -max(known)[1] if known else 0


# Front ends


def cluster_reader(system: System) -> ClusterReader[Any]:
    """The reader of cluster snapshots in JSON.

    Raises:
      JaxschedError: the system has no reader.
    """
    if system.front_end.reader is None:
        raise JaxschedError(
            f"{system.name}: its policies cannot be served, for it does not say how a cluster is "
            "described in JSON (no front_end in its System record); accepted: a policy of a system "
            "that does"
        )
    return system.front_end.reader()


def cluster_arrays(system: System, env: Any) -> ClusterArrays | None:
    """Arrays that describe a cluster, for exports; None: the system has none."""
    arrays = system.front_end.arrays
    return None if arrays is None else arrays(env)
