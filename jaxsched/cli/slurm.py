"""``jaxsched slurm``: the order of a Slurm's queue by a policy."""

from pathlib import Path
from typing import Annotated

import typer

from jaxsched.cli.queues import (
    LIMITS,
    DryRun,
    Every,
    Folder,
    History,
    Keep,
    LongestWait,
    MostChanges,
    Once,
    Port,
    Restore,
    Rule,
    order,
)

Partition = Annotated[
    str | None,
    typer.Option(
        help="Order the jobs of this one alone.", show_default="all", rich_help_panel=LIMITS
    ),
]


def slurm(
    policy: Rule = "learned-once",
    history: History = None,
    every: Every = "30",
    longest_wait: LongestWait = "1d",
    most_changes: MostChanges = 200,
    partition: Partition = None,
    dry_run: DryRun = False,
    once: Once = False,
    restore: Restore = False,
    keep: Keep = False,
    out: Folder = Path("runs/slurm"),
    metrics_port: Port = None,
) -> None:
    """Order the queue of a Slurm that runs, by its jobs' priorities, until it is stopped."""
    from jaxsched.queues.control import Settings
    from jaxsched.queues.slurm import Slurm
    from jaxsched.runs.interrupts import read_time

    settings = Settings(
        policy, read_time(every), read_time(longest_wait), most_changes, partition, dry_run
    )
    order(
        Slurm(),
        settings,
        out,
        history=history,
        once=once,
        restore=restore,
        keep=keep,
        metrics_port=metrics_port,
    )
