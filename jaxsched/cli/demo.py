"""``jaxsched demo``."""

from pathlib import Path
from typing import Annotated

import typer

from jaxsched.cli.options import MaxTime, StopOn
from jaxsched.cli.train import train


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Run directory.")] = Path("runs/demo"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier one.")] = False,
    max_time: MaxTime = None,
    stop_on: StopOn = None,
) -> int:
    """Train SCHED2 for a few minutes, compare it with every baseline, write a report."""
    return train(
        context, "sched2", out=out, overwrite=overwrite, max_time=max_time, stop_on=stop_on
    )
