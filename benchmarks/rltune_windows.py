"""A policy that was trained in RLTune's environment against its rules, on windows of a real log.

    python -m benchmarks.rltune_windows LOG --train RUN [--max-time 11m]
    python -m benchmarks.rltune_windows LOG --policy RUN [--seed 0] [--windows 100]

Windows are 256 consecutive jobs each, as ``jaxsched.envs.cluster.traces.rltune_windows`` makes them
of a log such as Philly's. A policy is trained, and chosen, on windows of the log's first 70 %
and compared on others of its last 30 %; first jobs are drawn at random. Differences are paired,
with 95 % bootstrap intervals over the windows.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import jaxsched
from benchmarks.scripts import exit_status, table
from jaxsched.envs.cluster.traces import RLTUNE_JOBS, rltune_jobs, rltune_windows
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.results.statistics import paired_difference
from jaxsched.traces import Trace
from jaxsched.traces.formats import load

TRAIN_SHARE, TRAIN_WINDOWS = 0.7, 96
RULES = ("sjf-narrow", "f1", "spf", "fifo")
METRICS = {"avg_jct": "JCT (s)", "avg_wait": "wait (s)", "bounded_slowdown": "bounded slowdown"}


def windows_of(path: Path, seed: int, num_test: int) -> tuple[list[JobTable], list[JobTable]]:
    """Windows to train on, and later ones of the log to compare on.

    Raises:
      JaxschedError: the file is no log, or too short.
    """
    log = load(path)
    if not isinstance(log, Trace):
        raise JaxschedError(f"{path}: holds job tables; accepted: a published trace")
    jobs = rltune_jobs(log)
    cut = int(TRAIN_SHARE * len(jobs))
    if cut <= RLTUNE_JOBS or len(jobs) - cut <= RLTUNE_JOBS:
        raise JaxschedError(f"{path}: has {len(jobs)} jobs; accepted: a log with more")
    draw = np.random.default_rng(seed).integers
    train = rltune_windows(jobs, draw(0, cut - RLTUNE_JOBS, TRAIN_WINDOWS).tolist())
    return train, rltune_windows(jobs, draw(cut, len(jobs) - RLTUNE_JOBS, num_test).tolist())


def compared(policy: str, tables: list[JobTable]) -> str:
    """The means of a policy and of the rules, and its differences to these."""
    found = jaxsched.compare(
        "cluster", preset="committed", policies=[*RULES, policy], traces=tables
    )
    learned = next(name for name in found.policies if name not in RULES)
    rows = []
    for name in (learned, *RULES):
        row = [f"`{name}`"]
        for metric in METRICS:
            own = found.values(name, metric).reshape(-1)
            row.append(f"{own.mean():,.2f}")
            if name != learned and metric != "avg_wait":
                mine = found.values(learned, metric).reshape(-1)
                gap = paired_difference(mine, own)
                row.append(f"{gap.estimate:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]")
            elif metric != "avg_wait":
                row.append("")
        rows.append(row)
    head = ["", "JCT (s)", "learned less this one", "wait (s)", "bounded slowdown",
            "learned less this one"]  # fmt: skip
    return table(head, rows)


def main() -> None:
    """Train or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--train", type=Path, metavar="RUN", help="train into this folder")
    asked.add_argument("--policy", metavar="RUN", help="compare this policy")
    parser.add_argument("--max-time", default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--windows", type=int, default=100, help="to compare on")
    arguments = parser.parse_args()
    train, test = windows_of(arguments.log, arguments.seed, arguments.windows)
    if arguments.train is not None:
        jaxsched.train(
            "cluster",
            preset="committed",
            traces=train,
            test_traces=test,
            seed=arguments.seed,
            out=arguments.train,
            max_time=arguments.max_time,
        )
        print(f"trained into {arguments.train}")
        return
    print(compared(arguments.policy, test))


if __name__ == "__main__":
    sys.exit(exit_status(main))
