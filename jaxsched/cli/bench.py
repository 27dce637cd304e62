"""``jaxsched bench``: measured speed."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from jaxsched.cli.output import check_writable, console, write_json
from jaxsched.errors import JaxschedError

KINDS = ("throughput", "training", "scaling")


def bench(
    kind: Annotated[str, typer.Argument(help="throughput, or training.")] = "throughput",
    system: Annotated[str, typer.Option(help="Name of the system.")] = "sched2",
    preset: Annotated[
        str | None, typer.Option(help="Cluster and traces, or recipe, of this preset.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Three batch sizes.")] = False,
    batch: Annotated[list[int] | None, typer.Option(min=1, help="Batch size (repeat).")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Timed repeats of each row.")] = 10,
    option: Annotated[
        list[str] | None, typer.Option(help="Option of the environment: name=value (repeat).")
    ] = None,
    peers: Annotated[bool, typer.Option("--peers", help="Measure jumanji as well.")] = False,
    peer_python: Annotated[
        Path | None, typer.Option(help="Interpreter of the environment that has jumanji.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
) -> None:
    """Environment steps per second, with device, versions and compile time."""
    if kind not in KINDS:
        raise JaxschedError(f"unknown benchmark {kind!r}; known are throughput, training")
    if kind == "scaling":
        raise JaxschedError("bench scaling: is not there yet")
    if json_file is not None:
        check_writable(json_file)
    from jaxsched.bench import throughput, training
    from jaxsched.bench.tables import print_table
    from jaxsched.runs.overrides import read_options
    from jaxsched.systems import registry

    registry.get(system)

    def progress(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    if kind == "training":
        result = training.training_speed(system, preset=preset or "paper", repeats=repeats)
    else:
        usual = throughput.QUICK_BATCHES if quick else throughput.BATCHES
        result = throughput.throughput(
            system,
            preset=preset,
            batches=batch or usual,
            repeats=repeats,
            options=read_options(option or []),
            peers=peers or peer_python is not None,
            peer_python=None if peer_python is None else str(peer_python),
            progress=progress,
        )
    out = console()
    print_table(result, out)
    if json_file is not None:
        out.print(f"result written to {write_json(json_file, result)}", highlight=False)
