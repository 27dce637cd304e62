"""Exports of policies to hand-over folders."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jaxsched.core.environment import Environment
from jaxsched.errors import JaxschedError
from jaxsched.exports.forms import formats_of
from jaxsched.exports.golden import golden_rows
from jaxsched.exports.hand_over import export_policy
from jaxsched.exports.manifest import ExportFacts
from jaxsched.exports.programs import export_program, golden_decisions
from jaxsched.runs import checkpoints, saved_policies
from jaxsched.runs.overrides import change_environment
from jaxsched.runs.policies import Named
from jaxsched.systems import functions, registry
from jaxsched.systems.system import System
from jaxsched.traces import registry as traces
from jaxsched.types import ArraySpec, Feature, PyTree, action_names

GOLDEN_ROWS = 16
GOLDEN_TABLES = 4

_ORIGIN = ("seed", "trace_digests", "metrics", "preset", "variants")


class Source(NamedTuple):
    """A policy with all facts of its manifest.

    Attributes:
      system: whose it is.
      env: the environment that it plays in.
      kind: of its network.
      play: whether it takes the best action or draws one.
      weights: its own.
      origin: ``seed``, ``trace_digests``, ``metrics``, ``preset`` and ``variants``.
    """

    system: System
    env: Environment
    kind: str
    play: str
    weights: PyTree
    origin: Mapping[str, Any]


def export_found(
    found: Named,
    directory: str | Path,
    *,
    changes: Sequence[str] = (),
    format: str | Sequence[str] = "safetensors",
    seed: int | None = None,
    overwrite: bool = False,
) -> Path:
    """Export the policy of that name (``jaxsched.runs.policies.find``).

    Args:
      found: the policy.
      directory: folder to write.
      changes: of the environment of a rule, ``env.NAME=VALUE`` each.
      format: names of ``forms.FORMATS``.
      seed: which seed's policy of a run; that of the best score on the training traces if absent.
      overwrite: replace an export that is there.

    Raises:
      JaxschedError: nothing to hand over there, an option that does not go with it, or the folder
        cannot be written.
    """
    formats_of(format)
    files: dict[str, Any] = {"format": format, "overwrite": overwrite}
    if found.rule:
        if seed is not None:
            raise JaxschedError(f"{found.word}: has no seeds; accepted: a seed of a run's policies")
        env = change_environment(functions.environment(found.system), changes)
        return _export_rule(found.system, found.rule, env, directory, **files)
    if changes:
        raise JaxschedError(f"{found.word}: is for an environment of its own; without options")
    if saved_policies.is_run(found.place):
        return export_saved(found.place, directory, seed=seed, **files)
    if seed is not None:
        raise JaxschedError(f"{found.word}: has no seeds; accepted: a seed of a run's policies")
    return _export_handed_over(found.system, found.place, directory, **files)


def export_saved(
    checkpoint: str | Path,
    directory: str | Path,
    *,
    format: str | Sequence[str] = "safetensors",
    seed: int | None = None,
    overwrite: bool = False,
) -> Path:
    """Export one trained policy.

    Args:
      checkpoint: a run directory or one of its ``policies/seedN`` folders.
      directory: folder to write.
      format: names of ``forms.FORMATS``.
      seed: which seed's policy; that of the best score on the training traces if absent.
      overwrite: replace an export that is there.

    Returns:
      The folder.

    Raises:
      JaxschedError: no policy there, no such seed, or the folder cannot be written.
    """
    formats_of(format)
    path = Path(checkpoint)
    first, *_ = saved_policies.policy_folders(path)
    system = registry.get(str(checkpoints.read_meta(first).get("system")))
    learned, saved = saved_policies.load(path, system)
    wanted = [entry for entry in saved if seed in (None, entry.meta["seed"])]
    if not wanted:
        seeds = ", ".join(str(entry.meta["seed"]) for entry in saved)
        raise JaxschedError(f"{path}: has no policy of seed {seed}; seeds there are {seeds}")
    chosen = wanted[saved_policies.best_seed(system, wanted)]
    score = {f"{system.metrics.primary} (training traces)": chosen.meta[system.metrics.primary]}
    origin = {name: chosen.meta[name] for name in _ORIGIN if name in chosen.meta}
    source = Source(
        system,
        learned.env,
        learned.network,
        learned.play,
        chosen.weights,
        {"trace_digests": {}, **origin, "metrics": score},
    )
    return export_source(source, directory, format=format, overwrite=overwrite)


def _export_rule(
    system: System, name: str, env: Environment, directory: str | Path, **files: Any
) -> Path:
    rule = functions.shipped_rule(system, name, env)
    if rule is None:
        raise JaxschedError(
            f"{system.name}: {name} is a rule without weights; there is nothing to hand over"
        )
    facts = {
        "seed": 0,
        "trace_digests": {},
        "metrics": {},
        "variants": (system.policies[name].description,),
    }
    source = Source(system, rule.env, rule.kind, "greedy", rule.weights, facts)
    return export_source(source, directory, **files)


def _export_handed_over(system: System, place: str, directory: str | Path, **files: Any) -> Path:
    learned, (saved,) = saved_policies.load_handed_over(place, system)
    facts = {key: saved.meta[key] for key in _ORIGIN if key in saved.meta}
    source = Source(system, learned.env, learned.network, learned.play, saved.weights, facts)
    return export_source(source, directory, **files)


def export_source(
    source: Source,
    directory: str | Path,
    *,
    format: str | Sequence[str] = "safetensors",
    overwrite: bool = False,
) -> Path:
    """Export a policy.

    Args:
      source: the policy.
      directory: folder to write.
      format: names of ``forms.FORMATS``.
      overwrite: replace an export that is there.
    """
    system, env, kind, weights = source.system, source.env, source.kind, source.weights
    tables = traces.get(functions.traces(system).train, num_traces=GOLDEN_TABLES)[:GOLDEN_TABLES]
    params = env.params(functions.with_further_columns(env, tables))
    facts = ExportFacts(
        system=system.name,
        behaviour_version=system.environment.behaviour_version,
        environment=functions.environment_options(system, env),
        network_kind=kind,
        play=source.play,
        action="all" if isinstance(env.action_spec(params), ArraySpec) else "one",
        **source.origin,
    )
    key, files = jax.random.key(0), {"format": format, "overwrite": overwrite}
    policy = functions.array_policy(system, env, kind)
    if policy is not None:
        golden = golden_decisions(env, params, policy, weights, key)
        return export_program(
            directory,
            facts=facts,
            policy=policy,
            features=env.features(),
            actions=action_names(env.action_spec(params)),
            weights=weights,
            golden=golden,
            **files,  # type: ignore[arg-type]
        )
    network = functions.network(system, env, kind)
    spec = _named(env.observation_spec(params))
    return export_policy(
        directory,
        facts=facts,
        observation_spec=spec,
        features={**_by_name(spec), **env.features()},
        actions=action_names(env.action_spec(params)),
        network=network.describe(),
        params=weights,
        golden=golden_rows(env, params, network.apply, weights, key, GOLDEN_ROWS),
        cluster=functions.cluster_arrays(system, env),
        **files,  # type: ignore[arg-type]
    )


def _named(spec: ArraySpec) -> ArraySpec:
    """A flat observation's spec with a name for each entry: its own, or its number."""
    return (
        spec if spec.names else replace(spec, names=tuple(f"entry{i}" for i in range(*spec.shape)))
    )


def _by_name(spec: ArraySpec) -> dict[str, Feature]:
    """Features whose meaning is their name."""
    patterns = (re.sub(r"\d+", "*", name) for name in spec.names)
    return {
        pattern: Feature("as its name says", "as the environment gives it") for pattern in patterns
    }
