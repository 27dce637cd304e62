"""``jaxsched doctor``: what is here, what is missing, what a recipe will need."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxsched.cli.completion import complete_system
from jaxsched.cli.options import (
    JsonFile,
    Preset,
    ServersOption,
    Settings,
    environment_changes,
)
from jaxsched.cli.output import check_writable, console, deliver_json
from jaxsched.errors import JaxschedError
from jaxsched.experiment.options import TraceOptions

if TYPE_CHECKING:
    from jaxsched.bench.preview import Stage

FAULTY = 1


def doctor(
    system: Annotated[
        str | None,
        typer.Argument(
            help="Say what a preset of this system needs.", autocompletion=complete_system
        ),
    ] = None,
    preset: Preset = "quick",
    settings: Settings = None,
    servers: ServersOption = None,
    json_file: JsonFile = None,
) -> int:
    """Versions, devices, memory, cache; with a system, what its preset needs and how long it takes.

    Exit status 1 where something is wrong.
    """
    from jaxsched.systems import presets

    if json_file is not None:
        check_writable(json_file)
    if system is None and (settings or servers):
        raise JaxschedError("--set and --servers change a recipe; name its system")
    from jaxsched.runs.machine import machine_facts

    out = console()
    facts = machine_facts()
    _print_facts(facts, out)
    result: dict[str, Any] = {"kind": "doctor", **facts}
    if system is not None:
        from jaxsched.bench.preview import preview
        from jaxsched.experiment.splits import sets_of
        from jaxsched.runs.overrides import changed
        from jaxsched.systems import registry

        chosen = registry.get(system)
        overrides = environment_changes(chosen, settings, servers)
        recipe = changed(chosen, presets.preset(chosen, preset), overrides)
        sets = sets_of(chosen, recipe, None, None, TraceOptions())
        with out.status(f"compiling and timing a few updates of {system}, preset {preset!r}"):
            stages = preview(chosen, recipe, sets.train.tables, sets.validation.tables)
        _print_stages(system, preset, stages, facts, out)
        result |= {"recipe": {"system": system, "preset": preset, "overrides": overrides}}
        result["stages"] = [{**stage._asdict(), "total_s": stage.total_s} for stage in stages]
    if json_file is not None:
        deliver_json(out, json_file, result)
    return FAULTY if facts["problems"] else 0


def _print_facts(facts: dict[str, Any], out: Any) -> None:
    from jaxsched.memory import in_words

    def say(name: str, words: str) -> None:
        out.print(f"{name:10} {words}", highlight=False)

    versions = (f"{name} {version}" for name, version in facts["versions"].items())
    say("jaxsched", f"{facts['jaxsched']}, Python {facts['python']}, {facts['system']}")
    say("packages", ", ".join(versions))
    installed = [name for name, whole in facts["extras"].items() if whole]
    others = [name for name, whole in facts["extras"].items() if not whole]
    say("extras", f"{', '.join(installed) or 'none'}; not installed: {', '.join(others) or 'none'}")
    kinds = [f"{d['platform']}:{d['id']} {d['kind']}" for d in facts["devices"]]
    say("devices", f"{', '.join(kinds)}; {facts['cpu_cores']} CPU cores")
    free = facts["memory"]
    say("memory", f"{in_words(free['free_bytes'])} free {free['where']}" if free else "not known")
    say("XLA_FLAGS", facts["xla_flags"] or "none")
    cache = facts["cache"]
    kept = f"{cache['folder']}: {cache['programs']} programs, {in_words(cache['bytes'])}"
    say("cache", kept if cache["folder"] else "off: every command compiles anew")
    for problem in facts["problems"]:
        say("PROBLEM", problem)
    if not facts["problems"]:
        say("verdict", "nothing is wrong")


def _print_stages(
    system: str, preset: str, stages: "list[Stage]", facts: dict[str, Any], out: Any
) -> None:
    from jaxsched.memory import in_words
    from jaxsched.units import readable_time

    out.print(f"\n{system}, preset {preset!r}, one seed:", highlight=False)
    for stage in stages:
        peak = "not known" if stage.peak_bytes is None else in_words(stage.peak_bytes)
        rate = stage.env_steps / max(stage.updates * stage.update_s, 1e-9)
        out.print(
            f"  {stage.name}: {stage.updates:,} updates, {stage.env_steps:,} steps at "
            f"{rate:,.0f} a second, {stage.evaluations} evaluations of "
            f"{stage.evaluation_s:.1f} s; memory {peak}; about {readable_time(stage.total_s)}",
            highlight=False,
        )
    total = sum(stage.total_s for stage in stages)
    out.print(
        f"  together about {readable_time(total)}, compiling included; then comes the comparison "
        "with the baselines",
        highlight=False,
    )
    free, peaks = facts["memory"], [s.peak_bytes for s in stages if s.peak_bytes is not None]
    if free and peaks and max(peaks) > free["free_bytes"]:
        out.print("  PROBLEM: it does not fit into the memory that is free", highlight=False)
