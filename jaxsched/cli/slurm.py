"""``jaxsched slurm``: the order of a Slurm's queue by a policy."""

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jaxsched.cli.options import HEURISTICS, OUTPUT
from jaxsched.cli.output import console
from jaxsched.errors import JaxschedError

if TYPE_CHECKING:
    from jaxsched.slurm.control import Pass

LIMITS = "Limits"
LARGEST_PORT = 65535

Rule = Annotated[
    str,
    typer.Option(
        help="fifo, lrf, sjf-est, spf-est, qssf, learned or learned-once.",
        rich_help_panel=HEURISTICS,
    ),
]
History = Annotated[
    str | None,
    typer.Option(
        help="Log of ended jobs that forecasts begin with, such as sacct writes it.",
        show_default="none",
        rich_help_panel=HEURISTICS,
    ),
]
Every = Annotated[
    str, typer.Option(help="Time from pass to pass (seconds, 2m).", rich_help_panel=LIMITS)
]
LongestWait = Annotated[
    str,
    typer.Option(
        help="Who has waited so long goes first, by submission (12h, 2d).", rich_help_panel=LIMITS
    ),
]
MostChanges = Annotated[
    int,
    typer.Option(min=1, help="Priorities that one pass sets at most.", rich_help_panel=LIMITS),
]
Partition = Annotated[
    str | None,
    typer.Option(
        help="Order the jobs of this one alone.", show_default="all", rich_help_panel=LIMITS
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Set nothing; log what would be.", rich_help_panel=LIMITS)
]
Once = Annotated[bool, typer.Option("--once", help="One pass, and leave it so.")]
Restore = Annotated[
    bool, typer.Option("--restore", help="Put back what an earlier process found, and end.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Do not put priorities back at the end.")]
Folder = Annotated[
    Path,
    typer.Option(help="Folder of decisions.jsonl and what is kept.", rich_help_panel=OUTPUT),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=LARGEST_PORT,
        help="Serve Prometheus' metrics here, on this machine.",
        show_default="none",
        rich_help_panel=OUTPUT,
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
    from jaxsched.runs.interrupts import read_time, requests
    from jaxsched.slurm.client import Slurm
    from jaxsched.slurm.control import Control, Settings, run
    from jaxsched.slurm.past import of_log
    from jaxsched.traces.loading import load
    from jaxsched.traces.trace import Trace

    settings = Settings(
        policy, read_time(every), read_time(longest_wait), most_changes, partition, dry_run
    )
    earlier = []
    if history is not None:
        log = load(history)
        if not isinstance(log, Trace):
            raise JaxschedError(f"{history}: holds job tables; accepted: a log of this Slurm")
        earlier = of_log(log)
    control = Control(Slurm(), settings, out, earlier)
    say = partial(console().print, highlight=False)
    if restore:
        say(f"{control.restore()} priorities put back")
        return
    count = None
    if metrics_port is not None:
        from jaxsched.slurm.metrics import Metrics

        count = Metrics(metrics_port)

    def on_pass(done: "Pass") -> None:
        say(f"{datetime.now():%H:%M:%S} {done.line(settings)}")
        if count is not None:
            count(done)

    with requests() as asked:
        back = run(control, asked, on_pass, once=once, keep=keep)
    say(f"{back} priorities put back" if not once else "left as they are; --restore puts them back")
