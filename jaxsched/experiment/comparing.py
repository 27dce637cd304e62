"""Comparing from Python: ``jaxsched.compare`` and ``jaxsched.evaluate``."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxsched.core import sharding
from jaxsched.experiment.comparison import Comparison
from jaxsched.experiment.contests import Prepared, prepare
from jaxsched.experiment.devices import mesh_of
from jaxsched.experiment.names import asked_of, system_of
from jaxsched.experiment.options import TraceOptions, read_part
from jaxsched.experiment.players import owner_of, players_of
from jaxsched.experiment.sources import Source
from jaxsched.report.schema import check
from jaxsched.results import comparison
from jaxsched.results.played_times import PlayedTimes


def compare(
    system: Any,
    *,
    policies: Any = "all",
    traces: Source | None = None,
    num_traces: int | None = None,
    num_jobs: int | None = None,
    trace_seed: int = 0,
    cut: bool = False,
    mean_gap: float | None = None,
    load: float | None = None,
    part: str | Sequence[float] | None = None,
    format: str | None = None,  # noqa: A002  (the command's word)
    columns: str | Mapping[str, str] | None = None,
    timezone: str | None = None,
    preset: str | None = None,
    servers: str | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002  (the command's word)
    options: Mapping[str, Any] | None = None,
    as_seeds: bool = False,
    devices: int | str | None = None,
    **environment: Any,
) -> Comparison:
    """Evaluate policies on the same episodes.

    Args:
      system: name of a system, or a ``System``.
      policies: "all" rules, or a list: names of rules, "SYSTEM/pretrained", folders of trained
        policies, runs, rules of :func:`jaxsched.policy`, plain functions of NumPy arrays.
      traces: a named trace, a file, a loaded log or job tables; the test traces if absent.
      num_traces: episodes to draw, or the first of job tables; the trace's number if absent.
      num_jobs: jobs of each; the trace's number if absent.
      trace_seed: of what is drawn.
      cut: cut a log into consecutive pieces, do not resample it.
      mean_gap: rescale times to this mean gap between jobs, s.
      load: rescale times to this offered load of the cluster.
      part: first and last share of a log's jobs in order of submission, "0.8:1" or (0.8, 1).
      format: of trace files; told by their content if absent.
      columns: of a table of one's own, names in the file to names in a trace.
      timezone: of times in a trace file that say none, such as "Europe/Berlin".
      preset: preset whose cluster and test traces are used; the system's own if absent.
      servers: the cluster, such as "40x8".
      set: changes of the environment as the command takes them, ``{"env.NAME": value}``.
      options: of the heuristics.
      as_seeds: whether the trained policies are training seeds of one.
      devices: a number or "all"; episodes are divided between them.
      environment: options of the environment.

    Returns:
      The comparison: ``print``, ``to_pandas()``, ``metrics``, ``best``, ``save(path)``.

    Raises:
      JaxschedError: a name, value or trace is refused.
    """
    chosen = system_of(system)
    how = TraceOptions(trace_seed, num_traces, num_jobs, cut, mean_gap, load, format,
                       read_part(part), columns, timezone)  # fmt: skip
    asked = asked_of(chosen, traces, how, preset=preset, servers=servers, environment=environment,
                     options=options, settings=set)  # fmt: skip
    players = players_of(policies, chosen)._replace(as_seeds=as_seeds)
    prepared = prepare(owner_of(policies, chosen), players, asked)
    mesh = mesh_of(devices, "envs")

    def times() -> list[Mapping[str, Any]]:
        found = PlayedTimes(prepared.contest)
        _play(prepared, mesh, found)
        return found.parts

    return Comparison(check(_play(prepared, mesh)), setting_of(prepared, load), times)


def _play(prepared: Prepared, mesh: Any, times: PlayedTimes | None = None) -> dict[str, Any]:
    with sharding.on(mesh):
        return comparison.compare(
            prepared.contest,
            prepared.names,
            prepared.learned,
            prepared.own,
            environment=prepared.environment,
            on_played=times,
        )


def setting_of(prepared: Prepared, load: float | None) -> dict[str, Any]:
    """The requested load, if any, and the servers if all are alike.

    Args:
      prepared: the comparison.
      load: that was asked for.
    """
    servers = prepared.environment.server_gpus()
    found: dict[str, Any] = {}
    if load is not None:
        found["load"] = load
    if servers and len(set(servers)) == 1:
        found["servers"] = f"{len(servers)} x {servers[0]} GPUs"
    return found


def evaluate(system: Any, policy: Any, **arguments: Any) -> Comparison:
    """Evaluate one policy; the arguments are those of :func:`compare`.

    Raises:
      JaxschedError: a name, value or trace is refused.
    """
    return compare(system, policies=[policy], **arguments)
