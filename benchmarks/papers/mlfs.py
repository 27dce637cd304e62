"""The tables and figures of the MLFS paper (specification, section 12).

    python benchmarks/papers/mlfs.py [--quick] [--rows E1,E7] [--cluster small|real]
                                     [--run DIR ...] [--jobs 20000] [--seeds 3] [--out DIR]
                                     [--set path=value ...]

Per row a table with the paper's claims, DIR/<row>.json and DIR/<row>.png; at the end a summary.
What is finished is kept in DIR and not done again: stop with Ctrl-C and call it once more. Policies
of ``jaxsched train mlfs`` play where ``--run`` names them; else E1 and E2 train their own.
"""

import sys

from jaxsched.papers.command import main
from jaxsched.papers.mlfs.options import add_options, settings_of
from jaxsched.papers.runner import Paper


def load() -> Paper:
    """The rows of the paper."""
    from jaxsched.papers.mlfs import PAPER

    return PAPER


if __name__ == "__main__":
    sys.exit(main(load, "mlfs", __doc__, extend=add_options, read=settings_of))
