"""Learned schedulers of rigid jobs: made on the beginning of traces, judged on their end.

    python -m benchmarks.rigid_learned train --data DIR --out DIR      fits and searches a predictor
    python -m benchmarks.rigid_learned judge --data DIR --out DIR      plays everybody once
    python -m benchmarks.rigid_learned transfer --data DIR --out DIR   leaves one out; one for each
    python -m benchmarks.rigid_learned family --data DIR --out DIR     leaves all of ITP out
    python -m benchmarks.rigid_learned unseen --data DIR --out DIR     clusters nobody trained on
    python -m benchmarks.rigid_learned redrawn --data DIR --out DIR    what not knowing costs
    python -m benchmarks.rigid_learned tails --data DIR --out DIR      what patience costs and gives
    python -m benchmarks.rigid_learned tables                          the page's tables

``train`` writes OUT/predictor.json; the others write a JSON file of their name, and play what comes
with the library where OUT has no predictor. See ``parts`` for the split.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from benchmarks.rigid_learned.fit import train
from benchmarks.rigid_learned.judge import judge
from benchmarks.rigid_learned.redrawn import redrawn
from benchmarks.rigid_learned.tables import tables
from benchmarks.rigid_learned.tails import tails
from benchmarks.rigid_learned.transfer import family, transfer, unseen
from benchmarks.scripts import exit_status
from jaxsched.runtime import prepare_cpu

COMMANDS = {
    "train": train,
    "judge": judge,
    "transfer": transfer,
    "family": family,
    "unseen": unseen,
    "redrawn": redrawn,
    "tails": tails,
    "tables": tables,
}
KERNEL_BYTES = 4_000_000


def main() -> int:
    """Train, or judge what was trained."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=tuple(COMMANDS))
    parser.add_argument("--data", type=Path, help="folder of public traces")
    parser.add_argument("--out", type=Path, default=Path("runs/rigid_learned"))
    parser.add_argument("--steps", type=int, default=500, help="of a fit")
    parser.add_argument("--candidates", type=int, default=12, help="of the search")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.data is None and options.what != "tables":
        parser.error("--data is needed: the folder of public traces")
    options.out.mkdir(parents=True, exist_ok=True)
    prepare_cpu(kernel_bytes=KERNEL_BYTES)
    return exit_status(partial(COMMANDS[options.what], options))


if __name__ == "__main__":
    sys.exit(main())
