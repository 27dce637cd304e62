"""``jaxsched headroom``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxsched.arguments import LARGEST
from jaxsched.cli.compare import NOT_RESULTS, PlayedPreset, players_named, tell
from jaxsched.cli.options import (
    Columns,
    Cut,
    EnvironmentSettings,
    Format,
    HeuristicOption,
    JsonFile,
    Load,
    MeanGap,
    NumJobs,
    NumTraces,
    Part,
    ServersOption,
    System,
    Timezone,
    Trace,
    TraceSeed,
    as_typed,
    environment_changes,
    heuristic_options,
)
from jaxsched.cli.output import check_writable, console, deliver_json
from jaxsched.errors import counted
from jaxsched.experiment.asked import Asked
from jaxsched.experiment.options import TraceOptions, read_part

if TYPE_CHECKING:
    from rich.table import Table


Base = Annotated[
    str | None,
    typer.Option(
        help="Base: a rule, SYSTEM/POLICY, or the folder of a trained one.",
        show_default="the best heuristic here",
    ),
]
Shown = Annotated[
    list[str] | None,
    typer.Option(help="A trained policy to show: folder or SYSTEM/pretrained (repeat)."),
]
Horizon = Annotated[
    float | None,
    typer.Option(
        help="Simulated seconds played on; inf: to the end.", show_default="the system's own"
    ),
]
NumFutures = Annotated[
    int, typer.Option(min=0, max=LARGEST, help="Redrawn futures; 0: clairvoyant only.")
]
Alternatives = Annotated[
    int | None,
    typer.Option(
        min=2, max=LARGEST, help="Actions tried, the base's own included.", show_default="all"
    ),
]
Margin = Annotated[
    float, typer.Option(help="Standard errors that a gain over redrawn futures must exceed.")
]
Discount = Annotated[
    float | None,
    typer.Option(help="Seconds after which a reward counts 1/e.", show_default="no discount"),
]


def headroom(
    context: typer.Context,
    system: System,
    policy: Base = None,
    checkpoint: Shown = None,
    preset: PlayedPreset = None,
    settings: EnvironmentSettings = None,
    servers: ServersOption = None,
    trace: Trace = None,
    trace_seed: TraceSeed = 0,
    num_traces: NumTraces = None,
    num_jobs: NumJobs = None,
    cut: Cut = False,
    mean_gap: MeanGap = None,
    load: Load = None,
    format: Format = None,
    part: Part = None,
    columns: Columns = None,
    timezone: Timezone = None,
    option: HeuristicOption = None,
    horizon: Horizon = None,
    futures: NumFutures = 8,
    alternatives: Alternatives = None,
    margin: Margin = 2.0,
    discount: Discount = None,
    json_file: JsonFile = None,
) -> None:
    """What look-ahead over a base policy reaches: on redrawn futures, and knowing the future."""
    from jaxsched.experiment.looking import look_ahead
    from jaxsched.results.headroom import Settings
    from jaxsched.runs.heartbeat import Heartbeat
    from jaxsched.runs.policies import find_trained
    from jaxsched.systems import registry

    chosen = registry.get(system)
    options = TraceOptions(
        trace_seed, num_traces, num_jobs, cut, mean_gap, load, format, read_part(part), columns,
        timezone,
    )  # fmt: skip
    looks = Settings(
        futures, alternatives, horizon, margin, float("inf") if discount is None else discount
    )
    if json_file is not None:
        check_writable(json_file)
    base = None if policy is None else players_named([policy], chosen)
    shown = [find_trained(word, chosen).trained()[0] for word in checkpoint or []]
    changes = environment_changes(chosen, settings, servers)
    asked = Asked(preset, changes, trace, options, heuristic_options(option))
    out = console()
    with Heartbeat(out, "preparing the episodes") as beat:
        result = look_ahead(
            chosen,
            base,
            shown,
            asked,
            looks,
            command=as_typed(context, without=NOT_RESULTS),
            on_prepared=lambda prepared: tell(prepared, out),
            on_progress=lambda name, done, total: beat.update(
                f"playing {name}", done, total, "episodes"
            ),
        )
    out.print(headroom_table(result))
    if json_file is not None:
        deliver_json(out, json_file, result)


def headroom_table(result: dict[str, Any]) -> "Table":
    """Rows of a head-room measurement, each metric with its paired difference to the base."""
    from rich import box
    from rich.table import Table

    from jaxsched.report.readable import headroom_in_readable_units
    from jaxsched.report.summary import labelled, number

    result = headroom_in_readable_units(result)
    found, metrics = result["headroom"], result["metrics"]
    table = Table(
        title=f"Head-room from {found['base']}: {result['title']}",
        caption=_caption(result),
        caption_justify="left",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("policy\nand what it knows", no_wrap=True, overflow="fold")
    for name in found["rows"][0]["metrics"]:
        table.add_column(
            labelled(metrics[name], gap="\n"), justify="right", no_wrap=True, overflow="fold"
        )
        table.add_column("less base", justify="right", no_wrap=True, overflow="fold")
    for row in found["rows"]:
        cells = []
        for name, cell in row["metrics"].items():
            digits = metrics[name]["digits"]
            mean = _plain(number(cell["mean"], digits))
            named = "" if cell["policy"] == row["row"] else f"\n{cell['policy']}"
            cells += [f"{mean}{named}", _difference(cell["difference"], digits)]
        table.add_row(f"{row['row']}\n{row['knows']}", *cells)
    return table


def _difference(difference: dict[str, float] | None, digits: int) -> str:
    from jaxsched.report.summary import DASH, number

    if difference is None:
        return DASH
    estimate, low, high = (
        ("+" if difference[end] > 0 else "") + _plain(number(difference[end], digits))
        for end in ("estimate", "low", "high")
    )
    return f"{estimate}\n[{low}, {high}]"


def _plain(text: str) -> str:
    """Terminals draw the narrow space at any width; a plain one keeps the columns aligned."""
    return text.replace("\u202f", " ")


def _futures(settings: dict[str, Any]) -> str:
    if not settings["futures"]:
        return "on the true future"
    return (
        f"over {settings['futures']} futures that are redrawn from each trace's own jobs and gaps "
        f"(margin {settings['margin']:g} standard errors) or on the true one"
    )


def _caption(result: dict[str, Any]) -> str:
    from jaxsched.units import readable_time

    settings, episodes = result["headroom"]["settings"], result["episodes"]
    horizon, rivals = settings["horizon_s"], result["headroom"]["rivals"]
    tried = "all legal actions"
    if settings["alternatives"] is not None:
        tried = f"{settings['alternatives']} actions"
    if rivals:
        tried = f"what {', '.join(rivals)} would do (redrawn: without those that know the future)"
    return (
        f"Means over {counted(episodes['count'], 'episode')} ({episodes['source']}); paired "
        f"differences with 95 % bootstrap intervals over the episodes. Look-ahead tries "
        f"{tried} and plays on "
        f"{'to the end' if horizon is None else f'for {readable_time(horizon)}'}, "
        f"{_futures(settings)}. The clairvoyant "
        "knows what no policy can; neither is a bound."
    )
