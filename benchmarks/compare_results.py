r"""Whether one result of the benchmarks is slower than another.

    python -m benchmarks.compare_results OLD NEW [--threshold 0.1] [--cpu]

OLD and NEW are files that ``jaxsched bench ... --json`` or ``benchmarks/gpu.sh`` wrote, or two
folders of such files, of which those with the same name are compared. Prints a line for each row
that both have. Exit status 1 where a rate has fallen by more than the threshold, 2 for bad input.
With ``--cpu`` processor times are compared instead of the clock's, for machines with other work.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.scripts import exit_status
from jaxsched.errors import JaxschedError

THRESHOLD = 0.1
SLOWER = 1
RATES = ("steps_per_s", "env_steps_per_s", "gradient_steps_per_s")
PROCESSOR = {"cpu_ns_per_step": 1e9, "cpu_us_per_step": 1e6, "cpu_ms_per_update": 1e3}
"""Processor times, and how many of their unit a second has."""
NAMING = ("figure", "batch", "devices", "size")


class Change(NamedTuple):
    """A row of both files: its rates, and the new one as a share of the old."""

    label: str
    old: float
    new: float

    @property
    def ratio(self) -> float:
        """New rate over old rate."""
        return self.new / self.old


def main() -> None:
    """Print the rows; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--threshold", type=float, default=THRESHOLD, help="share of a rate; 0.1")
    parser.add_argument("--cpu", action="store_true", help="compare processor times")
    options = parser.parse_args()
    if not 0 <= options.threshold < 1:
        raise JaxschedError(f"--threshold is {options.threshold}; accepted: from 0 to below 1")
    found = list(changes(options.old, options.new, cpu=options.cpu))
    if not found:
        raise JaxschedError(f"{options.old} and {options.new} have no row in common")
    fallen = [change for change in found if change.ratio < 1 - options.threshold]
    for change in found:
        mark = "  SLOWER" if change in fallen else ""
        print(
            f"{change.label:60} {change.old:14,.4g} {change.new:14,.4g} {change.ratio:7.2f}{mark}"
        )
    print(f"{len(fallen)} of {len(found)} rows are slower by more than {options.threshold:.0%}")
    if fallen:
        raise SystemExit(SLOWER)


def changes(old: Path, new: Path, *, cpu: bool = False) -> Iterator[Change]:
    """Rows that are in both, files paired by name where folders are given.

    Raises:
      JaxschedError: a file that holds no JSON object.
    """
    if old.is_dir() != new.is_dir():
        raise JaxschedError(f"{old} and {new}: accepted: two files or two folders")
    pairs = [(old, new)]
    if old.is_dir():
        names = sorted({p.name for p in old.glob("*.json")} & {p.name for p in new.glob("*.json")})
        pairs = [(old / name, new / name) for name in names]
    for one, other in pairs:
        before, after = rates_of(read(one), cpu), rates_of(read(other), cpu)
        for label in before.keys() & after.keys():
            yield Change(label, before[label], after[label])


def read(path: Path) -> dict[str, Any]:
    """A result file.

    Raises:
      JaxschedError: it holds no JSON object.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise JaxschedError(f"{path}: no JSON ({error})") from error
    if not isinstance(found, dict):
        raise JaxschedError(f"{path}: accepted: an object, as `jaxsched bench --json` writes it")
    return found


def rates_of(result: dict[str, Any], cpu: bool) -> dict[str, float]:
    """Things per second of every row, by a label; higher is better."""
    about = [str(result[key]) for key in ("system", "kind", "preset") if result.get(key)]
    if result.get("kind") == "time-to-score":
        label, seconds = " ".join([*about, f"{result['score']:g}"]), result["time_to_score_s"]
        return {f"{label}, trainings_per_s": 1 / seconds["median"]} if seconds else {}
    curves = result.get("curves", [])
    rows: list[tuple[list[str], dict[str, Any]]] = [([], row) for row in result.get("rows", [])]
    rows += [([c["system"], c["axis"]], row) for c in curves for row in c["rows"]]
    rows += [([], result)] if not rows else []
    found: dict[str, float] = {}
    for words, row in rows:
        named = [f"{key} {row[key]}" for key in NAMING if key in row]
        label = " ".join([*about, *words, *named])
        if cpu or curves:
            values = {key: unit / row[key] for key, unit in PROCESSOR.items() if row.get(key)}
        else:
            values = {key: row[key]["median"] for key in RATES if key in row}
        values = {key: value for key, value in values.items() if value > 0}
        found |= {f"{label}, {key}": value for key, value in values.items()}
    return found


if __name__ == "__main__":
    sys.exit(exit_status(main))
