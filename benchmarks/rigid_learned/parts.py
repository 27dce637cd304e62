"""Workloads split by time, what is measured of a part of one, and ratios over workloads.

The jobs of a workload are split by time: the first 60 % train, the next 20 % choose, and the last
20 % are the test. Everybody replays a workload from its first job on, so that all have a history;
a part's figures are over the jobs submitted in it.
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SPLIT = (0.6, 0.8)
REAL = ("openb", "itp-02", "itp-03", "itp-04", "itp-07", "philly-4vc", "philly")
GENERATED = ("helios-venus", "helios-earth", "helios-saturn", "helios-uranus", "philly-like")
GENERATED_JOBS = 12_000
BARS = ("tiresias-decades", "las-decades", "2d-gittins", "qssf", "sjf")
RESAMPLES = 10_000
Pair = tuple[str, str]


def workloads(data: Path, share: float) -> dict[str, Any]:
    """Every workload's first jobs: name -> table, cluster and number of all jobs."""
    from jaxsched.leaderboard import WORKLOADS, prepare

    found = {}
    for workload in WORKLOADS:
        ready = prepare(workload, data, num_jobs=GENERATED_JOBS if workload.is_generated else None)
        count = len(ready.table)
        found[workload.name] = (ready.table.window(0, int(share * count)), ready.cluster, count)
    return {name: found[name] for name in (*REAL, *GENERATED)}


def report(line: str) -> None:
    """Progress, at once."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def write(file: Path, found: Mapping[str, Any]) -> None:
    """Write what was found as JSON, after the machine and the versions that found it."""
    from jaxsched.files import write_whole
    from jaxsched.provenance import surroundings

    text = json.dumps({**surroundings(), **found}, indent=1) + "\n"
    write_whole(file, text.encode())


def tell(rows: Sequence[dict[str, Any]]) -> None:
    """Print what ``compared`` has found."""
    for row in rows:
        report(
            f"{row['learned']} over {row['rule']}, {row['workloads']} workloads ({row['units']}): "
            f"geometric mean {row['ratio']:.3f}, bootstrap {words(row['bootstrap'])}, t "
            f"{words(row['t'])}, below in {row['below']}, sign test p = {row['sign_p']:.4f}"
        )


def words(interval: Sequence[float]) -> str:
    """An interval in brackets."""
    return f"[{interval[0]:.3f}, {interval[1]:.3f}]"


def of_part(
    policy: str,
    table: Any,
    cluster: Any,
    part: slice,
    predictor: Any = None,
    *,
    timed: bool = False,
) -> dict[str, Any]:
    """Figures of one policy over the jobs of a part, and the processor time of a second replay.

    Args:
      policy: its name in ``trace_replay.POLICIES``.
      table: the jobs.
      cluster: the cluster.
      part: which of them count.
      predictor: of learned orders, in place of the library's.
      timed: whether there is a second replay.
    """
    from jaxsched.trace_replay import POLICIES, replay

    found = POLICIES[policy]
    used = predictor if found.order.startswith("learned") else None
    records = replay(table, cluster, found, predictor=used)
    group = table["group"][part] if "group" in table.columns else None
    result = figures(records, part, group)
    if timed:
        began = time.process_time()
        replay(table, cluster, found, predictor=used)
        result["replay_cpu_s"] = time.process_time() - began
    return result


def compared(
    played: Mapping[str, Mapping[str, Any]],
    pairs: Sequence[Pair],
    units: Mapping[str, Sequence[str]],
) -> list[dict[str, Any]]:
    """Geometric means of the ratios of mean JCTs, with workloads as units.

    Blocks of one trace correlate too much to be units. Two intervals of 95 %: of a bootstrap over
    workloads, and Student's of the logarithms, which one outlier widens on both sides; and the
    one-sided sign test.

    Args:
      played: workload -> policy -> figures.
      pairs: who is compared with whom.
      units: what to call some workloads, and their names; those that were not played are left out.
    """
    import numpy as np
    from scipy import stats

    rows = []
    for label, names in units.items():
        there = [name for name in names if name in played]
        for learned, rule in pairs:
            means = [[played[name][who]["avg_jct"] for who in (learned, rule)] for name in there]
            logs = np.log(np.array(means)[:, 0] / np.array(means)[:, 1])
            draws = np.random.default_rng(0).choice(logs, (RESAMPLES, len(logs))).mean(axis=1)
            half = logs.std(ddof=1) / len(logs) ** 0.5 * stats.t.ppf(0.975, len(logs) - 1)
            below = int(np.sum(logs < 0))
            rows.append(
                {
                    **{"learned": learned, "rule": rule, "units": label, "workloads": len(logs)},
                    "ratio": float(np.exp(logs.mean())),
                    "bootstrap": np.exp(np.percentile(draws, [2.5, 97.5])).tolist(),
                    "t": np.exp([logs.mean() - half, logs.mean() + half]).tolist(),
                    "below": below,
                    "sign_p": float(
                        stats.binomtest(below, len(logs), alternative="greater").pvalue
                    ),
                }
            )
    return rows


def figures(records: Any, part: slice, group: Any) -> dict[str, Any]:
    """Of the jobs submitted in a part: mean and p99 JCT, p99 slowdown, worst owner, suspensions."""
    import numpy as np

    jct, duration = records.jct[part], records.duration[part]
    worst = None
    if group is not None:
        worst = max(float(jct[group == owner].mean()) for owner in np.unique(group))
    return {
        "avg_jct": float(jct.mean()),
        "p99_jct": float(np.percentile(jct, 99)),
        "p99_slowdown": float(np.percentile(jct / duration, 99)),
        "worst_group_avg_jct": worst,
        "preemptions": int(records.preemptions[part].sum()),
    }
