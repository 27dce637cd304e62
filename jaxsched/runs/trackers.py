"""Experiment trackers beside TensorBoard: Weights & Biases, MLflow.

Each is set up as its own documentation says, by its environment variables (``WANDB_PROJECT``,
``WANDB_MODE``; ``MLFLOW_TRACKING_URI``, ``MLFLOW_EXPERIMENT_NAME``); projects and experiments are
called ``jaxsched`` where those say nothing. A resumed run goes on in the same place.
"""

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError, needed

PROJECT = "jaxsched"


class Tracker(Protocol):
    """Receives the log of a run."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Scalars of a step."""

    def close(self) -> None:
        """The run has ended, or stopped."""


def start(names: Sequence[str], path: Path, config: Mapping[str, Any]) -> list[Tracker]:
    """Trackers by name, for the run in a folder.

    Args:
      names: ``wandb``, ``mlflow``.
      path: folder of the run; a run resumed there goes on.
      config: what the run is, as ``config.json`` holds it.

    Raises:
      JaxschedError: no such tracker, it is not installed, or it cannot start.
    """
    known: dict[str, Callable[..., Tracker]] = {"wandb": _Wandb, "mlflow": _Mlflow}
    for name in names:
        if name not in known:
            raise JaxschedError(
                f"{argument('track')} {name}: unknown; known are {', '.join(known)}"
            )
        needed(name, "trackers", packages=name)
    trackers: list[Tracker] = []
    for name in names:
        try:
            trackers.append(known[name](path, config))
        except Exception as error:  # whatever it raises where it has no account, server or network
            for started in trackers:
                started.close()
            reason = " ".join(str(error).split()) or type(error).__name__
            raise JaxschedError(f"{argument('track')} {name}: cannot start: {reason}") from error
    return trackers


def finite(values: Mapping[str, float]) -> dict[str, float]:
    """Those values that a tracker can draw."""
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _flat(config: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Settings by dotted path."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        inner = isinstance(value, Mapping)
        found |= _flat(value, f"{before}{name}.") if inner else {f"{before}{name}": value}
    return found


class _Wandb:
    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        wandb = import_module("wandb")
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=path.name,
            id=hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16],
            resume="allow",
            dir=str(path),
            config=dict(config),
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log(finite(values), step=step)

    def close(self) -> None:
        self.run.finish()


class _Mlflow:
    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        mlflow = import_module("mlflow")
        note = path / "mlflow_run_id"
        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        found = mlflow.set_experiment(experiment)
        self.client = mlflow.MlflowClient()
        if note.exists():
            self.id = note.read_text(encoding="utf-8").strip()
            self.client.get_run(self.id)
            return
        self.id = self.client.create_run(found.experiment_id, run_name=path.name).info.run_id
        for name, value in _flat(config).items():
            self.client.log_param(self.id, name, str(value)[:500])
        note.write_text(self.id, encoding="utf-8")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in finite(values).items():
            self.client.log_metric(self.id, name, value, step=step)

    def close(self) -> None:
        self.client.set_terminated(self.id)
