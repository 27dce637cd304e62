"""Environment steps per second, alone and with the policy network, and jumanji's beside them.

    python -m benchmarks.throughput [SYSTEM] [--quick] [--peers] [--peer-python FILE] [--json FILE]
                                            [--option NAME=VALUE ...]

The sweep takes some minutes. See ``benchmarks/README.md`` for what is measured and how.
"""

import argparse
import sys

from jaxsched.runtime import prepare_cpu


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", nargs="?", default="sched2")
    parser.add_argument("--preset", help="take cluster and traces of this preset")
    parser.add_argument("--quick", action="store_true", help="three batch sizes")
    parser.add_argument("--batches", type=int, nargs="+", help="batch sizes to measure")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="of the environment"
    )
    parser.add_argument(
        "--figures", nargs="+", default=None, help="environment, policy; both by default"
    )
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--peers", action="store_true", help="measure jumanji's JobShop-v0 as well")
    parser.add_argument("--peer-python", metavar="FILE", help="interpreter that has jumanji")
    parser.add_argument("--json", metavar="FILE", help="write the result here")
    arguments = parser.parse_args()

    prepare_cpu()
    from jaxsched.bench import throughput
    from jaxsched.bench.tables import print_table
    from jaxsched.cli.output import check_writable, console, write_json
    from jaxsched.errors import JaxschedError
    from jaxsched.runs.overrides import read_options

    try:
        if arguments.json:
            check_writable(arguments.json)
        usual = throughput.QUICK_BATCHES if arguments.quick else throughput.BATCHES
        result = throughput.throughput(
            arguments.system,
            preset=arguments.preset,
            batches=arguments.batches or usual,
            repeats=arguments.repeats,
            figures=arguments.figures or throughput.FIGURES,
            options=read_options(arguments.option),
            peers=arguments.peers or bool(arguments.peer_python),
            peer_python=arguments.peer_python,
            progress=lambda line: print(line, file=sys.stderr, flush=True),
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
