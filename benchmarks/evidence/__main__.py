"""Write ``docs/results``: a page per system and a summary, from ``benchmarks/results``.

    python -m benchmarks.evidence [--out docs/results] [--check]

``--check`` writes nothing and fails where a page differs from what would be written.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.evidence import learned_readings, learners, pages, pictures
from benchmarks.evidence.systems import SYSTEMS
from benchmarks.scripts import exit_status
from jaxsched.errors import JaxschedError
from jaxsched.files import write_whole


def main() -> None:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    texts = {f"{evidence.system}.md": pages.page(evidence) for evidence in SYSTEMS}
    texts["README.md"] = pages.summary(SYSTEMS)
    texts[learners.PAGE] = learners.page()
    if options.check:
        for name, text in texts.items():
            path = options.out / name
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                raise JaxschedError(f"{path} is not up to date: run python -m benchmarks.evidence")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_whole(options.out / name, text.encode())
        print(options.out / name)
    for evidence in SYSTEMS:
        for number, contest in enumerate(evidence.contests, 1):
            if contest.ranked_by:
                pictures.by_congestion(options.out / pages.picture_name(evidence, number), contest)
        if evidence.learned_readings is not None:
            drawn = options.out / pages.readings_name(evidence)
            learned_readings.draw(drawn, evidence.learned_readings)
        for number, cost in enumerate(evidence.cost, 1):
            if pages.has_curve(cost):
                pictures.learning(options.out / pages.curve_name(evidence, number), cost.curve_file)


if __name__ == "__main__":
    sys.exit(exit_status(main))
