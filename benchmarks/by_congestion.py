r"""A policy against another, episode by episode, from the quietest to the most congested tenth.

    jaxsched compare sched2 --policies strict,strict_sif --checkpoint RUN \
        --trace sched2-mixed --trace-seed 77 --num-traces 100 --json RESULT.json
    python -m benchmarks.by_congestion RESULT.json --policy RUN_NAME --against strict_sif \
        --ranked-by strict [--groups 10] [--metrics avg_jct,makespan] [--json FILE]

Reads what ``jaxsched compare --json`` wrote. Episodes are ranked by the first of the metrics, a
completion time, under a third policy, so that neither of the two chooses the episodes it is judged
on. Intervals are 95 % bootstraps of the paired difference over the episodes of a group; changes are
ratios of means.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status, read_json
from jaxsched.errors import JaxschedError
from jaxsched.report.schema import check
from jaxsched.results.statistics import paired_difference, ratio_interval

RATIOS = ("avg_jct", "makespan")
OWN = ("episodes", "count", "means", "difference")
"""What a row says beside its ratios."""


def main() -> None:
    """Print the table, write it as JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("comparison", type=Path)
    parser.add_argument("--policy", required=True)
    parser.add_argument("--against", required=True)
    parser.add_argument("--ranked-by", required=True, help="policy whose JCT ranks the episodes")
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--metrics", default=",".join(RATIOS), help="the first one ranks")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result: Any = check(read_json(arguments.comparison))
    rows = table_of(
        result,
        arguments.policy,
        arguments.against,
        arguments.ranked_by,
        arguments.groups,
        tuple(arguments.metrics.split(",")),
    )
    print(f"{arguments.policy} against {arguments.against}, {result['episodes']['source']}")
    for row in rows:
        print(text_of(row))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def table_of(
    result: dict[str, Any],
    policy: str,
    against: str,
    ranked_by: str,
    groups: int,
    ratios: tuple[str, ...] = RATIOS,
) -> list[dict[str, Any]]:
    """One row for all episodes, then one per group, the most congested last.

    Args:
      result: a comparison (``jaxsched.report.schema``).
      policy: what is judged.
      against: what it is judged against.
      ranked_by: the policy whose average completion time ranks the episodes.
      groups: number of groups of equal size.
      ratios: metrics whose ratios are shown; the first one ranks.

    Raises:
      JaxschedError: no such policy or metric, or fewer episodes than groups.
    """
    values = {
        name: {metric: _of(result, name, metric) for metric in (result["primary"], *ratios)}
        for name in (policy, against, ranked_by)
    }
    ranked = values[ranked_by][ratios[0]]
    if not 1 <= groups <= ranked.shape[1]:
        raise JaxschedError(f"--groups is {groups}; accepted: 1 to {ranked.shape[1]} episodes")
    parts = {"all": by_rank(ranked, 1)[0]}
    parts |= {f"{i} of {groups}": part for i, part in enumerate(by_rank(ranked, groups), 1)}
    return [
        _row(name, part, values[policy], values[against], result["primary"], ratios)
        for name, part in parts.items()
    ]


def by_rank(values: Any, groups: int) -> list[Any]:
    """Episodes in groups of equal size, ascending by their mean over the seeds of ``[S, E]``."""
    return np.array_split(np.argsort(values.mean(axis=0), kind="stable"), groups)


def _row(
    name: str, part: Any, left: Any, right: Any, primary: str, ratios: tuple[str, ...]
) -> dict[str, Any]:
    difference = paired_difference(left[primary][:, part], right[primary][:, part])
    row: dict[str, Any] = {
        "episodes": name,
        "count": len(part),
        "means": [float(side[primary][:, part].mean()) for side in (left, right)],
        "difference": [difference.estimate, difference.low, difference.high],
    }
    for metric in ratios:
        ratio = ratio_interval(left[metric][:, part], right[metric][:, part])
        row[metric] = [ratio.estimate, ratio.low, ratio.high]
    return row


def _of(result: dict[str, Any], policy: str, metric: str) -> Any:
    """A metric of a policy, float64 ``[seeds, episodes]``."""
    entries = {entry["name"]: entry["metrics"] for entry in result["policies"]}
    if policy not in entries:
        raise JaxschedError(f"no policy {policy!r} in the comparison; it has {', '.join(entries)}")
    if metric not in entries[policy]:
        raise JaxschedError(f"the comparison has no {metric}")
    return np.atleast_2d(np.asarray(entries[policy][metric], np.float64))


def text_of(row: dict[str, Any]) -> str:
    """A row as a line."""
    estimate, low, high = row["difference"]
    words = [
        f"{row['episodes']:>9} ({row['count']:3d})",
        f"{estimate:+.4f} [{low:+.4f}, {high:+.4f}]",
    ]
    for metric in [name for name in row if name not in OWN]:
        ratio, least, most = (100 * (x - 1) for x in row[metric])
        words.append(f"{metric} {ratio:+.2f} % [{least:+.2f}, {most:+.2f}]")
    return "  ".join(words)


if __name__ == "__main__":
    sys.exit(exit_status(main))
