"""Everything that has a name: systems, policies, presets, traces, trained policies, learners."""

from collections.abc import Sequence
from typing import Any

from jaxsched.exports.manifest import read_manifest
from jaxsched.runs import saved_policies
from jaxsched.systems import functions, presets, registry
from jaxsched.systems.stages import budget
from jaxsched.systems.system import System

LEARNERS = {
    "dqn": "deep Q-network: target network, double, n-step, prioritised replay",
    "imitation": "supervised learning of a teacher's decisions, live or recorded",
    "actor_critic": "REINFORCE actor-critic with prioritised replay, federated clusters",
    "ppo": "proximal policy optimisation (PPO, MAPPO): one agent or several, any actions",
    "branching": "policy iteration: alternatives are tried on copies of a state",
    "regression": "supervised learning of a teacher's numbers or of the order they imply",
    "cross_entropy": "cross-entropy method over whole episodes, with a uniform trajectory",
    "evolution": "cross-entropy search over the parameters of small policies",
}

HIDDEN = "what no scheduler can know"


def catalogue(systems: Sequence[str] = ()) -> dict[str, Any]:
    """The catalogue as values of JSON, for a table or a file.

    Args:
      systems: the systems to list; by default all, and learners and workloads.

    Returns:
      ``systems``: a record for each (:func:`of_system`); without ``systems`` also ``learners`` and
      ``workloads`` (drawn like a real cluster's), name -> what it is.

    Raises:
      JaxschedError: an unknown system.
    """
    from jaxsched.traces import clusters

    wanted = [registry.get(name) for name in systems or registry.names()]
    found: dict[str, Any] = {"systems": [of_system(system) for system in wanted]}
    if not systems:
        found["learners"] = dict(LEARNERS)
        found["workloads"] = {name: clusters.describe(name) for name in clusters.names()}
    return found


def of_system(system: System) -> dict[str, Any]:
    """Everything of a system that has a name.

    Returns:
      ``name``, ``title``, ``decides``, ``source``, ``metric`` (the primary one), and lists of
      records: ``policies`` (name, kind, description, knows, slow), ``presets`` (name, purpose,
      takes, env_steps of one seed, trained_on, tested_on), ``sizes`` (presets of which other
      clusters are called NAME-SIZE; size -> cluster), ``traces`` (name, description, drawn or
      shipped) and ``pretrained`` (name, cluster, preset, description).
    """
    return {
        "name": system.name,
        "title": system.title,
        "decides": system.decides,
        "source": system.paper.source,
        "metric": system.metrics.primary,
        "policies": _policies(system),
        "presets": _presets(system),
        "sizes": {name: size.cluster for name, size in system.recipes.sizes.items()},
        "traces": [
            {
                "name": trace.name,
                "description": trace.description,
                "origin": "drawn" if trace.seeded else "shipped",
            }
            for trace in system.jobs.workload.traces
        ],
        "pretrained": [_pretrained(system, name) for name in saved_policies.shipped(system)],
    }


def _policies(system: System) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "kind": info.kind,
            "description": info.description,
            "knows": "; ".join(filter(None, (info.knows, HIDDEN if info.clairvoyant else ""))),
            "clairvoyant": info.clairvoyant,
            "slow": info.slow,
        }
        for name, info in system.policies.items()
    ]


def _presets(system: System) -> list[dict[str, Any]]:
    rows = []
    for name, recipe in presets.all_recipes(system).items():
        info, traces = presets.preset_info(system, name), presets.recipe_traces(system, recipe)
        rows.append(
            {
                "name": name,
                "purpose": info.purpose,
                "takes": info.takes or None,
                "env_steps": budget(recipe),
                "trained_on": traces.train,
                "tested_on": traces.test,
            }
        )
    return rows


def _pretrained(system: System, name: str) -> dict[str, Any]:
    """Cluster, preset and description in the manifest of a shipped policy."""
    manifest = read_manifest(saved_policies.pretrained_folder(system, name))
    environment = functions.saved_environment(system, manifest["environment"])
    preset = manifest.get("preset")
    note = system.recipes.notes.get(str(preset))
    return {
        "name": name,
        "preset": preset,
        "cluster": functions.facts(system, environment, {})["cluster"],
        "description": list(manifest.get("variants") or ([note.purpose] if note else ())),
    }
