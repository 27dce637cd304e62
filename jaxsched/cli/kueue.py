"""``jaxsched kueue``: the order of Kueue's queues by a policy."""

from pathlib import Path
from typing import Annotated

import typer

from jaxsched.cli.output import STDOUT, claim_stdout
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

ClusterQueue = Annotated[
    str | None,
    typer.Option(
        help="Order the workloads of this ClusterQueue alone.",
        show_default="all",
        rich_help_panel=LIMITS,
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        help="Read what kubectl printed (-: standard input) and print patches; runs no kubectl.",
        show_default="ask kubectl",
    ),
]


def kueue(
    policy: Rule = "learned-once",
    history: History = None,
    every: Every = "30",
    longest_wait: LongestWait = "1d",
    most_changes: MostChanges = 200,
    queue: ClusterQueue = None,
    read: From = None,
    dry_run: DryRun = False,
    once: Once = False,
    restore: Restore = False,
    keep: Keep = False,
    out: Folder = Path("runs/kueue"),
    metrics_port: Port = None,
) -> None:
    """Order the queues of Kueue, by its pending workloads' priorities, until it is stopped."""
    from jaxsched.queues.control import Settings
    from jaxsched.queues.kueue import Kueue, from_file
    from jaxsched.runs.interrupts import read_time

    settings = Settings(
        policy, read_time(every), read_time(longest_wait), most_changes, queue, dry_run
    )
    if read is not None:
        claim_stdout(STDOUT)
    order(
        Kueue() if read is None else Kueue(from_file(read, print)),
        settings,
        out,
        history=history,
        once=once or read is not None,
        restore=restore,
        keep=keep,
        metrics_port=metrics_port,
    )
