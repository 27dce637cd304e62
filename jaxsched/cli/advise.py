"""``jaxsched advise``: what a log would have been under every policy."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from jaxsched.cli.options import (
    HEURISTICS,
    OUTPUT,
    TRACES,
    Columns,
    FirstJobs,
    Format,
    JsonFile,
    OwnRigidRules,
    RigidRules,
    Timezone,
)
from jaxsched.cli.output import check_writable, console, deliver_json

LogFile = Annotated[str, typer.Argument(help="Log of a cluster, any format.", metavar="LOG")]

Cluster = Annotated[
    str | None,
    typer.Option(
        help="The cluster, servers x GPUs of each, such as 40x8, 16x2,20x8 or "
        "40x8/96/512 (CPUs, GB).",
        show_default="none; without it the most GPUs that the log had in use are told",
    ),
]

Checkpoints = Annotated[
    list[str] | None,
    typer.Option(
        help="A trained policy: run, hand-over folder, SYSTEM/pretrained (repeat).",
        show_default="none",
        rich_help_panel=HEURISTICS,
    ),
]

Shadow = Annotated[
    Path | None,
    typer.Option(
        help="What slurm or kueue --dry-run wrote of these weeks: its order is a row.",
        show_default="none",
        rich_help_panel=HEURISTICS,
    ),
]

History = Annotated[
    float | None,
    typer.Option(
        help="Share of the submissions before the jobs that count.",
        show_default="0.6",
        rich_help_panel=TRACES,
    ),
]

By = Annotated[
    str | None,
    typer.Option(
        help="Whose waits are told apart: group or user.",
        show_default="what the log has",
        rich_help_panel=OUTPUT,
    ),
]

Shown = Annotated[
    bool,
    typer.Option(
        "--names", help="Show names of groups and users, not hashes.", rich_help_panel=OUTPUT
    ),
]

Capacity = Annotated[
    bool,
    typer.Option(help="Look for the smallest cluster at equal waits.", rich_help_panel=OUTPUT),
]

Folder = Annotated[
    Path,
    typer.Option(help="Folder of advice.html, advice.json and names.json.", rich_help_panel=OUTPUT),
]


def advise(
    log: LogFile,
    servers: Cluster = None,
    policies: RigidRules = None,
    policy: OwnRigidRules = None,
    checkpoint: Checkpoints = None,
    shadow: Shadow = None,
    history: History = None,
    num_jobs: FirstJobs = None,
    format: Format = None,
    columns: Columns = None,
    timezone: Timezone = None,
    by: By = None,
    names: Shown = False,
    capacity: Capacity = True,
    out: Folder = Path("runs/advise"),
    json: JsonFile = None,
) -> None:
    """What a log would have been under every policy, against what happened and the bound."""
    from jaxsched.advice import words
    from jaxsched.advice.advising import PAGE, advise
    from jaxsched.advice.spans import HISTORY

    if json is not None:
        check_writable(json)
    screen = console()
    say = partial(screen.print, highlight=False)
    advice = advise(
        log,
        servers,
        policies=None if policies is None else policies.split(","),
        policy=tuple(policy or ()),
        checkpoint=tuple(checkpoint or ()),
        shadow=shadow,
        history=HISTORY if history is None else history,
        by=by,
        names=names,
        capacity=capacity,
        num_jobs=num_jobs,
        format=format,
        columns=columns,
        timezone=timezone,
        out=out,
        progress=say,
    )
    say("\n" + "\n".join(words.table(advice.document)) + "\n")
    for line in advice.conclusions:
        say(line)
    say(f"\npage written to {out / PAGE}")
    if json is not None:
        deliver_json(screen, json, advice.document)
