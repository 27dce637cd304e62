"""Oddities of a log, counted before any conclusion.

Readers drop or mend odd rows and note it (``Trace.notes``); these checks find rows that readers
accept because they may be true, and that matter for comparisons with policies. Axis: ``n`` rows.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.errors import counted
from jaxsched.jobs.schedule import most_at_once
from jaxsched.trace_replay import Cluster
from jaxsched.traces.trace import Trace, known
from jaxsched.traces.usable import is_job
from jaxsched.units import readable_time

JUMP_S = 60
"""Seconds by which a clock must go back to count as a jump."""

SILENCE_S = 86400
"""Seconds without submissions from which on they are reported."""

Booleans = npt.NDArray[np.bool_]


class Finding(NamedTuple):
    """The result of one check.

    Attributes:
      name: of the check.
      num_rows: affected rows.
      text: one sentence.
      warns: whether it makes conclusions less reliable.
    """

    name: str
    num_rows: int
    text: str
    warns: bool = False


def check_log(trace: Trace, cluster: Cluster) -> list[Finding]:
    """Check a log for its replay on a cluster; nothing is changed.

    Args:
      trace: the log.
      cluster: the cluster that its jobs ran on.
    """
    jobs = is_job(trace)
    found = [
        _rows(trace, jobs),
        _without(trace, jobs),
        _unfinished(trace),
        _early(trace, jobs),
        _twice(trace, jobs),
        _jumps(trace),
        _silence(trace, jobs),
        _wide(trace, jobs, cluster),
        _busiest(trace, cluster),
        _waits(trace, jobs),
    ]
    return [finding for finding in found if finding is not None]


def peak_gpus(trace: Trace) -> int | None:
    """The most GPUs that the log's jobs held at once; None: it has no start times."""
    jobs = is_job(trace) & known(trace, "start_time")
    if not jobs.any():
        return None
    start = trace["start_time"][jobs]
    held = most_at_once(start, start + trace["duration"][jobs], trace["num_gpus"][jobs])
    return int(np.ceil(held))


def _rows(trace: Trace, jobs: Booleans) -> Finding:
    count = int(jobs.sum())
    text = f"{counted(trace.rows_read, 'row')} read, of which {count:,} are jobs that held GPUs"
    return Finding("rows", count, text)


def _without(trace: Trace, jobs: Booleans) -> Finding | None:
    count = int((~jobs).sum())
    if not count:
        return None
    cancelled = int(np.sum(~jobs & _has_status(trace, "killed")))
    more = f"; {cancelled:,} of them were cancelled before they ran" if cancelled else ""
    text = f"{counted(count, 'row')} without GPUs or run time left out{more}"
    return Finding("no_job", count, text)


def _unfinished(trace: Trace) -> Finding | None:
    count = int(np.sum(_has_status(trace, "running") | _has_status(trace, "pending")))
    text = f"{counted(count, 'job')} had not ended when the log was written"
    return Finding("unfinished", count, text, warns=True) if count else None


def _early(trace: Trace, jobs: Booleans) -> Finding | None:
    early = jobs & known(trace, "start_time")
    if not early.any():
        return None
    early[early] = trace["start_time"][early] < trace["submit_time"][early]
    if not early.any():
        return None
    most = float(np.max(trace["submit_time"][early] - trace["start_time"][early]))
    text = (
        f"{counted(int(early.sum()), 'job')} started before the submission, by up to "
        f"{readable_time(most)}: taken to have started at once"
    )
    return Finding("early", int(early.sum()), text, warns=True)


def _twice(trace: Trace, jobs: Booleans) -> Finding | None:
    names = trace["job_id"][jobs] if known(trace, "job_id").any() else None
    count = 0
    if names is not None:
        named = names[names != ""]
        count = len(named) - len(np.unique(named))
    if count:
        text = f"{counted(count, 'row')} have the number of an earlier job (each is replayed)"
        return Finding("twice", count, text, warns=True)
    columns = [trace[name][jobs] for name in ("submit_time", "num_gpus", "duration")]
    columns += [_numbers(trace[name][jobs]) for name in ("user", "group") if name in trace]
    same = len(columns[0]) - len(np.unique(np.stack(columns), axis=1).T)
    text = f"{counted(same, 'job')} equal an earlier one in time, size, run time and owner"
    return Finding("alike", same, text) if same else None


def _numbers(texts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return np.unique(texts, return_inverse=True)[1].reshape(-1).astype(np.float64)


def _jumps(trace: Trace) -> Finding | None:
    """Submissions that go back while whole numbers of jobs go on."""
    if "job_id" not in trace:
        return None
    texts = np.asarray(trace["job_id"], np.str_)
    plain = np.char.isdecimal(texts) & (np.char.str_len(texts) <= 15)
    if plain.sum() < 2 or plain.mean() < 0.5:
        return None
    number = texts[plain].astype(np.int64)
    submit = trace["submit_time"][plain][np.argsort(number, kind="stable")]
    back = np.maximum.accumulate(submit)[:-1] - submit[1:]
    count = int(np.sum(np.diff(submit) < -JUMP_S))
    if not count:
        return None
    text = (
        f"{counted(count, 'time')} the clock goes back while job numbers go on, by up to "
        f"{readable_time(float(back.max()))}"
    )
    return Finding("jumps", count, text, warns=True)


def _silence(trace: Trace, jobs: Booleans) -> Finding | None:
    submit = np.sort(trace["submit_time"][jobs])
    gaps = np.diff(submit)
    if not gaps.size or gaps.max() < SILENCE_S:
        return None
    at = int(np.argmax(gaps))
    day = (submit[at] - submit[0]) / 86400
    text = (
        f"{counted(int(np.sum(gaps >= SILENCE_S)), 'time')} nothing was submitted for a day or "
        f"more; the longest, {readable_time(float(gaps[at]))}, began on day {day:.0f}"
    )
    return Finding("silence", int(np.sum(gaps >= SILENCE_S)), text)


def _wide(trace: Trace, jobs: Booleans, cluster: Cluster) -> Finding | None:
    count = int(np.sum(trace["num_gpus"][jobs] > cluster.num_gpus))
    text = f"{counted(count, 'job')} asked for more than {cluster.num_gpus:,} GPUs: cut to these"
    return Finding("wide", count, text, warns=True) if count else None


def _busiest(trace: Trace, cluster: Cluster) -> Finding | None:
    peak = peak_gpus(trace)
    if peak is None:
        return None
    more = peak > cluster.num_gpus
    text = f"up to {peak:,} GPUs were in use at once; the replayed cluster has "
    text += f"{cluster.num_gpus:,}"
    if more:
        text += ": the log had more GPUs than the policies have"
    return Finding("busiest", peak, text, warns=more)


def _waits(trace: Trace, jobs: Booleans) -> Finding | None:
    there = jobs & known(trace, "start_time")
    if not there.any():
        text = "the log does not say when jobs started: nothing to compare policies with"
        return Finding("no_starts", int(jobs.sum()), text, warns=True)
    missing = int(np.sum(jobs & ~there))
    if missing:
        text = f"{counted(missing, 'job')} without a recorded start"
        return Finding("no_starts", missing, text, warns=True)
    if np.all(trace["start_time"][there] <= trace["submit_time"][there]):
        text = "every job started at its submission: the log shows no queue"
        return Finding("no_queue", int(there.sum()), text, warns=True)
    return None


def _has_status(trace: Trace, status: str) -> Booleans:
    if "status" not in trace:
        return np.zeros(len(trace), np.bool_)
    found: Booleans = np.asarray(trace["status"] == status)
    return found
