r"""Whether one result of the benchmarks is slower than another.

    python -m benchmarks.compare_results OLD NEW [--threshold 0.1] [--cpu]

OLD and NEW are files that ``jaxsched bench ... --json`` or ``benchmarks/gpu.sh`` wrote, or two
folders of such files, of which those with the same name are compared. OLD may also be what
``python -m benchmarks.kernels --target h100 --json OLD`` wrote: what is measured then stands beside
what was estimated, without a verdict. Prints a line for each row that both have. Exit status 1
where a rate has fallen by more than the threshold, 2 for bad input. With ``--cpu`` processor times
are compared instead of the clock's, for machines with other work.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.scripts import exit_status, read_json
from jaxsched.errors import JaxschedError

THRESHOLD = 0.1
SLOWER = 1
ESTIMATES = "kernels"
RATES = ("steps_per_s", "env_steps_per_s", "gradient_steps_per_s")
TIMES = {"time_to_score_s": 1.0}
PROCESSOR = {"cpu_ns_per_step": 1e9, "cpu_us_per_step": 1e6, "cpu_ms_per_update": 1e3}
"""Times by the clock and of the processor, and how many of their unit a second has."""
NAMING = ("score", "figure", "batch", "devices", "lowering", "size")
USUAL = {"devices": 1, "lowering": "vmap"}
"""What need not be said; earlier files did not."""


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
    estimated = not options.old.is_dir() and read(options.old).get("kind") == ESTIMATES
    fallen = [c for c in found if not estimated and c.ratio < 1 - options.threshold]
    for change in found:
        mark = "  SLOWER" if change in fallen else ""
        print(
            f"{change.label:60} {change.old:14,.4g} {change.new:14,.4g} {change.ratio:7.2f}{mark}"
        )
    if estimated:
        print(f"{len(found)} rows: estimated, measured, measured over estimated")
        return
    print(f"{len(fallen)} of {len(found)} rows are slower by more than {options.threshold:.0%}")
    if fallen:
        raise SystemExit(SLOWER)


def changes(old: Path, new: Path, *, cpu: bool = False) -> Iterator[Change]:
    """Rows that are in both, files paired by name where folders are given.

    Raises:
      JaxschedError: a file that holds no JSON object.
    """
    pairs = [(old, new)]
    if not old.is_dir() and new.is_dir() and read(old).get("kind") == ESTIMATES:
        pairs = [(old, path) for path in sorted(new.glob("*.json"))]
    elif old.is_dir() != new.is_dir():
        raise JaxschedError(f"{old} and {new}: accepted: two files or two folders")
    elif old.is_dir():
        names = sorted({p.name for p in old.glob("*.json")} & {p.name for p in new.glob("*.json")})
        pairs = [(old / name, new / name) for name in names]
    for one, other in pairs:
        before, after = rates_of(read(one), cpu), rates_of(read(other), cpu)
        for label in before.keys() & after.keys():
            yield Change(label, before[label], after[label])


def read(path: Path) -> dict[str, Any]:
    """A result file.

    Raises:
      JaxschedError: it cannot be read, or holds no JSON object.
    """
    found = read_json(path)
    if not isinstance(found, dict):
        raise JaxschedError(f"{path}: accepted: an object, as `jaxsched bench --json` writes it")
    return found


def rates_of(result: dict[str, Any], cpu: bool) -> dict[str, float]:
    """Things per second of the result itself and of its rows, by a label; higher is better.

    By the clock, or by processor time where asked or where a row has no other.
    """
    if result.get("kind") == ESTIMATES:
        return dict(_estimates(result["rows"]))
    about = [str(result[key]) for key in ("system", "kind", "preset") if result.get(key)]
    records: list[tuple[list[str], dict[str, Any]]] = [([], result)]
    records += [([], row) for row in result.get("rows", [])]
    for curve in result.get("curves", []):
        records += [([curve["system"], curve["axis"]], row) for row in curve["rows"]]
    found: dict[str, float] = {}
    for words, row in records:
        given = {key: row[key] for key in NAMING if key in row and row[key] != USUAL.get(key)}
        named = [f"{key} {_in_words(value)}" for key, value in given.items()]
        label = " ".join([*about, *words, *named])
        values = {} if cpu else _medians(row, RATES) | _per_second(_medians(row, TIMES), TIMES)
        values = values or _per_second(row, PROCESSOR)
        found |= {f"{label}, {key}": value for key, value in values.items() if value > 0}
    return found


def _estimates(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    """Rates that compiled programs imply, by the labels that they are measured under."""
    for row in rows:
        rate = row["steps"] / row["estimate_us"] * 1e6
        if row["program"] == "training":
            yield f"{row['system']} training {row['preset']}, env_steps_per_s", rate
        else:
            # Files of before there were lanes say neither.
            words = f"figure {row.get('figure', row['program'])} batch {row['batch']}"
            if (lowering := row.get("lowering", USUAL["lowering"])) != USUAL["lowering"]:
                words += f" lowering {lowering}"
            yield f"{row['system']} throughput {words}, steps_per_s", rate


def _medians(row: dict[str, Any], keys: Iterable[str]) -> dict[str, float]:
    """Of what was measured several times."""
    return {key: row[key]["median"] for key in keys if isinstance(row.get(key), dict)}


def _per_second(times: dict[str, Any], units: dict[str, float]) -> dict[str, float]:
    return {key: unit / times[key] for key, unit in units.items() if times.get(key)}


def _in_words(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(exit_status(main))
