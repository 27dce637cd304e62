"""The tables and figures of the DAS paper (specification, section 12).

    python benchmarks/papers/das.py [--quick] [--rows T1,F5] [--seeds 3] [--out DIR]
                                    [--set path=value ...]

Per row a table with the paper's claims, DIR/<row>.json and DIR/<row>.png; at the end a summary.
What is finished is kept in DIR and not done again: stop with Ctrl-C and call it once more.
"""

import sys

from jaxsched.papers.command import main
from jaxsched.papers.runner import Paper


def load() -> Paper:
    """The rows of the paper."""
    from jaxsched.papers.das import PAPER

    return PAPER


if __name__ == "__main__":
    sys.exit(main(load, "das", __doc__))
