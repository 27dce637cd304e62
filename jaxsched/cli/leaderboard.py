"""``jaxsched leaderboard``: every policy of rigid jobs on common workloads, beside lower bounds."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxsched.cli.completion import complete_rule, complete_workload
from jaxsched.cli.options import HEURISTICS, LARGEST, LARGEST_SEED, OUTPUT, TRACES, JsonFile
from jaxsched.cli.output import STDOUT, check_writable, console, deliver_json, make_folder
from jaxsched.errors import JaxschedError

if TYPE_CHECKING:
    from jaxsched.leaderboard.plays import Choice, Piece, Record
    from jaxsched.leaderboard.workloads import Workload

FILE = "leaderboard.json"


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
        list[Path] | None,
        typer.Option(help="One more trace, a file (repeat).", rich_help_panel=TRACES),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=2, max=LARGEST, help="Play the first so many jobs.", rich_help_panel=TRACES
        ),
    ] = None,
    load: Annotated[
        float,
        typer.Option(help="Load of the board; clusters are sized for it.", rich_help_panel=TRACES),
    ] = 0.9,
    loads: Annotated[
        str | None,
        typer.Option(
            help="Loads of the sweep, with commas; 0.6,0.7,0.8,0.9,0.95.", rich_help_panel=TRACES
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
            help="Seeds of each generated workload, for intervals; 5.",
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
    json: JsonFile = None,
) -> None:
    """Every policy that can act on rigid jobs, on common workloads, beside lower bounds."""
    from jaxsched.leaderboard import plays
    from jaxsched.leaderboard.board import ITERATIONS
    from jaxsched.pictures import check_picture

    for path in filter(None, (html, plot, None if json == STDOUT else json)):
        check_writable(path)
    if plot is not None:
        check_picture(plot)
    swept = _loads(loads, load)
    choice = plays.Choice(
        policies=_words(policies),
        own=tuple(policy or ()),
        jobs=jobs,
        iterations=ITERATIONS if iterations is None else iterations,
        seed=seed,
        draws=draws or plays.DRAWS,
        timed=timed,
    )
    chosen = _workloads(data, workloads, trace or [], load)
    screen = console()
    record = plays.Record(out / FILE, choice.settings())
    with screen.status("preparing"):
        pieces = plays.pieces_of(chosen, data, swept, choice)
    _play(pieces, choice, record, processes or plays.usual_processes(), screen)
    _tell(pieces, record, screen)
    _deliver(pieces, record, screen, html=html, plot=plot, json=json)


def _words(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(text.split(","))


def _loads(text: str | None, load: float) -> tuple[float, ...]:
    """The loads of the sweep, that of the board among them."""
    from jaxsched.leaderboard import plays

    try:
        found = plays.LOADS if text is None else tuple(float(word) for word in text.split(","))
    except ValueError:
        raise JaxschedError(f"--loads is {text!r}; accepted: numbers with commas between") from None
    plays.check_loads((load, *found))
    return tuple(sorted({load, *found}))


def _workloads(
    data: Path | None, names: str | None, traces: Sequence[Path], load: float
) -> "list[Workload]":
    """The workloads asked for; by default the generated ones and those whose files are there."""
    from jaxsched.leaderboard.workloads import BY_NAME_ONLY, WORKLOADS, Workload
    from jaxsched.traces.text import stem

    own = [Workload(stem(path), str(path.resolve()), load) for path in traces]
    if len({workload.name for workload in own}) < len(own):
        found = ", ".join(workload.name for workload in own)
        raise JaxschedError(f"traces are named {found}; accepted: files of different names")
    known = [workload._replace(load=load) for workload in (*WORKLOADS, *BY_NAME_ONLY)]
    if names is None:
        further = {workload.name for workload in BY_NAME_ONLY}
        return own or [
            workload
            for workload in known
            if workload.name not in further
            and (workload.is_generated or (data and (data / workload.source).exists()))
        ]
    by_name = {workload.name: workload for workload in (*known, *own)}
    unknown = [name for name in names.split(",") if name not in by_name]
    if unknown:
        raise JaxschedError(f"unknown workload {unknown[0]!r}; accepted: {', '.join(by_name)}")
    mine = {workload.name for workload in own}
    return [*own, *(by_name[name] for name in names.split(",") if name not in mine)]


def _play(
    pieces: "Sequence[Piece]", choice: "Choice", record: "Record", processes: int, screen: Any
) -> None:
    """Play what the record does not have, keeping every piece as soon as it is done."""
    from jaxsched.leaderboard.plays import play_all

    missing = [piece for piece in pieces if not record.has(piece)]
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
        best = min(played["standings"], key=lambda row: float(row["jct_ratio"]))
        screen.print(
            f"[{number}/{len(missing)}, {time.perf_counter() - began:.0f} s] {piece.name}: "
            f"{played['num_jobs']:,} jobs, best {best['policy']} at {best['jct_ratio']:.2f} x "
            f"bound, {played['seconds']:.0f} CPU s",
            highlight=False,
        )


def _tell(pieces: "Sequence[Piece]", record: "Record", screen: Any) -> None:
    from jaxsched.leaderboard.plays import boards_of, main_boards
    from jaxsched.leaderboard.text import overall_table, sweep_table, workload_table

    sweeps, main = boards_of(pieces, record), main_boards(pieces, record)
    tables = [workload_table(board) for board in main]
    tables += [sweep_table(boards) for boards in sweeps if len(boards) > 1]
    for lines in (*tables, overall_table(main)):
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
    from jaxsched.leaderboard.plays import boards_of, main_boards

    screen.print(f"\nall values: {record.path}", highlight=False)
    document = record.document(piece.name for piece in pieces)
    if html is not None:
        from jaxsched.report.leaderboard import write_leaderboard

        write_leaderboard(document, html)
        screen.print(f"page written to {html}", highlight=False)
    if json is not None:
        deliver_json(screen, json, document)
    if plot is not None:
        from jaxsched.leaderboard.picture import draw

        make_folder(plot)
        draw(plot, boards_of(pieces, record), main_boards(pieces, record))
        screen.print(f"figure written to {plot}", highlight=False)
