"""Learning curves of finished trainings, joined as the training seeds that they are."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

COMPARISON = "comparison.json"
"""What a finished training leaves in its folder."""
AXES = ("x_label", "y_label", "metric")


def of_runs(folders: Sequence[Path]) -> dict[str, Any] | None:
    """One learning curve with the seeds of all folders.

    Args:
      folders: of trained policies.

    Returns:
      A curve as in a training's comparison; the levels of rules, which are of the validation
      traces, are the first folder's. None unless every folder is of a finished training and all
      curves have the same axes.
    """
    curves = [_curve(folder) for folder in folders]
    known = [curve for curve in curves if curve]
    if not known or len(known) < len(curves):
        return None
    first = known[0]
    if any(curve.get(axis) != first.get(axis) for curve in known for axis in AXES):
        return None
    return first | {"series": [series for curve in known for series in curve["series"]]}


def _curve(folder: Path) -> dict[str, Any] | None:
    path = folder / COMPARISON
    if not path.is_file():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    curve = document.get("learning_curve") if isinstance(document, dict) else None
    return curve if curve and curve.get("series") else None
