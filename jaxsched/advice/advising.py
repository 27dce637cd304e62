"""A cluster's log under other policies: ``jaxsched.advise``."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxsched.advice.capacity import Fit, smallest
from jaxsched.advice.checks import check_log, peak_gpus
from jaxsched.advice.owners import Names, Owners, owners_of
from jaxsched.advice.page import render_page
from jaxsched.advice.shadow import shadow_entries
from jaxsched.advice.spans import HISTORY, Span, span_of
from jaxsched.advice.trained import trained_entry
from jaxsched.advice.what_if import (
    Outcome,
    better_periods,
    bounds_of,
    closest,
    losers,
    outcome,
    over,
)
from jaxsched.advice.words import conclusions, recommended, table
from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.experiment.frames import frame_of_rows
from jaxsched.files import PathLike, make_folder, write_json, write_text
from jaxsched.jobs.columns import describe_value
from jaxsched.leaderboard.board import ITERATIONS, REFERENCE, interval_to_json
from jaxsched.leaderboard.entries import Entry, entries_of
from jaxsched.leaderboard.recorded import players_of
from jaxsched.leaderboard.workloads import Prepared, prepare_log
from jaxsched.provenance import surroundings
from jaxsched.trace_replay import Cluster
from jaxsched.traces.loading import load
from jaxsched.traces.trace import Trace

Say = Callable[[str], object]
PAGE, VALUES = "advice.html", "advice.json"


@dataclass(frozen=True, eq=False)
class Advice:
    """The result of ``jaxsched.advise``; ``print`` shows conclusions and a table.

    Attributes:
      document: all values, as ``jaxsched advise --json`` writes them.
    """

    document: Mapping[str, Any]

    @property
    def conclusions(self) -> Sequence[str]:
        """Conclusions in sentences, the answer first."""
        return list(self.document["conclusions"])

    @property
    def checks(self) -> Sequence[Mapping[str, Any]]:
        """Oddities of the log."""
        return list(self.document["checks"])

    def to_pandas(self) -> Any:
        """A data frame, a row for each policy, the shortest mean wait first; times in seconds.

        Raises:
          JaxschedError: pandas is not installed.
        """
        plain = ("periods", "owners", "losers", "over_reference")
        rows = [
            {
                **{name: value for name, value in row.items() if name not in plain},
                "over_reference": row["over_reference"]["estimate"],
            }
            for row in self.document["rows"]
        ]
        return frame_of_rows(rows)

    def save(self, path: PathLike) -> Path:
        """Write the page (``.html``) or all values (``.json``).

        Raises:
          JaxschedError: another ending, or a file that cannot be written.
        """
        target = Path(path)
        if target.suffix == ".json":
            return write_json(target, self.document)
        if target.suffix != ".html":
            raise JaxschedError(f"{target}: accepted: a name that ends in .html or .json")
        return write_text(target, render_page(self.document))

    def __str__(self) -> str:
        """The conclusions, then a row for each policy."""
        return "\n".join([*self.conclusions, "", *table(self.document)])

    def __repr__(self) -> str:
        """One line."""
        return f"Advice({self.document['log']['name']}: {len(self.document['rows'])} rows)"


def advise(
    log: Any,
    servers: str | None = None,
    *,
    policies: Sequence[str] | None = None,
    policy: Sequence[str] = (),
    checkpoint: Sequence[str] = (),
    shadow: PathLike | None = None,
    history: float = HISTORY,
    by: str | None = None,
    names: bool = False,
    capacity: bool = True,
    num_jobs: int | None = None,
    format: str | None = None,  # noqa: A002  (the command's word)
    columns: str | Mapping[str, str] | None = None,
    timezone: str | None = None,
    iterations: int = ITERATIONS,
    out: PathLike | None = None,
    progress: Say = lambda line: None,
) -> Advice:
    """Replay a cluster's log under every known policy, and compare with the log's own schedule.

    All jobs are replayed; figures are of those submitted after ``history``, so that forecasts can
    learn from the jobs before.

    Args:
      log: a file of any known format, a table of your own, a data frame, or a ``Trace``.
      servers: the cluster as "40x8", or "16x2,20x8" where servers differ.
      policies: names; all that can run if absent.
      policy: your own policies, "module:function" each, as on the leaderboard.
      checkpoint: trained policies, as ``jaxsched.load`` accepts them; the log is one
        episode.
      shadow: output of ``jaxsched slurm`` or ``kueue`` with ``--dry-run`` for these weeks: its
        folder, or the file of decisions; the log is replayed in its policy's order.
      history: share of the submissions before the measured jobs.
      by: owners whose waits are listed, "group" or "user"; by default the log's.
      names: show names of groups and users, not hashes.
      capacity: look for the smallest cluster at equal waits, where all servers are alike.
      num_jobs: replay only this many first jobs; all if absent.
      format: of the file; detected from its content if absent.
      columns: for a table of your own: names in the file to names in a trace.
      timezone: of times without one, such as "Europe/Berlin".
      iterations: of the bounds from prices.
      out: folder for the page, the values and the key of the names; None: nothing is written.
      progress: called with a line after each replay.

    Raises:
      JaxschedError: one line: what cannot be read, replayed or written.
    """
    trace = log if isinstance(log, Trace) else _loaded(log, format, columns, timezone)
    cluster = _cluster(trace, servers)
    folder = None if out is None else Path(out)
    if folder is not None:
        make_folder(folder / PAGE)
    checks = check_log(trace, cluster)
    ready = prepare_log(trace, cluster, num_jobs=num_jobs)
    span = span_of(ready.table, history)
    hidden = Names.of(folder, shown=names)
    owners = owners_of(trace, span.window.jobs, hidden, by=by)
    players, notes = players_of(ready, entries_of(policies, policy), span.window)
    players.sort(key=lambda entry: not entry.recorded)  # the log's row comes first
    players += [trained_entry(place) for place in checkpoint]
    wanted, said = shadow_entries(Path(shadow), ready, span.window) if shadow else ([], [])
    players, notes = [*players, *wanted], [*notes, *said]
    found = _played(players, ready, span, owners, progress)
    recorded = next((each for each in found if each.entry.recorded), None)
    reference = recorded or next((each for each in found if each.entry.name == REFERENCE), found[0])
    near = None if recorded is None else closest(found, recorded, span)
    rows = sorted(
        (_row(each, reference, span, owners) for each in found), key=lambda row: row["avg_wait"]
    )
    shadows = [entry.name for entry in wanted]
    suggested = recommended([row for row in rows if row["policy"] not in shadows])
    chosen = {*suggested, (near or reference).entry.name}
    fits = []
    if capacity and not cluster.kinds:
        fits = _fits(chosen, found, ready, span, reference, progress)
    document: dict[str, Any] = {
        "log": {
            "name": trace.name,
            "source": trace.source,
            "digest": ready.digest,
            "num_jobs": len(ready.table),
            "days": float(ready.table["submit_time"][-1]) / 86400,
        },
        "cluster": {
            "num_servers": cluster.num_servers,
            "num_gpus": cluster.num_gpus,
            "size": cluster.size,
        },
        "measured": {
            "history": history,
            "num_jobs": span.window.stop - span.window.first,
            "days": (span.window.end_s - span.window.begin_s) / 86400,
            "period": span.period,
            "periods": span.num_periods,
        },
        "checks": [finding._asdict() for finding in checks],
        "notes": [*ready.notes, *notes],
        "owners": {"by": owners.by, "hidden": not names},
        "bound": bounds_of(ready, span, iterations),
        "reference": reference.entry.name,
        "closest": None if near is None else near.entry.name,
        "recommended": suggested,
        "shadow": shadows,
        "rows": rows,
        "capacity": [fit.to_json() for fit in fits],
        **surroundings(),
    }
    document["conclusions"] = conclusions(document)
    advice = Advice(document)
    if folder is not None:
        hidden.write(folder)
        advice.save(folder / PAGE)
        advice.save(folder / VALUES)
    return advice


def _loaded(log: Any, format: str | None, columns: Any, timezone: str | None) -> Trace:  # noqa: A002
    """Read a log with submission times.

    Raises:
      JaxschedError: it cannot be read, or holds job tables.
    """
    found = load(log, format=format, columns=columns, timezone=timezone)
    if not isinstance(found, Trace):
        raise JaxschedError(f"{log}: holds job tables; accepted: a log of a cluster")
    return found


def _cluster(trace: Trace, servers: str | None) -> Cluster:
    """The given cluster.

    Raises:
      JaxschedError: none is given; the message has the log's peak of GPUs in use.
    """
    if servers is not None:
        found = Cluster.of(servers)
        if found.gpu_types:
            raise JaxschedError(
                f"{argument('servers')} is {describe_value(servers)}: a log does not say how long "
                "its jobs would have run on GPUs of another type; accepted: servers without types"
            )
        if found.slots > 1:
            raise JaxschedError(
                f"{argument('servers')} is {describe_value(servers)}: what happened is known in "
                "whole GPUs; accepted: servers without slots of GPUs"
            )
        return found
    peak = peak_gpus(trace)
    said = "" if peak is None else f"; the log had up to {peak} GPUs in use at once"
    raise JaxschedError(
        f"the cluster is not known{said}; accepted: {argument('servers')} as servers x GPUs of "
        "each, such as 40x8"
    )


def _played(
    players: Sequence[Entry], ready: Prepared, span: Span, owners: Owners, say: Say
) -> list[Outcome]:
    found = []
    for number, entry in enumerate(players, 1):
        records = entry.play(ready.table, ready.cluster)
        each = outcome(entry, records, ready, span, owners)
        say(f"[{number}/{len(players)}] {entry.name}: mean wait {each.figures['avg_wait']:.0f} s")
        found.append(each)
    return found


def _row(each: Outcome, reference: Outcome, span: Span, owners: Owners) -> dict[str, Any]:
    """A policy's row as JSON values."""
    entry, figures = each.entry, dict[str, float | None](each.figures)
    if entry.recorded and each.figures["utilization"] > 1:  # the log's cluster is a larger one
        figures["utilization"] = None
    lost = [] if each is reference else losers(each, reference, owners)
    return {
        "policy": entry.name,
        **entry.marks(),
        "restart_s": entry.policy.restart_s if entry.policy and entry.suspends else None,
        **figures,
        "over_reference": interval_to_json(over(each, reference)),
        "better_periods": better_periods(each, reference),
        "periods": (each.by_period / np.bincount(span.of)).tolist(),
        "owners": [
            {"owner": label, "wait": float(wait), "share": float(share)}
            for label, wait, share in zip(owners.labels, each.by_owner, each.share, strict=True)
        ],
        "losers": [
            {
                "owner": owners.labels[k],
                "more_s": float(each.by_owner[k] - reference.by_owner[k]),
            }
            for k in lost
        ],
    }


def _fits(
    chosen: Collection[str],
    found: Sequence[Outcome],
    ready: Prepared,
    span: Span,
    reference: Outcome,
    say: Say,
) -> list[Fit]:
    """The smallest clusters of some policies, at the reference's mean wait."""
    target = reference.figures["avg_wait"]
    return [
        smallest(each.entry, ready, span.window, target, each.figures["avg_wait"], say)
        for each in found
        if each.entry.name in chosen and not each.entry.recorded
    ]
