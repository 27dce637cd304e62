"""What the commands share that order the queue of a scheduler by a policy."""

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jaxsched.cli.options import HEURISTICS, OUTPUT
from jaxsched.cli.output import console
from jaxsched.errors import JaxschedError

if TYPE_CHECKING:
    from jaxsched.queues.control import Pass, Settings
    from jaxsched.queues.jobs import Adapter

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


def order(
    adapter: "Adapter",
    settings: "Settings",
    out: Path,
    *,
    history: str | None,
    once: bool,
    restore: bool,
    keep: bool,
    metrics_port: int | None,
) -> None:
    """Order a queue until it is stopped, a line a pass, or put back what an earlier process found.

    Raises:
      JaxschedError: what the options name cannot be read, the policy fails before the first pass,
        or with ``once`` the pass fails.
    """
    from jaxsched.queues.control import Control, run
    from jaxsched.queues.past import of_log
    from jaxsched.runs.interrupts import requests
    from jaxsched.traces.loading import load
    from jaxsched.traces.trace import Trace

    say, earlier = partial(console().print, highlight=False), []
    if history is not None:
        log = load(history)
        if not isinstance(log, Trace):
            raise JaxschedError(f"{history}: holds job tables; accepted: a log of this cluster")
        earlier = of_log(log)
    control = Control(adapter, settings, out, earlier)
    if restore:
        say(f"{control.restore()} priorities put back")
        return
    count = None
    if metrics_port is not None:
        from jaxsched.queues.metrics import Metrics

        count = Metrics(metrics_port, adapter.name)

    def on_pass(done: "Pass") -> None:
        if once and done.failure:
            raise JaxschedError(done.failure)
        say(f"{datetime.now():%H:%M:%S} {done.line(settings)}")
        if count is not None:
            count(done)

    with requests() as asked:
        back = run(control, asked, on_pass, once=once, keep=keep)
    say(f"{back} priorities put back" if not once else "left as they are; --restore puts them back")
