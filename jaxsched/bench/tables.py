"""Results of ``throughput``, ``training`` and ``scaling`` as tables for people."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from jaxsched.runs.trained import in_words


def print_table(result: Mapping[str, Any], console: Console | None = None) -> None:
    """Print what was measured, on what, and how it compares."""
    console = console or Console()
    kinds = {
        "throughput": _throughput,
        "training": _training,
        "scaling": _scaling,
        "time-to-score": _time_to_score,
    }
    show = kinds[result["kind"]]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    console.print(
        f"{result['device']} ({result['backend']}, {result['cores']} cores), {versions}",
        soft_wrap=True,
    )
    if result["xla_flags"]:
        console.print(f"XLA_FLAGS {result['xla_flags']}", soft_wrap=True, highlight=False)
    show(result, console)


def _throughput(result: Mapping[str, Any], console: Console) -> None:
    table = Table(title=f"{result['system']}: steps per second")
    table.add_column("figure")
    for column in ("batch", "median", "min", "max", "CPU ns/step", "compile s", "of bandwidth"):
        table.add_column(column, justify="right")
    for row in result["rows"]:
        table.add_row(row["figure"], *_cells(row), f"{row['bandwidth_fraction']:.1%}")
    measured = [peer for peer in result["peers"] if "missing" not in peer]
    for peer in measured:
        table.add_section()
        for row in peer["rows"]:
            table.add_row(peer["name"], *_cells(row), "")
    console.print(table)
    first = result["rows"][0]
    devices = max(row["devices"] for row in result["rows"])
    if devices > 1:
        console.print(f"environments divided between {devices} devices, each of which runs alone")
    console.print(
        f"{first['state_bytes_per_env']} bytes of state per environment, "
        f"{first['observation_bytes']} of observation; memory bandwidth "
        f"{result['bandwidth_bytes_per_s'] / 1e9:.1f} GB/s"
    )
    for figure, row in result["best"].items():
        line = f"best {figure}: {_rate(row)} steps/s at batch {row['batch']}"
        if row.get("decision_share", 1.0) < 1:
            line += f", {row['decisions_per_s']:,.0f} decisions/s"
        console.print(line)
    for peer in result["peers"]:
        if "missing" in peer:
            console.print(peer["missing"], soft_wrap=True)
    for peer in measured:
        versions = ", ".join(f"{name} {version}" for name, version in peer["versions"].items())
        line = f"best {peer['name']} ({versions}): {_rate(peer['best'])} steps/s"
        if "ratio" in peer:
            line += (
                f"; ours is {peer['ratio']:,.1f} times faster "
                f"({peer['cpu_ratio']:,.1f} in CPU time)"
            )
        console.print(line, soft_wrap=True)


def _training(result: Mapping[str, Any], console: Console) -> None:
    table = Table(title=f"{result['system']}: training, preset {result['preset']}")
    for column in (
        *("environments", "devices", "env steps/s", "gradient steps/s", "min", "max"),
        "compile s",
    ):
        table.add_column(column, justify="right")
    env, gradient = result["env_steps_per_s"], result["gradient_steps_per_s"]
    table.add_row(
        f"{result['num_envs']:,}",
        f"{result['devices']}",
        f"{env['median']:,.0f}",
        f"{gradient['median']:,.1f}",
        f"{gradient['min']:,.1f}",
        f"{gradient['max']:,.1f}",
        f"{result['compile_s']:.1f}",
    )
    console.print(table)


def _time_to_score(result: Mapping[str, Any], console: Console) -> None:
    table = Table(
        title=f"{result['system']}: training until {result['label']} is {result['score']:.6g}, "
        f"preset {result['preset']}"
    )
    for column in ("seed", "s", "of which", "env steps", "gradient steps", "env steps/s", "best"):
        table.add_column(column, justify="right")
    for row in result["rows"]:
        table.add_row(
            str(row["seed"]),
            f"{row['wall_s']:,.1f}" if row["reached"] else f"not in {row['wall_s']:,.1f}",
            in_words(row["seconds_by_part"]),
            f"{row['env_steps']:,}",
            f"{row['gradient_steps']:,}",
            f"{row['env_steps_per_s']:,.0f}",
            f"{row['best']:.6g}",
        )
    console.print(table)
    of = f" is {result['score_of']}'s" if result["score_of"] else ""
    console.print(
        f"the score{of} on the {result['validation_traces']} validation traces of "
        f"{result['validation']}; seconds with compilations and evaluations",
        soft_wrap=True,
        highlight=False,
    )


def _scaling(result: Mapping[str, Any], console: Console) -> None:
    table = Table(title=f"{result['system']}: steps per second, preset {result['preset']}")
    table.add_column("figure")
    for column in ("devices", "environments", "median", "min", "max", "per device", "compile s"):
        table.add_column(column, justify="right")
    for row in result["rows"]:
        rates = (f"{row['env_steps_per_s'][name]:,.0f}" for name in ("median", "min", "max"))
        table.add_row(
            row["figure"],
            str(row["devices"]),
            f"{row['num_envs']:,}",
            *rates,
            f"{row['efficiency']:.0%}",
            f"{row['compile_s']:.1f}",
        )
    console.print(table)
    console.print(
        "environment: as many environments on each device; training: the recipe's, divided. "
        "per device: steps/s of one device relative to those of one alone",
        soft_wrap=True,
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    rates = (f"{row['steps_per_s'][name]:,.0f}" for name in ("median", "min", "max"))
    return [
        f"{row['batch']:,}",
        *rates,
        f"{row['cpu_ns_per_step']:,.0f}",
        f"{row['compile_s']:.1f}",
    ]


def _rate(row: Mapping[str, Any]) -> str:
    return f"{row['steps_per_s']['median']:,.0f}"
