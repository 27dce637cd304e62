"""A policy that was trained in RLTune's environment against its rules, on windows of a real log.

    python -m benchmarks.rltune_windows LOG --train RUN [--round 2] [--set NAME=VALUE ...]
    python -m benchmarks.rltune_windows LOG --policy RUN [--round 2] [--on test]

Windows are 256 consecutive jobs each, as ``jaxsched.envs.cluster.jobs.rltune_windows`` makes them
of a log such as Philly's. A round is a training and windows that neither it nor any earlier round
has played (``rounds_of``). Differences are paired, with 95 % bootstrap intervals over the windows.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

import jaxsched
from benchmarks.scripts import exit_status, table
from jaxsched.envs.cluster.jobs import RLTUNE_JOBS, rltune_jobs, rltune_windows
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.results.statistics import paired_difference
from jaxsched.traces import Trace
from jaxsched.traces.formats import load

TRAIN_SHARE, TRAIN_WINDOWS, TEST_WINDOWS, VALIDATION_WINDOWS = 0.7, 96, 100, 40
RULES = ("sjf-narrow", "f1", "spf", "fifo")
METRICS = {"avg_jct": "JCT (s)", "avg_wait": "wait (s)", "bounded_slowdown": "bounded slowdown"}


class Round(NamedTuple):
    """First jobs of windows.

    Attributes:
      train: to train on; checkpoints of a training are chosen on them as well.
      validation: to choose a training on; none in rounds 0 and 1, which had one.
      test: to compare on.
    """

    train: list[int]
    validation: list[int]
    test: list[int]


def rounds_of(num_jobs: int) -> list[Round]:
    """The windows of a log of so many jobs, always the same.

    - Round 0: 96 windows of the first 70 % of the log, drawn at random, then 100 of the rest, which
      overlap; the preset ``committed`` was settled with these in view.
    - Round 1: the same training, on 100 windows that share no job with those of round 0.
    - Round 2: what rounds 0 and 1 were tested on is trained and validated on; then 100 windows that
      share no job with it. Nothing was compared on them; round 0 was trained on some of their jobs.

    From round 1 on the windows of a test share no job with each other or with any validation.

    Raises:
      JaxschedError: the log is too short.
    """
    cut = int(TRAIN_SHARE * num_jobs)
    if cut <= RLTUNE_JOBS or num_jobs - cut <= RLTUNE_JOBS:
        raise JaxschedError(f"the log has {num_jobs} jobs; accepted: more")
    rng = np.random.default_rng(0)
    train = rng.integers(0, cut - RLTUNE_JOBS, TRAIN_WINDOWS).tolist()
    first = rng.integers(cut, num_jobs - RLTUNE_JOBS, TEST_WINDOWS).tolist()
    second = _others([*train, *first], num_jobs, rng)
    third = _others([*first, *second], num_jobs, rng)
    return [
        Round(train, [], first),
        Round(train, [], second),
        Round([*first, *second[VALIDATION_WINDOWS:]], second[:VALIDATION_WINDOWS], third),
    ]


def _others(taken: list[int], num_jobs: int, rng: np.random.Generator) -> list[int]:
    """Windows of jobs that none of the taken ones has, some of as many as there are."""
    found, free = list[int](), 0
    for first in sorted([*taken, num_jobs]):
        found += range(free, first - RLTUNE_JOBS + 1, RLTUNE_JOBS)
        free = first + RLTUNE_JOBS
    if len(found) < TEST_WINDOWS:
        raise JaxschedError(f"the log has {num_jobs} jobs; accepted: more")
    return list[int](rng.permutation(found)[:TEST_WINDOWS].tolist())


def read_jobs(path: Path) -> JobTable:
    """The jobs of a log.

    Raises:
      JaxschedError: the file is no log.
    """
    log = load(path)
    if not isinstance(log, Trace):
        raise JaxschedError(f"{path}: holds job tables; accepted: a published trace")
    return rltune_jobs(log)


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
    parser.add_argument("--seed", type=int, default=0, help="of the training")
    parser.add_argument("--round", type=int, choices=(0, 1, 2), default=2)
    parser.add_argument("--on", choices=("validation", "test"), default="test")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="of the recipe")
    arguments = parser.parse_args()
    jobs = read_jobs(arguments.log)
    chosen = rounds_of(len(jobs))[arguments.round]
    if arguments.train is not None:
        jaxsched.train(
            "cluster",
            preset="committed",
            traces=rltune_windows(jobs, chosen.train),
            test_traces=rltune_windows(jobs, chosen.test),
            seed=arguments.seed,
            out=arguments.train,
            max_time=arguments.max_time,
            set=dict(change.split("=", 1) for change in arguments.set),
        )
        print(f"trained into {arguments.train}")
        return
    print(compared(arguments.policy, rltune_windows(jobs, getattr(chosen, arguments.on))))


if __name__ == "__main__":
    sys.exit(exit_status(main))
