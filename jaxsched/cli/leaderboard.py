"""``jaxsched leaderboard``: every policy of rigid jobs on common workloads, beside lower bounds."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxsched.cli.completion import complete_rule, complete_trace, complete_workload
from jaxsched.cli.options import (
    HEURISTICS,
    LARGEST,
    LARGEST_SEED,
    OUTPUT,
    TRACES,
    Columns,
    Format,
    JsonFile,
    Timezone,
    TraceOptions,
)
from jaxsched.cli.output import STDOUT, check_writable, console, deliver_json, make_folder

if TYPE_CHECKING:
    from jaxsched.leaderboard.plays import Choice, Piece, Record

FILE, JOBS = "leaderboard.json", "jobs"


def leaderboard(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of public traces; without it generated ones only.", rich_help_panel=TRACES
        ),
    ] = None,
    workloads: Annotated[
        str | None,
        typer.Option(
            help="Names with commas between; all that can be had.",
            rich_help_panel=TRACES,
            autocompletion=complete_workload,
        ),
    ] = None,
    trace: Annotated[
        list[str] | None,
        typer.Option(
            help="One more trace: named trace, job table file, or log of any format (repeat).",
            rich_help_panel=TRACES,
            autocompletion=complete_trace,
        ),
    ] = None,
    format: Format = None,
    columns: Columns = None,
    timezone: Timezone = None,
    num_jobs: Annotated[
        int | None,
        typer.Option(
            min=2, max=LARGEST, help="Play the first so many jobs.", rich_help_panel=TRACES
        ),
    ] = None,
    servers: Annotated[
        str | None,
        typer.Option(
            help="The cluster, servers x GPUs of each, such as 40x8; as large as --load asks for.",
            rich_help_panel=TRACES,
        ),
    ] = None,
    load: Annotated[
        float | None,
        typer.Option(
            help="Load of the board, 0.9: the cluster is sized for it. With --servers, times are "
            "stretched to it; without, jobs come as they were submitted.",
            rich_help_panel=TRACES,
        ),
    ] = None,
    loads: Annotated[
        str | None,
        typer.Option(
            help="Further loads, with commas, such as 0.6,0.7,0.8; none.", rich_help_panel=TRACES
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            max=LARGEST_SEED,
            help="Seed of generated workloads, the first.",
            rich_help_panel=TRACES,
        ),
    ] = 0,
    draws: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=LARGEST,
            help="Seeds of each generated workload, or the first of job tables, for intervals; 5.",
            rich_help_panel=TRACES,
        ),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(
            help="Names with commas between; all by default.",
            rich_help_panel=HEURISTICS,
            autocompletion=complete_rule,
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="One of your own, module:function (repeat).", rich_help_panel=HEURISTICS),
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(min=0, max=LARGEST, help="Of the bounds from prices; 20.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Side by side; 2 where there are two cores.")
    ] = None,
    timed: Annotated[
        bool, typer.Option("--time", help="Replay everything once more, with a clock running.")
    ] = False,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of leaderboard.json; what is there is not played again.",
            rich_help_panel=OUTPUT,
        ),
    ] = Path("runs/leaderboard"),
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page here.", rich_help_panel=OUTPUT)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw a figure for papers: .pdf, .svg or .png.", rich_help_panel=OUTPUT),
    ] = None,
    jobs: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write every job's times under every policy here (.csv or .parquet).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: JsonFile = None,
) -> None:
    """Every policy that can act on rigid jobs, on common workloads, beside lower bounds."""
    from jaxsched.jobs.servers import read_servers
    from jaxsched.leaderboard import plays
    from jaxsched.leaderboard.board import ITERATIONS
    from jaxsched.leaderboard.choosing import loads_of, workloads_of
    from jaxsched.pictures import check_picture
    from jaxsched.results.job_times import check_ending

    if jobs is not None and jobs.isdecimal():
        print(
            f"jaxsched: '--jobs {jobs}' is now spelt '--num-jobs {jobs}'; --jobs names a file",
            file=sys.stderr,
        )
        num_jobs, jobs = int(jobs), None
    times = None if jobs is None else Path(jobs)
    for path in filter(None, (html, plot, times, None if json == STDOUT else json)):
        check_writable(path)
    if plot is not None:
        check_picture(plot)
    if times is not None:
        check_ending(times)
    swept = loads_of(loads)
    reading = TraceOptions(format=format, columns=columns, timezone=timezone).reading()
    chosen = workloads_of(
        data=data,
        names=workloads,
        traces=trace or (),
        load=load,
        servers=None if servers is None else read_servers(servers),
        reading=tuple((name, value) for name, value in reading.items() if value is not None),
        loads=swept,
    )
    choice = plays.Choice(
        policies=None if policies is None else tuple(policies.split(",")),
        own=tuple(policy or ()),
        jobs=num_jobs,
        iterations=ITERATIONS if iterations is None else iterations,
        seed=seed,
        draws=draws or plays.DRAWS,
        timed=timed,
        keep=None if times is None else out / JOBS,
    )
    screen = console()
    record = plays.Record(out / FILE, choice.settings())
    with screen.status("preparing"):
        pieces = plays.pieces_of(chosen, data, swept, choice)
    _play(pieces, choice, record, processes or plays.usual_processes(), screen)
    _tell(pieces, record, screen)
    if times is not None:
        make_folder(times)
        screen.print(f"\njobs' times: {plays.write_jobs(times, pieces, choice)}", highlight=False)
    _deliver(pieces, record, screen, html=html, plot=plot, json=json)


def _play(
    pieces: "Sequence[Piece]", choice: "Choice", record: "Record", processes: int, screen: Any
) -> None:
    """Play what the record does not have, keeping every piece as soon as it is done."""
    from jaxsched.leaderboard.plays import has_jobs, play_all

    missing = [piece for piece in pieces if not (record.has(piece) and has_jobs(piece, choice))]
    if not missing:
        return
    make_folder(record.path)
    check_writable(record.path)
    began = time.perf_counter()
    screen.print(
        f"{len(missing)} of {len(pieces)} pieces to play; Ctrl-C stops, the same command goes on",
        highlight=False,
    )
    for number, (piece, played) in enumerate(play_all(missing, choice, processes), 1):
        record.pieces[piece.name] = played
        record.write()
        rows = [row for row in played["standings"] if not row["recorded"]]
        best = min(rows, key=lambda row: float(row["jct_ratio"]))
        screen.print(
            f"[{number}/{len(missing)}, {time.perf_counter() - began:.0f} s] {piece.name}: "
            f"{played['num_jobs']:,} jobs, best {best['policy']} at {best['jct_ratio']:.2f} x "
            f"bound, {played['seconds']:.0f} CPU s",
            highlight=False,
        )


def _tell(pieces: "Sequence[Piece]", record: "Record", screen: Any) -> None:
    from jaxsched.leaderboard.plays import boards_of, main_boards
    from jaxsched.leaderboard.text import (
        overall_table,
        recommendation,
        sweep_table,
        workload_table,
    )

    sweeps, main = boards_of(pieces, record), main_boards(pieces, record)
    tables = [workload_table(board) for board in main]
    tables += [sweep_table(boards) for boards in sweeps if len(boards) > 1]
    if len(main) > 1:
        tables.append(overall_table(main))
    for lines in (*tables, recommendation(main)):
        screen.print("\n" + "\n".join(lines), highlight=False)


def _deliver(
    pieces: "Sequence[Piece]",
    record: "Record",
    screen: Any,
    *,
    html: Path | None,
    plot: Path | None,
    json: Path | None,
) -> None:
    from jaxsched.leaderboard import plays

    screen.print(f"\nall values: {record.path}", highlight=False)
    if plot is not None:
        from jaxsched.leaderboard.picture import draw

        make_folder(plot)
        draw(plot, plays.boards_of(pieces, record), plays.main_boards(pieces, record))
        screen.print(f"figure written to {plot}", highlight=False)
    document = plays.document(pieces, record)
    if html is not None:
        from jaxsched.report.leaderboard import write_leaderboard

        write_leaderboard(document, html)
        screen.print(f"page written to {html}", highlight=False)
    if json is not None:
        deliver_json(screen, json, document)
