"""From a trained run to the hand-over folder of ``jaxsched.export.hand_over``."""

import re
from dataclasses import replace
from pathlib import Path

import jax

from jaxsched.errors import JaxschedError
from jaxsched.export.golden import golden_rows
from jaxsched.export.hand_over import PLANNED_FORMATS, export_policy
from jaxsched.export.manifest import ExportFacts
from jaxsched.runs import checkpoints, saved_policies
from jaxsched.systems import registry
from jaxsched.traces import registry as traces
from jaxsched.types import ArraySpec, Feature

GOLDEN_ROWS = 16


def export_saved(
    checkpoint: str | Path,
    directory: str | Path,
    *,
    format: str = "safetensors",
    seed: int | None = None,
    overwrite: bool = False,
) -> Path:
    """Export one trained policy.

    Args:
      checkpoint: a run directory or one of its ``policies/seedN`` folders.
      directory: folder to write.
      format: form of the weights.
      seed: which seed's policy; that of the best score on the training traces if absent.
      overwrite: replace an export that is there.

    Returns:
      The folder.

    Raises:
      JaxschedError: no policy there, no such seed, or the folder cannot be written.
    """
    if format in PLANNED_FORMATS:
        raise JaxschedError(f"export --format {format}: is not there yet; safetensors is")
    path = Path(checkpoint)
    first, *_ = saved_policies.policy_folders(path)
    system = registry.get(str(checkpoints.read_meta(first).get("system")))
    learned, saved = saved_policies.load(path, system)
    sign = 1.0 if system.metric(system.primary_metric).better == "higher" else -1.0
    ranked = sorted(saved, key=lambda entry: -sign * entry.meta[system.primary_metric])
    chosen = next((entry for entry in ranked if seed in (None, entry.meta["seed"])), None)
    if chosen is None:
        seeds = ", ".join(str(entry.meta["seed"]) for entry in saved)
        raise JaxschedError(f"{path}: has no policy of seed {seed}; seeds there are {seeds}")

    env, network = learned.env, system.network(learned.env, learned.network)
    params = system.params(env, traces.get(system.traces.train, num_traces=4)[:4])
    rows = golden_rows(env, params, network.apply, chosen.weights, jax.random.key(0), GOLDEN_ROWS)
    facts = ExportFacts(
        system=system.name,
        behaviour_version=system.behaviour_version,
        environment=system.environment_options(env),
        seed=chosen.meta["seed"],
        trace_digests=chosen.meta.get("trace_digests", {}),
        metrics={f"{system.primary_metric} (training traces)": chosen.meta[system.primary_metric]},
        preset=chosen.meta.get("preset"),
        variants=chosen.meta.get("variants", ()),
        network_kind=learned.network,
        play=learned.play,
        action="all" if isinstance(env.action_spec(params), ArraySpec) else "one",
    )
    spec = _named(env.observation_spec(params))
    return export_policy(
        directory,
        facts=facts,
        observation_spec=spec,
        features={**_by_name(spec), **system.features(env)},
        actions=system.action_names(env),
        network=network.describe(),
        params=chosen.weights,
        golden=rows,
        format=format,
        overwrite=overwrite,
    )


def _named(spec: ArraySpec) -> ArraySpec:
    """A flat observation's spec with a name for each entry: its own, or its number."""
    return (
        spec if spec.names else replace(spec, names=tuple(f"entry{i}" for i in range(*spec.shape)))
    )


def _by_name(spec: ArraySpec) -> dict[str, Feature]:
    """Entries that say no more than their names do."""
    patterns = (re.sub(r"\d+", "*", name) for name in spec.names)
    return {
        pattern: Feature("as its name says", "as the environment gives it") for pattern in patterns
    }
