"""Trained policies on disk: a run directory, one seed's policy inside it, or a hand-over folder."""

import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

from jaxsched.arguments import argument
from jaxsched.core.policies import Play
from jaxsched.errors import JaxschedError
from jaxsched.exports.hand_over import load_export
from jaxsched.exports.manifest import read_manifest
from jaxsched.exports.weights import named_weights, unnamed
from jaxsched.jobs import from_records
from jaxsched.results.comparison import Learned
from jaxsched.runs import checkpoints
from jaxsched.systems import functions
from jaxsched.systems.system import System
from jaxsched.types import PyTree

PRETRAINED = "pretrained"
"""Stands for the policy that comes with the system, in place of a path."""


class Saved(NamedTuple):
    """One seed's policy and the facts it was saved with."""

    weights: PyTree
    meta: dict[str, Any]


def load(path: str | Path, system: System, name: str | None = None) -> tuple[Learned, list[Saved]]:
    """Load the trained policies under a path.

    Args:
      path: a run directory (all its seeds), one of its ``policies/seedN`` folders, a hand-over
        folder, or ``pretrained`` for the one that comes with the system.
      system: the system they must be of.
      name: name of the policy; that of the run directory if absent.

    Raises:
      JaxschedError: nothing there, or of another system or behaviour version.
    """
    path = Path(path)
    if is_pretrained(path) or (path / "manifest.json").is_file():
        return load_handed_over(path, system, name)
    folders = policy_folders(path, system.name)
    expected = {"system": system.name, "behaviour_version": system.environment.behaviour_version}
    saved, env, network, play = [], None, "", "greedy"
    for folder in folders:
        meta = checkpoints.read_meta(folder)
        if meta.get("system") != system.name:
            raise JaxschedError(
                f"{path}: was trained on {meta.get('system')!r}, not on {system.name!r}"
            )
        if missing := {"environment", "network", "seed"} - meta.keys():
            raise JaxschedError(f"{folder}: is no trained policy: lacks {min(missing)!r}")
        env = functions.saved_environment(system, meta["environment"])
        network, play = (
            functions.saved_network(system, str(meta["network"])),
            str(meta.get("play", "greedy")),
        )
        target = functions.weights_spec(system, env, network, smallest_params(system, env))
        weights, meta = checkpoints.restore(folder, target, expected=expected)
        saved.append(Saved(weights, meta))
    assert env is not None
    label = name or _label(path)
    weights = [entry.weights for entry in saved]
    return Learned(label, env, network, weights, play), saved  # type: ignore[arg-type]


def is_run(place: str | Path) -> bool:
    """Whether a place is (in) a run directory, not a hand-over folder nor a shipped policy."""
    return not is_pretrained(place) and not (Path(place) / "manifest.json").is_file()


def policy_folders(path: Path, system: str = "") -> list[Path]:
    """The folders of a run's policies, by seed, or of the one policy that the path is.

    Args:
      path: a run directory, or one of its ``policies/seedN`` folders.
      system: name of the system that is wanted, for the message.

    Raises:
      JaxschedError: there is none.
    """
    folders = sorted((path / "policies").glob("seed*"), key=lambda p: (len(p.name), p.name))
    if not any(checkpoints.steps(folder) for folder in folders or [path]):
        command = f"jaxsched train {system}".rstrip()
        if (path / "config.json").is_file():
            raise JaxschedError(
                f"{path}: this run has no policy yet: it ended{_progress(path)} before the first "
                "evaluation, which chooses one; go on with its command and "
                f"{argument('resume')}, or evaluate more often ({argument('set')} evaluate_every=N)"
            )
        raise JaxschedError(
            f"{path}: holds no trained policy; expected a run directory of '{command}' or a "
            "policies/seedN folder inside one"
        )
    return folders or [path]


def _progress(path: Path) -> str:
    """How far the last stage of a run is, or the first that is under way: `` after update 25``."""
    folders = [path, *sorted((path / "stages").glob("*"))]
    updates = [max(checkpoints.steps(folder / "checkpoints"), default=0) for folder in folders]
    return f" after update {max(updates)}" if max(updates) else ""


def system_of(path: str | Path) -> str:
    """Name of the system that the trained policies under a path are of.

    Args:
      path: a run directory, one of its ``policies/seedN`` folders, or a hand-over folder.

    Raises:
      JaxschedError: nothing there, or the path does not tell.
    """
    path = Path(path)
    if is_pretrained(path):
        raise JaxschedError(f"{path}: comes with several systems; name one")
    if (path / "manifest.json").is_file():
        name = read_manifest(path).get("system")
    else:
        name = checkpoints.read_meta(policy_folders(path)[0]).get("system")
    if not isinstance(name, str):
        raise JaxschedError(f"{path}: does not tell its system; found {name!r}")
    return name


def best_seed(system: System, saved: Sequence[Saved]) -> int:
    """Index of the policy that scored best on the traces it was chosen by; the first if unknown."""
    return functions.best_of(system, scores_of(system, saved))


def scores_of(system: System, saved: Sequence[Saved]) -> list[float | None]:
    """Scores of policies on the traces that they were chosen by; None where it is not known."""
    return [entry.meta.get(system.metrics.primary) for entry in saved]


def is_pretrained(path: str | Path) -> bool:
    """Whether a policy that comes with the system is meant, not a folder of that name."""
    name = str(path)
    named = name == PRETRAINED or (name.startswith(f"{PRETRAINED}-") and "/" not in name)
    return named and not os.path.exists(path)


def pretrained_folder(system: System, name: str = PRETRAINED) -> Path:
    """The hand-over folder of a policy that comes with the system.

    Args:
      system: the system.
      name: ``pretrained``, or ``pretrained-`` and what the policy is for.

    Raises:
      JaxschedError: none of that name does.
    """
    names = shipped(system)
    if name not in names:
        known = f"; there are {', '.join(names)}" if names else ""
        raise JaxschedError(f"{system.name}: comes without a policy {name!r}{known}")
    return _package_of(system) / name


def shipped(system: System) -> tuple[str, ...]:
    """Names of the trained policies that come with the system."""
    folders = sorted(_package_of(system).glob(f"{PRETRAINED}*/manifest.json"))
    return tuple(path.parent.name for path in folders)


def _package_of(system: System) -> Path:
    return Path(inspect.getfile(system.environment)).parent


def load_handed_over(
    path: str | Path, system: System, name: str | None = None
) -> tuple[Learned, list[Saved]]:
    """Load the policy of a hand-over folder, or one that comes with the system.

    Args:
      path: the folder, or ``pretrained``.
      system: the system that it must be of.
      name: name of the policy; that of the folder if absent.

    Raises:
      JaxschedError: nothing there, or of another system or behaviour version.
    """
    path = Path(path)
    path = pretrained_folder(system, str(path)) if is_pretrained(path) else path
    expected = {"system": system.name, "behaviour_version": system.environment.behaviour_version}
    manifest, weights = load_export(path, expected=expected)
    kind, play = manifest.get("network_kind"), manifest.get("play")
    if kind is None or play not in get_args(Play):
        raise JaxschedError(
            f"{path}: does not tell its kind of network and how it plays; export it again"
        )
    options = manifest.get("environment")
    if not isinstance(options, dict):
        raise JaxschedError(f"{path}: is damaged: its environment is no list of options")
    env = functions.saved_environment(system, options)
    network = functions.saved_network(system, str(kind))
    target = functions.weights_spec(system, env, network, smallest_params(system, env))
    try:
        weights = unnamed(target, named_weights(weights))
    except JaxschedError as error:
        raise JaxschedError(f"{path}: its weights do not fit the network {network!r}") from error
    learned = Learned(name or _label(path), env, network, [weights], cast(Play, play))
    return learned, [Saved(weights, manifest)]


def _label(path: Path) -> str:
    resolved = path.resolve()
    return resolved.name if resolved.parent.name != "policies" else resolved.parents[1].name


def smallest_params(system: System, env: Any) -> Any:
    """Parameters of an environment with the smallest job that any system takes."""
    job = {"submit_time": 0, "num_gpus": 1, "duration": 60, "model": 0}
    tables = system.jobs.adapted([from_records([job])])
    return env.params(functions.with_further_columns(env, tables))
