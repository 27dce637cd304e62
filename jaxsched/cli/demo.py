"""``jaxsched demo``."""

from pathlib import Path
from typing import Annotated

import typer

from jaxsched.cli.options import MaxTime, StopOn
from jaxsched.cli.train import train
from jaxsched.runtime import split_cpu

SYSTEM, PRESET = "sched2", "search-short"
DEVICES = 2
"""Devices that the demo divides its episodes between, where there are as many (or two cores)."""


def demo(
    context: typer.Context,
    preset: Annotated[
        str, typer.Option(help="Another recipe of SCHED2; 'quick' is the paper's deep Q-network.")
    ] = PRESET,
    out: Annotated[Path, typer.Option(help="Run directory.")] = Path("runs/demo"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier one.")] = False,
    max_time: MaxTime = None,
    stop_on: StopOn = None,
) -> int:
    """Train SCHED2 for a minute, compare it with every rule, write a report."""
    split_cpu(DEVICES)
    import jax

    return train(
        context,
        SYSTEM,
        preset=preset,
        out=out,
        overwrite=overwrite,
        max_time=max_time,
        stop_on=stop_on,
        devices=str(min(DEVICES, jax.device_count())),
    )
