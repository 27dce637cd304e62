"""What passes wanted, read from the file to which they write a line each."""

import json
import math
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError

FILE = "decisions.jsonl"


def shadow_scores(place: Path) -> dict[str, dict[str, float]]:
    """The last score that each policy gave each waiting job in passes that set nothing.

    Args:
      place: the file, or the folder of a command with ``--dry-run`` that has it.

    Returns:
      Policies, to names of jobs, to scores, lower first.

    Raises:
      JaxschedError: no such file, a damaged line other than the last one, or no such pass.
    """
    path = place / FILE if place.is_dir() else place
    found: dict[str, dict[str, float]] = {}
    try:
        with path.open(encoding="utf-8") as file:
            damaged = 0
            for number, line in enumerate(file, 1):
                if damaged:
                    raise JaxschedError(f"{path}, line {damaged}: is no pass")
                try:
                    _take(json.loads(line), found)
                except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                    damaged = number  # the last line may have been cut short
    except (OSError, UnicodeError) as error:
        raise JaxschedError(
            f"{path}: cannot be read; accepted: the decisions of a dry run of jaxsched slurm "
            "or kueue"
        ) from error
    if not any(found.values()):
        raise JaxschedError(
            f"{path}: no pass in the shadow saw a job wait; accepted: the decisions of a dry run "
            "of jaxsched slurm or kueue"
        )
    return found


def _take(line: Any, found: dict[str, dict[str, float]]) -> None:
    scores = {
        job: math.inf if score is None else float(score) for job, score in line["scores"].items()
    }
    if line["dry_run"]:
        found.setdefault(line["policy"], {}).update(scores)
