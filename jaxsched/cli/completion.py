"""What a shell may complete: names of systems, presets, policies, traces and workloads."""

from collections.abc import Callable, Iterable
from typing import Any

import typer

Complete = Callable[[typer.Context, str], list[str]]


def _completing(names: Callable[[typer.Context], Iterable[str]]) -> Complete:
    """Those names that begin as what was typed; none where they cannot be found out."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            return [name for name in names(ctx) if name.startswith(incomplete)]
        except Exception:  # a shell that completes must not show tracebacks
            return []

    return complete


def _system(ctx: typer.Context) -> Any:
    from jaxsched.systems import registry

    typed = ctx.params.get("system") or ctx.args[0]  # not parsed yet behind an option without value
    return registry.get(str(typed))


def _systems(ctx: typer.Context) -> Iterable[str]:
    del ctx
    from jaxsched.systems import registry

    return registry.names()


def _presets(ctx: typer.Context) -> Iterable[str]:
    from jaxsched.systems import presets

    system = _system(ctx)
    return presets.preset_names(system)


def _policies(ctx: typer.Context) -> Iterable[str]:
    return _system(ctx).policies


def _traces(ctx: typer.Context) -> Iterable[str]:
    del ctx
    from jaxsched.traces import clusters, registry

    return (*registry.names(), *clusters.names())


def _workloads(ctx: typer.Context) -> Iterable[str]:
    del ctx
    from jaxsched.leaderboard.workloads import BY_NAME_ONLY, WORKLOADS

    return (workload.name for workload in (*WORKLOADS, *BY_NAME_ONLY))


def _rules(ctx: typer.Context) -> Iterable[str]:
    del ctx
    from jaxsched.leaderboard.entries import GAVEL
    from jaxsched.trace_replay import FURTHER, POLICIES

    return {**POLICIES, **FURTHER, **GAVEL}


def _with_commas(complete: Complete) -> Complete:
    """Completes the last of several names with commas between."""

    def last(ctx: typer.Context, incomplete: str) -> list[str]:
        before, comma, word = incomplete.rpartition(",")
        return [before + comma + name for name in complete(ctx, word)]

    return last


complete_system = _completing(_systems)
complete_preset = _completing(_presets)
complete_policy = _completing(_policies)
complete_trace = _completing(_traces)
complete_workload = _with_commas(_completing(_workloads))
complete_rule = _with_commas(_completing(_rules))
