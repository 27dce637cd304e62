"""``jaxsched leaderboard``: every policy of rigid jobs on common workloads, beside lower bounds."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxsched.arguments import LARGEST, LARGEST_SEED
from jaxsched.cli.completion import complete_trace, complete_workload
from jaxsched.cli.options import (
    OUTPUT,
    TRACES,
    Columns,
    FirstJobs,
    Format,
    JsonFile,
    OwnRigidRules,
    RigidRules,
    Timezone,
    tell_old,
)
from jaxsched.cli.output import STDOUT, check_writable, console, deliver_json
from jaxsched.experiment.options import TraceOptions
from jaxsched.files import make_folder

if TYPE_CHECKING:
    from jaxsched.leaderboard.cells import Cell, Record

FILE, JOBS = "leaderboard.json", "jobs"


DataFolder = Annotated[
    Path | None,
    typer.Option(
        help="Folder of public traces.",
        show_default="none: generated ones only",
        rich_help_panel=TRACES,
    ),
]

Workloads = Annotated[
    str | None,
    typer.Option(
        help="Names with commas between.",
        show_default="all that can be had",
        rich_help_panel=TRACES,
        autocompletion=complete_workload,
    ),
]

MoreTraces = Annotated[
    list[str] | None,
    typer.Option(
        help="One more trace: named trace, job table file, or log of any format (repeat).",
        rich_help_panel=TRACES,
        autocompletion=complete_trace,
    ),
]

Cluster = Annotated[
    str | None,
    typer.Option(
        help="The cluster, servers x GPUs of each, such as 40x8, 16x2,20x8, "
        "4x8@v100,8x8@k80, 40x8/96/512 (CPUs, GB) or 40x8x7 (7 slots a GPU).",
        show_default="as large as --load asks for",
        rich_help_panel=TRACES,
    ),
]

Speeds = Annotated[
    str | None,
    typer.Option(
        help="How fast types of jobs run on types of GPUs: gavel, or a table of your own.",
        show_default="as job tables say",
        rich_help_panel=TRACES,
    ),
]

Failures = Annotated[
    str | None,
    typer.Option(
        help="Failures of servers: HOURS:HOURS, between two of a server and until its repair, such "
        "as 720:4; or a log of outages.",
        show_default="none",
        rich_help_panel=TRACES,
    ),
]

Reservations = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Servers that are reserved at times and known to be: a list of servers,begin,end.",
        show_default="none",
        rich_help_panel=TRACES,
    ),
]

CheckpointS = Annotated[
    int,
    typer.Option(
        "--checkpoint-s",
        min=0,
        max=2**30,
        help="Seconds between checkpoints, from which jobs go on after a failure; 0: none.",
        rich_help_panel=TRACES,
    ),
]

BoardLoad = Annotated[
    float | None,
    typer.Option(
        help="Load of the board: the cluster is sized for it, or with --servers times are "
        "stretched to it.",
        show_default="0.9; with --servers jobs come as they were submitted",
        rich_help_panel=TRACES,
    ),
]

FurtherLoads = Annotated[
    str | None,
    typer.Option(
        help="Further loads, with commas, such as 0.6,0.7,0.8.",
        show_default="none",
        rich_help_panel=TRACES,
    ),
]

FirstSeed = Annotated[
    int,
    typer.Option(
        min=0,
        max=LARGEST_SEED,
        help="Seed of generated workloads, the first.",
        rich_help_panel=TRACES,
    ),
]

Draws = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=LARGEST,
        help="Seeds of each generated workload, or the first of job tables, for intervals.",
        show_default="5",
        rich_help_panel=TRACES,
    ),
]

Iterations = Annotated[
    int | None,
    typer.Option(min=0, max=LARGEST, help="Of the bounds from prices.", show_default="20"),
]

Processes = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="Processes side by side.",
        show_default="2 where there are two cores",
    ),
]

Timed = Annotated[
    bool, typer.Option("--time", help="Replay everything once more, with a clock running.")
]

BoardFolder = Annotated[
    Path,
    typer.Option(
        help="Folder of leaderboard.json; what is there is not played again.",
        rich_help_panel=OUTPUT,
    ),
]

Page = Annotated[
    Path | None, typer.Option("--html", help="Write a page here.", rich_help_panel=OUTPUT)
]

Figure = Annotated[
    Path | None,
    typer.Option(help="Draw a figure for papers: .pdf, .svg or .png.", rich_help_panel=OUTPUT),
]

JobsTable = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write every job's times under every policy here (.csv or .parquet).",
        rich_help_panel=OUTPUT,
    ),
]


def leaderboard(
    data: DataFolder = None,
    workloads: Workloads = None,
    trace: MoreTraces = None,
    format: Format = None,
    columns: Columns = None,
    timezone: Timezone = None,
    num_jobs: FirstJobs = None,
    servers: Cluster = None,
    speeds: Speeds = None,
    failures: Failures = None,
    reservations: Reservations = None,
    checkpoint_s: CheckpointS = 0,
    load: BoardLoad = None,
    loads: FurtherLoads = None,
    seed: FirstSeed = 0,
    draws: Draws = None,
    policies: RigidRules = None,
    policy: OwnRigidRules = None,
    iterations: Iterations = None,
    processes: Processes = None,
    timed: Timed = False,
    out: BoardFolder = Path("runs/leaderboard"),
    html: Page = None,
    plot: Figure = None,
    jobs: JobsTable = None,
    json: JsonFile = None,
) -> None:
    """Every policy that can act on rigid jobs, on common workloads, beside lower bounds."""
    from jaxsched.jobs.servers import read_servers
    from jaxsched.leaderboard import cells
    from jaxsched.leaderboard.board import ITERATIONS
    from jaxsched.leaderboard.choosing import loads_of, workloads_of
    from jaxsched.leaderboard.text import tables_of

    if jobs is not None and jobs.isdecimal():
        tell_old(f"'--jobs {jobs}'", f"'--num-jobs {jobs}'; --jobs names a file")
        num_jobs, jobs = int(jobs), None
    times = None if jobs is None else Path(jobs)
    _check_outputs(html=html, plot=plot, times=times, json=json)
    swept = loads_of(loads)
    reading = TraceOptions(format=format, columns=columns, timezone=timezone).reading()
    chosen = workloads_of(
        data=data,
        names=workloads,
        traces=trace or (),
        load=load,
        servers=None if servers is None else read_servers(servers, mixed=True, shared=True),
        reading=tuple((name, value) for name, value in reading.items() if value is not None),
        loads=swept,
        speeds=speeds,
        failures=failures,
        reservations=reservations,
        checkpoint_s=checkpoint_s,
    )
    choice = cells.Choice(
        policies=None if policies is None else tuple(policies.split(",")),
        own=tuple(policy or ()),
        jobs=num_jobs,
        iterations=ITERATIONS if iterations is None else iterations,
        seed=seed,
        draws=draws or cells.DRAWS,
        timed=timed,
        keep=None if times is None else out / JOBS,
    )
    screen = console()
    say = partial(screen.print, highlight=False)
    record = cells.Record(out / FILE, choice.settings())
    with screen.status("preparing"):
        found = cells.cells_of(chosen, data, swept, choice)
    cells.play_missing(found, choice, record, processes or cells.usual_processes(), say)
    sweeps, main = cells.boards_of(found, record), cells.main_boards(found, record)
    for lines in tables_of(sweeps, main):
        say("\n" + "\n".join(lines))
    if times is not None:
        make_folder(times)
        say(f"\njobs' times: {cells.write_jobs(times, found, choice)}")
    _deliver(found, record, screen, html=html, plot=plot, json=json)


def _check_outputs(
    *, html: Path | None, plot: Path | None, times: Path | None, json: Path | None
) -> None:
    from jaxsched.pictures import check_picture
    from jaxsched.results.job_times import check_ending

    for path in filter(None, (html, plot, times, None if json == STDOUT else json)):
        check_writable(path)
    if plot is not None:
        check_picture(plot)
    if times is not None:
        check_ending(times)


def _deliver(
    found: "Sequence[Cell]",
    record: "Record",
    screen: Any,
    *,
    html: Path | None,
    plot: Path | None,
    json: Path | None,
) -> None:
    from jaxsched.leaderboard import cells

    screen.print(f"\nall values: {record.path}", highlight=False)
    document = cells.document(found, record)
    if html is not None:
        from jaxsched.report.leaderboard import write_leaderboard

        write_leaderboard(document, html)
        screen.print(f"page written to {html}", highlight=False)
    if json is not None:
        deliver_json(screen, json, document)
    if plot is not None:
        from jaxsched.leaderboard.picture import draw

        make_folder(plot)
        draw(plot, cells.boards_of(found, record), cells.main_boards(found, record))
        screen.print(f"figure written to {plot}", highlight=False)
