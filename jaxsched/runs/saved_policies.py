"""Trained policies on disk: a run directory, or the folder of one seed's policy inside it."""

from pathlib import Path
from typing import Any, NamedTuple

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, from_records
from jaxsched.results.comparison import Learned
from jaxsched.runs import checkpoints
from jaxsched.systems.base import System
from jaxsched.types import PyTree


class Saved(NamedTuple):
    """One seed's policy and the facts it was saved with."""

    weights: PyTree
    meta: dict[str, Any]


def load(path: str | Path, system: System, name: str | None = None) -> tuple[Learned, list[Saved]]:
    """Load the trained policies under a path.

    Args:
      path: a run directory (all its seeds) or one of its ``policies/seedN`` folders.
      system: the system they must be of.
      name: what to call the policy; that of the run directory if absent.

    Raises:
      JaxschedError: nothing there, or of another system or behaviour version.
    """
    path = Path(path)
    folders = sorted((path / "policies").glob("seed*"), key=lambda p: (len(p.name), p.name)) or [
        path
    ]
    if not any(checkpoints.steps(folder) for folder in folders):
        raise JaxschedError(
            f"{path}: holds no trained policy; expected a run directory of 'jaxsched train' or a "
            "policies/seedN folder inside one"
        )
    expected = {"system": system.name, "behaviour_version": system.behaviour_version}
    saved, env, network, play = [], None, "", "greedy"
    for folder in folders:
        meta = checkpoints.read_meta(folder)
        if meta.get("system") != system.name:
            raise JaxschedError(
                f"{path}: was trained on {meta.get('system')!r}, not on {system.name!r}"
            )
        if missing := {"environment", "network", "seed"} - meta.keys():
            raise JaxschedError(f"{folder}: is no trained policy: lacks {min(missing)!r}")
        env = system.saved_environment(meta["environment"])
        network, play = system.saved_network(str(meta["network"])), str(meta.get("play", "greedy"))
        target = system.init_weights(env, network, system.params(env, _small_tables(system)))
        weights, meta = checkpoints.restore(folder, target, expected=expected)
        saved.append(Saved(weights, meta))
    assert env is not None
    label = name or _label(path)
    weights = [entry.weights for entry in saved]
    return Learned(label, env, network, weights, play), saved  # type: ignore[arg-type]


def _label(path: Path) -> str:
    resolved = path.resolve()
    return resolved.name if resolved.parent.name != "policies" else resolved.parents[1].name


def _small_tables(system: System) -> list[JobTable]:
    """The smallest job that any system takes."""
    job = {"submit_time": 0, "num_gpus": 1, "duration": 60, "model": 0}
    return system.adapt([from_records([job])])
