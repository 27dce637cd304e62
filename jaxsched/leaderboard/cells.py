"""The cells of a board, one for each workload at each load, computed once, in processes."""

import hashlib
import json
import multiprocessing
import multiprocessing.connection
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.files import check_writable, make_folder, write_whole
from jaxsched.leaderboard.board import Standings, failures_of, play
from jaxsched.leaderboard.entries import entries_of
from jaxsched.leaderboard.text import recommendation
from jaxsched.leaderboard.window import Window
from jaxsched.leaderboard.workloads import Prepared, Workload, at_load, prepare_draws
from jaxsched.provenance import surroundings
from jaxsched.results.job_times import read_part, times_of, write_job_times, write_tables
from jaxsched.runtime import num_cores
from jaxsched.trace_replay import Records

DRAWS, SWEEP_DRAWS = 5, 1
"""Draws of generated workloads: at the board's load, and at most at other loads of a sweep."""
METHOD = 3
"""Incremented when figures of an earlier record cannot be compared with new ones."""
OWN = "own"
"""In names of cells: the load of the jobs as submitted."""

Played = dict[str, Any]
"""A cell's figures in the form of ``Standings.to_json``."""


class Choice(NamedTuple):
    """The policies and settings of a board, as JSON values; the same for all cells.

    Attributes:
      policies: names; None: all of the library.
      own: ``module:name`` of users' own.
      jobs: replay at most this many first jobs.
      iterations: of the bounds from prices.
      seed: first seed of generated workloads.
      draws: number of draws of generated workloads.
      timed: whether replays are timed.
      keep: folder for the times of every job, one file for each cell; None: they are not kept.
    """

    policies: tuple[str, ...] | None
    own: tuple[str, ...]
    jobs: int | None
    iterations: int
    seed: int
    draws: int
    timed: bool
    keep: Path | None = None

    def settings(self) -> dict[str, Any]:
        """The settings in a record's form."""
        entries = entries_of(self.policies, self.own)
        plain = {k: value for k, value in self._asdict().items() if k not in ("own", "keep")}
        return {**plain, "policies": [entry.name for entry in entries], "method": METHOD}


class Cell(NamedTuple):
    """One workload at one load.

    Attributes:
      workload: the workload.
      data: folder of public traces.
      load: the load; None: that of its jobs on a given cluster.
      draws: number of draws.
      facts: trace, jobs and cluster, which a valid record must repeat.
    """

    workload: Workload
    data: Path | None
    load: float | None
    draws: int
    facts: dict[str, Any]

    @property
    def name(self) -> str:
        """The workload's name and the load, unique to the cell."""
        return f"{self.workload.name}@" + (OWN if self.load is None else f"{self.load:g}")

    @property
    def is_swept(self) -> bool:
        """Whether its load differs from the workload's own."""
        return self.load != self.workload.load


def cells_of(
    workloads: Sequence[Workload],
    data: Path | None,
    loads: Sequence[float],
    choice: Choice,
) -> list[Cell]:
    """All cells: first all workloads at their own load, then the sweep; long ones first.

    In this order the processes compile different programs at first, and later none. The
    cluster is chosen for the workload's own load; for other loads times are stretched.
    """
    found = []
    for workload in workloads:
        most = 1 if workload.is_generated else choice.draws
        ready = prepare_draws(workload, data, seed=choice.seed, draws=most, num_jobs=choice.jobs)
        draws = choice.draws if workload.is_generated else len(ready)
        for load in dict.fromkeys((workload.load, *loads)):
            swept = workload.is_generated and load != workload.load
            count = min(draws, SWEEP_DRAWS) if swept else draws
            found.append(Cell(workload, data, load, count, _facts(ready[0], count)))
    return sorted(found, key=lambda cell: (cell.is_swept, -cell.facts["num_jobs"] * cell.draws))


def _facts(first: Prepared, draws: int) -> dict[str, Any]:
    return {
        "digest": first.digest,
        "num_jobs": len(first.table),
        "num_servers": first.cluster.num_servers,
        "gpus_per_server": first.cluster.gpus_per_server,
        "servers": None if first.cluster.is_plain else str(first.cluster.servers),
        "failures": failures_of(first),
        "num_draws": draws,
    }


def play_cell(cell: Cell, choice: Choice) -> Played:
    """The figures of all policies on one workload at one load."""
    draws = prepare_draws(
        cell.workload, cell.data, seed=choice.seed, draws=cell.draws, num_jobs=choice.jobs
    )
    if cell.is_swept:
        assert cell.load is not None
        draws = at_load(draws, cell.load)
    parts: list[dict[str, Any]] = []

    def keep(policy: str, draw: int, ready: Prepared, window: Window, records: Records) -> None:
        parts.append(_job_times(policy, draw, cell, ready, window, records))

    found = play(
        draws,
        entries_of(choice.policies, choice.own),
        asked_load=cell.load,
        iterations=choice.iterations,
        timed=choice.timed,
        on_records=None if choice.keep is None else keep,
    )
    if choice.keep is not None:
        choice.keep.mkdir(parents=True, exist_ok=True)
        write_job_times(job_file(cell, choice), parts)
    return found.to_json()


def _job_times(
    policy: str, draw: int, cell: Cell, ready: Prepared, window: Window, records: Records
) -> dict[str, Any]:
    """Times of the jobs of a draw, the columns of ``jaxsched.results.job_times``."""
    counted = np.zeros(len(ready.table), np.bool_)
    counted[window.jobs] = True
    return times_of(
        policy=policy,
        submit=records.submit,
        start=records.start,
        end=records.end,
        num_gpus=records.num_gpus,
        duration=records.duration,
        job_id="" if ready.log.job_id is None else ready.log.job_id,
        workload=cell.workload.name,
        load=ready.load,
        draw=draw,
        counts=counted,
        suspensions=records.preemptions,
    )


def job_file(cell: Cell, choice: Choice) -> Path:
    """The file of a cell's per-job times; its name differs for other settings."""
    assert choice.keep is not None
    facts = {name: value for name, value in cell.facts.items() if value is not None}
    of = [cell.name, facts, choice.settings()]
    digest = hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()
    return choice.keep / f"{digest[:16]}.parquet"


def has_jobs(cell: Cell, choice: Choice) -> bool:
    """Whether a cell's per-job times are on disk, or not needed."""
    return choice.keep is None or job_file(cell, choice).exists()


def write_jobs(path: Path, cells: Sequence[Cell], choice: Choice) -> Path:
    """Write the per-job times of all cells into one file, comma-separated or Parquet."""
    return write_tables(path, (read_part(job_file(cell, choice)) for cell in cells))


def play_all(
    cells: Sequence[Cell], choice: Choice, processes: int
) -> Iterator[tuple[Cell, Played]]:
    """Compute cells in parallel processes; results come in the order in which they end."""
    if min(processes, len(cells)) < 2:
        for cell in cells:
            yield cell, play_cell(cell, choice)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_end_with_parent) as pool:
        running: dict[Future[Played], Cell] = {
            pool.submit(play_cell, cell, choice): cell for cell in cells
        }
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        except BaseException:  # else the pool waits for the cells under way
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def play_missing(
    cells: Sequence[Cell],
    choice: Choice,
    record: "Record",
    processes: int,
    say: Callable[[str], object] = lambda line: None,
) -> None:
    """Compute the cells that the record lacks, writing every cell as soon as it is done.

    Args:
      cells: the cells of the board.
      choice: policies and settings.
      record: the file of finished cells.
      processes: parallel processes.
      say: called with a line at the beginning and after each cell.

    Raises:
      JaxschedError: the record cannot be written.
    """
    missing = [cell for cell in cells if not (record.has(cell) and has_jobs(cell, choice))]
    if not missing:
        return
    make_folder(record.path)
    check_writable(record.path)
    began = time.perf_counter()
    say(
        f"{len(missing)} of {len(cells)} cells (a workload at a load) to compute; Ctrl-C stops, "
        "the same command resumes"
    )
    for number, (cell, played) in enumerate(play_all(missing, choice, processes), 1):
        record.cells[cell.name] = played
        record.write()
        rows = [row for row in played["standings"] if not row["recorded"]]
        best = min(rows, key=lambda row: float(row["jct_ratio"]))
        say(
            f"[{number}/{len(missing)}, {time.perf_counter() - began:.0f} s] {cell.name}: "
            f"{played['num_jobs']:,} jobs, best {best['policy']} at {best['jct_ratio']:.2f} x "
            f"bound, {played['seconds']:.0f} CPU s"
        )


def _end_with_parent() -> None:
    """End this worker when its parent process ends, for whatever reason."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def usual_processes() -> int:
    """Two processes, or one on a single core."""
    return min(2, num_cores())


class Record:
    """The file of a board's finished cells, which are not computed again."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Open a record; begin a new one if it is missing or has other settings."""
        self.path, self.settings = path, dict(settings)
        self.cells: dict[str, Played] = _finished(path, self.settings)

    def has(self, cell: Cell) -> bool:
        """Whether it has the cell, with the same jobs and cluster."""
        done = self.cells.get(cell.name)
        return isinstance(done, dict) and all(
            done.get(name) == value for name, value in cell.facts.items()
        )

    def document(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """Settings, provenance and cells by name; all cells by default."""
        kept = {name: self.cells[name] for name in (self.cells if names is None else names)}
        return {"settings": self.settings, **surroundings(), "pieces": kept}

    def write(self) -> None:
        """Write the file atomically."""
        text = json.dumps(self.document(), indent=1, allow_nan=False)
        write_whole(self.path, (text + "\n").encode())


def _finished(path: Path, settings: Mapping[str, Any]) -> dict[str, Played]:
    """Cells of an earlier call with the same settings; none if the file is no such record."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(document, dict) or document.get("settings") != settings:
        return {}
    cells = document.get("pieces")
    return cells if isinstance(cells, dict) else {}


def boards_of(cells: Sequence[Cell], record: Record) -> list[list[Standings]]:
    """For each workload its boards by load."""
    found: dict[str, list[Standings]] = {}
    for cell in cells:
        found.setdefault(cell.workload.name, []).append(_board(cell, record))
    return [sorted(boards, key=load_of) for boards in found.values()]


def main_boards(cells: Sequence[Cell], record: Record) -> list[Standings]:
    """For each workload the board at its own load."""
    return [_board(cell, record) for cell in cells if not cell.is_swept]


def document(cells: Sequence[Cell], record: Record) -> dict[str, Any]:
    """The document of ``--json``: the record of these cells, the board's load, conclusions.

    ``load`` is that of the board (null: that of the jobs on the given cluster); every cell has
    its ``notes``: what was dropped, capped, stretched, and which policies could not run.
    """
    return {
        **record.document(cell.name for cell in cells),
        "load": next(cell.load for cell in cells if not cell.is_swept),
        "recommendation": recommendation(main_boards(cells, record)),
    }


def load_of(board: Standings) -> float:
    """The load of a board: the requested one, else the measured one of its window."""
    return board.load if board.asked_load is None else board.asked_load


def _board(cell: Cell, record: Record) -> Standings:
    return Standings.from_json(record.cells[cell.name])


def check_loads(loads: Sequence[float]) -> None:
    """Refuse loads out of range."""
    if not all(0 < load < 10 for load in loads):
        given = ", ".join(f"{load:g}" for load in loads)
        raise JaxschedError(f"loads are {given}; accepted: numbers above 0 and below 10")
