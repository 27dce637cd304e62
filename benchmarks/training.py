"""Environment and gradient steps per second of full training.

    python -m benchmarks.training [SYSTEM] [--preset paper] [--set path=value ...] [--json FILE]

A preset whose learner waits for more experience than the warm-up gives has to be told to begin
earlier (``--set learner.learning_starts=...``), or no gradient steps are timed.
"""

import argparse
import sys

from jaxsched.runtime import prepare_cpu


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", nargs="?", default="sched2")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--set", dest="overrides", action="append", help="path=value", default=[])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--updates", type=int, default=20, help="updates per repeat")
    words = "updates before the first repeat; two repeats' worth at least"
    parser.add_argument("--warm-up", type=int, default=20, help=words)
    parser.add_argument("--json", metavar="FILE", help="write the result here")
    arguments = parser.parse_args()

    prepare_cpu()
    from jaxsched.bench.tables import print_table
    from jaxsched.bench.training import training_speed
    from jaxsched.cli.output import check_writable, console, write_json
    from jaxsched.errors import JaxschedError

    try:
        if arguments.json:
            check_writable(arguments.json)
        result = training_speed(
            arguments.system,
            preset=arguments.preset,
            overrides=tuple(arguments.overrides),
            repeats=arguments.repeats,
            updates_per_repeat=arguments.updates,
            warm_up_updates=arguments.warm_up,
        )
    except JaxschedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print_table(result, console())
    if arguments.json:
        write_json(arguments.json, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
