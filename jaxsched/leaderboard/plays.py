"""What there is to play: workloads at loads, in processes side by side, each played once."""

import json
import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from jaxsched.bench.timing import surroundings
from jaxsched.errors import JaxschedError
from jaxsched.files import write_whole
from jaxsched.leaderboard.board import Standings, play
from jaxsched.leaderboard.entries import entries_of
from jaxsched.leaderboard.workloads import Prepared, Workload, at_load, prepare
from jaxsched.runtime import num_cores

LOADS = (0.6, 0.7, 0.8, 0.9, 0.95)
DRAWS, SWEEP_DRAWS = 5, 1
"""Of generated workloads: at the load of the board, and at most at the other loads of a sweep."""
METHOD = 2
"""Raised when figures of an earlier record cannot stand beside new ones."""

Played = dict[str, Any]


class Choice(NamedTuple):
    """Who plays, and how; plain values, the same for all pieces.

    Attributes:
      policies: names; None: all of the library.
      own: ``module:name`` of users' own.
      jobs: play no more than the first so many jobs.
      iterations: of the bounds from prices.
      seed: of generated workloads, the first.
      draws: of generated workloads.
      timed: whether replays are timed.
    """

    policies: tuple[str, ...] | None
    own: tuple[str, ...]
    jobs: int | None
    iterations: int
    seed: int
    draws: int
    timed: bool

    def settings(self) -> dict[str, Any]:
        """As it stands in records."""
        entries = entries_of(self.policies, self.own)
        plain = {name: value for name, value in self._asdict().items() if name != "own"}
        return {**plain, "policies": [entry.name for entry in entries], "method": METHOD}


class Piece(NamedTuple):
    """One workload at one load.

    Attributes:
      workload: what to play.
      data: folder of public traces.
      load: the load.
      draws: how many.
      facts: what a record of it must have: the trace, jobs, cluster.
    """

    workload: Workload
    data: Path | None
    load: float
    draws: int
    facts: dict[str, Any]

    @property
    def name(self) -> str:
        """Tells pieces apart."""
        return f"{self.workload.name}@{self.load:g}"

    @property
    def is_swept(self) -> bool:
        """Whether its load is another than the workload's own."""
        return self.load != self.workload.load


def pieces_of(
    workloads: Sequence[Workload],
    data: Path | None,
    loads: Sequence[float],
    choice: Choice,
) -> list[Piece]:
    """Everything to play: first all workloads at their own load, then the sweep; long ones first.

    At first processes side by side have programs of different shapes to compile, later none. A
    cluster is chosen for the workload's own load; for other loads times are stretched.
    """
    found = []
    for workload in workloads:
        first = prepare(workload, data, seed=choice.seed, num_jobs=choice.jobs)
        draws = choice.draws if workload.is_generated else 1
        for load in dict.fromkeys((workload.load, *loads)):
            count = draws if load == workload.load else min(draws, SWEEP_DRAWS)
            found.append(Piece(workload, data, load, count, _facts(first, count)))
    return sorted(found, key=lambda piece: (piece.is_swept, -piece.facts["num_jobs"] * piece.draws))


def _facts(first: Prepared, draws: int) -> dict[str, Any]:
    return {
        "digest": first.digest,
        "num_jobs": len(first.table),
        "num_servers": first.cluster.num_servers,
        "num_draws": draws,
    }


def play_piece(piece: Piece, choice: Choice) -> Played:
    """All policies on one workload at one load; plain values."""
    workload = piece.workload
    first = prepare(workload, piece.data, seed=choice.seed, num_jobs=choice.jobs)
    if piece.is_swept:
        first = at_load(first, piece.load)
    same = workload._replace(load=first.load, num_servers=first.cluster.num_servers)
    seeds = range(choice.seed + 1, choice.seed + piece.draws)
    draws = [prepare(same, None, seed=seed, num_jobs=choice.jobs) for seed in seeds]
    found = play(
        [first, *draws],
        entries_of(choice.policies, choice.own),
        asked_load=piece.load,
        iterations=choice.iterations,
        timed=choice.timed,
    )
    return found.to_json()


def play_all(
    pieces: Sequence[Piece], choice: Choice, processes: int
) -> Iterator[tuple[Piece, Played]]:
    """Play pieces, as many side by side as there are processes; in the order in which they end."""
    if min(processes, len(pieces)) < 2:
        for piece in pieces:
            yield piece, play_piece(piece, choice)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_end_with_parent) as pool:
        running: dict[Future[Played], Piece] = {
            pool.submit(play_piece, piece, choice): piece for piece in pieces
        }
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        except BaseException:  # the pool would wait for the pieces that are being played
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """End this worker when the process that started it does, however that ended."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def usual_processes() -> int:
    """Two, or one where there is one core."""
    return min(2, num_cores())


class Record:
    """The file that a board is kept in: what it has is not played again."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Open a record; one of other settings, or none, is begun anew."""
        self.path, self.settings = path, dict(settings)
        self.pieces: dict[str, Played] = _finished(path, self.settings)

    def has(self, piece: Piece) -> bool:
        """Whether a piece is there, of the same jobs and cluster."""
        done = self.pieces.get(piece.name)
        return isinstance(done, dict) and all(
            done.get(name) == value for name, value in piece.facts.items()
        )

    def document(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """Settings, surroundings and pieces by name; all of them by default."""
        kept = {name: self.pieces[name] for name in (self.pieces if names is None else names)}
        return {"settings": self.settings, **surroundings(), "pieces": kept}

    def write(self) -> None:
        """Write the file whole."""
        text = json.dumps(self.document(), indent=1, allow_nan=False)
        write_whole(self.path, (text + "\n").encode())


def _finished(path: Path, settings: Mapping[str, Any]) -> dict[str, Played]:
    """Pieces of an earlier call with the same settings; none if the file is no such record."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(document, dict) or document.get("settings") != settings:
        return {}
    pieces = document.get("pieces")
    return pieces if isinstance(pieces, dict) else {}


def boards_of(pieces: Sequence[Piece], record: Record) -> list[list[Standings]]:
    """For each workload its boards by load."""
    found: dict[str, list[Standings]] = {}
    for piece in pieces:
        found.setdefault(piece.workload.name, []).append(_board(piece, record))
    return [sorted(boards, key=lambda board: board.asked_load) for boards in found.values()]


def main_boards(pieces: Sequence[Piece], record: Record) -> list[Standings]:
    """For each workload the board at its own load."""
    return [_board(piece, record) for piece in pieces if not piece.is_swept]


def _board(piece: Piece, record: Record) -> Standings:
    return Standings.from_json(record.pieces[piece.name])


def check_loads(loads: Sequence[float]) -> None:
    """Refuse loads that nothing can be played at."""
    if not all(0 < load < 10 for load in loads):
        given = ", ".join(f"{load:g}" for load in loads)
        raise JaxschedError(f"loads are {given}; accepted: numbers above 0 and below 10")
