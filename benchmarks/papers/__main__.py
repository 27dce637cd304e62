"""The tables and figures of a system's paper: ``python -m benchmarks.papers NAME``."""

import sys

from benchmarks.papers.command import run_paper

if __name__ == "__main__":
    sys.exit(run_paper())
