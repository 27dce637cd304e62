"""What passes wanted, read from the file to which they write a line each."""

import json
import math
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError

FILE = "decisions.jsonl"


def shadow_scores(place: Path) -> dict[str, dict[int, float]]:
    """The last score that each policy gave each waiting job in passes that set nothing.

    Args:
      place: the file, or the folder of ``jaxsched slurm --dry-run`` that has it.

    Returns:
      Policies, to numbers of jobs, to scores, lower first.

    Raises:
      JaxschedError: no such file, a damaged line other than the last one, or no such pass.
    """
    path = place / FILE if place.is_dir() else place
    found: dict[str, dict[int, float]] = {}
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
            f"{path}: cannot be read; accepted: the decisions of a dry run of jaxsched slurm"
        ) from error
    if not any(found.values()):
        raise JaxschedError(
            f"{path}: no pass in the shadow saw a job wait; accepted: the decisions of a dry run "
            "of jaxsched slurm"
        )
    return found


def _take(line: Any, found: dict[str, dict[int, float]]) -> None:
    scores = {
        int(number): math.inf if score is None else float(score)
        for number, score in line["scores"].items()
    }
    if line["dry_run"]:
        found.setdefault(line["policy"], {}).update(scores)
