"""``jaxsched demo``."""

from pathlib import Path
from typing import Annotated

import typer

from jaxsched.cli.train import train


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Run directory.")] = Path("runs/demo"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier one.")] = False,
) -> int:
    """Train SCHED2 for a few minutes, compare it with every baseline, write a report."""
    return train(context, "sched2", out=out, overwrite=overwrite)
