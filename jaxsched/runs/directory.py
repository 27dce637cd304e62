"""The run directory: the inputs of a training run and its measurements.

    run/
      config.json      what was asked for, and with which code, versions and device
      metrics.jsonl    one line per logged step
      tensorboard/     the same numbers as TensorBoard events
      run.toml         options that repeat it, for ``--config``
      checkpoints/     see ``jaxsched.runs.checkpoints``
      report.html      written at the end

A run is a function of (code version, config, seed); ``config.json`` records all three.
"""

import errno
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxsched.core import processes
from jaxsched.errors import JaxschedError
from jaxsched.files import check_folder, write_whole
from jaxsched.json_values import json_value
from jaxsched.provenance import facts
from jaxsched.runs.lock import FolderLock
from jaxsched.runs.trackers import Tracker

_FORMAT = "jaxsched-run/1"
OPTIONS, REPORT = "run.toml", "report.html"
"""File names of a run's options for ``--config``, and of its report."""
_SAME_ON_RESUME = ("system", "preset", "overrides", "seed", "num_seeds", "trace_digests")


class RunDirectory:
    """An open run directory; made by ``create`` or ``open``.

    Attributes:
      path: the folder.
      config: what the caller asked for (``config.json`` less the recorded environment).
      writes: whether this process does; of several only the first one.
      trackers: trackers that also receive the log; closed with the run.
    """

    def __init__(
        self,
        path: Path,
        config: dict[str, Any],
        lock: FolderLock | None = None,
        *,
        writes: bool = True,
    ) -> None:
        self.path = path
        self.writes = writes
        self.config = config
        self.trackers: list[Tracker] = []
        self._lock = lock
        self._lines: Any = None
        self._events: Any = None
        self._purge_step: int | None = None

    @classmethod
    def create(
        cls,
        path: str | Path,
        config: Mapping[str, Any],
        *,
        resume: bool = False,
        overwrite: bool = False,
    ) -> "RunDirectory":
        """Start a run in a new or empty folder, or continue or replace one that is there.

        Until ``close`` or the end of the process no other one can do so. Processes that run
        together call it together.

        Args:
          path: the folder; parents are created.
          config: what the run is: ``system``, ``preset``, ``overrides``, ``seed``,
            ``trace_digests`` and more; dataclasses, paths and numpy scalars are converted.
          resume: continue the run there, whose config must agree on what decides the results.
          overwrite: delete the run there first; only ever a folder that holds a run.

        Raises:
          JaxschedError: the folder holds something else, the config differs, another process
            works in it, or it cannot be written.
        """
        path, plain = Path(path), json_value(dict(config))
        return processes.first_alone(
            lambda: cls._create(path, plain, resume, overwrite),
            lambda: cls(path, plain, writes=False),
        )

    @classmethod
    def check(
        cls,
        path: str | Path,
        config: Mapping[str, Any],
        *,
        resume: bool = False,
        overwrite: bool = False,
    ) -> None:
        """Refuse what ``create`` would refuse, as far as it is known, and change nothing.

        To be called before anything is read or drawn for the run.

        Args:
          path: the folder.
          config: the part of ``config`` that is known already.
          resume: as in ``create``; checkpoints that no run can go on from are refused as well.
          overwrite: as in ``create``.

        Raises:
          JaxschedError: as ``create``.
        """
        path = Path(path)
        if resume:
            _check_same(path, cls.open(path).config, json_value(dict(config)))
        elif path.exists() and not path.is_dir():
            raise JaxschedError(f"{path}: not a directory; choose another output directory")
        elif path.is_dir() and any(path.iterdir()):
            _check_clearable(path, overwrite)
        check_folder(path)

    @classmethod
    def _create(
        cls, path: Path, plain: dict[str, Any], resume: bool, overwrite: bool
    ) -> "RunDirectory":
        if resume:
            _check_same(path, cls.open(path).config, plain)
            lock = _lock(path)
            document = _read_config(path)
            document["sessions"].append(facts())
            _write_config(path, document)
            return cls(path, document["config"], lock)
        try:
            if path.exists() and not path.is_dir():
                raise JaxschedError(f"{path}: not a directory; choose another output directory")
            path.mkdir(parents=True, exist_ok=True)
            lock = _lock(path)
            if any(path.iterdir()):
                _clear(path, overwrite)
        except OSError as error:
            raise _cannot_write(path, error) from error
        _write_config(path, {"format": _FORMAT, "config": plain, "sessions": [facts()]})
        return cls(path, plain, lock)

    @classmethod
    def open(cls, path: str | Path) -> "RunDirectory":
        """Open an existing run, to read it or to log further steps."""
        return cls(Path(path), _read_config(Path(path))["config"])

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def report(self) -> Path:
        """Path of the report."""
        return self.path / REPORT

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Append scalars to ``metrics.jsonl`` and TensorBoard; the line is on disk on return.

        Args:
          step: host integer, does not decrease.
          metrics: scalars by name; what is not finite is written as null.
        """
        if not self.writes:
            return
        values = {name: float(value) for name, value in metrics.items()}
        line = {"step": int(step), "time_s": round(time.time(), 3)}
        line.update({k: v if math.isfinite(v) else None for k, v in values.items()})  # type: ignore[misc]
        try:
            if self._lines is None:
                self._lines = (self.path / "metrics.jsonl").open("ab", buffering=0)
            data = (json.dumps(line) + "\n").encode()
            if self._lines.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise _cannot_write(self.path / "metrics.jsonl", error) from error
        self._log_event(int(step), values)
        for tracker in self.trackers:
            tracker.log(int(step), values)

    def metrics(self) -> list[dict[str, Any]]:
        """The logged lines, oldest first; an unfinished last line is left out."""
        return [line for _, line in _complete_lines(self.path / "metrics.jsonl")]

    def rewind(self, step: int) -> None:
        """Remove the log after ``step``, from which the run continues."""
        if not self.writes:
            return
        self._close_files()
        path = self.path / "metrics.jsonl"
        kept = [text for text, line in _complete_lines(path) if line["step"] <= step]
        write_whole(path, "".join(kept).encode())
        self._purge_step = step + 1

    def write_json(self, name: str, document: Any) -> Path:
        """Write a JSON file into the run directory, whole or not at all; returns its path."""
        write_whole(self.path / name, (json.dumps(json_value(document), indent=2) + "\n").encode())
        return self.path / name

    def close(self) -> None:
        """Close the files and let other processes work in the folder."""
        self._close_files()
        for tracker in self.trackers:
            tracker.close()
        self.trackers = []
        if self._lock is not None:
            self._lock.release()

    def _close_files(self) -> None:
        for file in (self._lines, self._events):
            if file is not None:
                file.close()
        self._lines = self._events = None

    def _log_event(self, step: int, values: dict[str, float]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary

        try:
            if self._events is None:
                self._events = _event_writer(self.path / "tensorboard")
                if self._purge_step is not None:  # TensorBoard drops later points of old files
                    start = SessionLog(status=SessionLog.START)
                    self._events.add_event(
                        Event(wall_time=time.time(), step=self._purge_step, session_log=start)
                    )
            points = [Summary.Value(tag=tag, simple_value=v) for tag, v in values.items()]
            self._events.add_event(
                Event(wall_time=time.time(), step=step, summary=Summary(value=points))
            )
            self._events.flush()
        except OSError as error:
            raise _cannot_write(self.path / "tensorboard", error) from error

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file as ``sha256:<hex>``, for ``trace_digests``."""
    try:
        with Path(path).open("rb") as file:
            return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise JaxschedError(f"{path}: cannot be read: {error.strerror or error}") from error


def _event_writer(path: Path) -> Any:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    return EventFileWriter(str(path))


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise JaxschedError(f"{path}: no such run directory")
    try:
        document = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        document = None
    except (OSError, ValueError) as error:
        raise JaxschedError(f"{path / 'config.json'}: cannot be read: {error}") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise JaxschedError(f"{path}: not a run directory (no config.json of {_FORMAT})")
    return document


def _clear(path: Path, overwrite: bool) -> None:
    """Empty a folder that holds a run; refuse other folders, and any without ``overwrite``."""
    _check_clearable(path, overwrite)
    marker = path / "config.json"
    for entry in [*(e for e in path.iterdir() if e != marker), marker]:  # marker last
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _check_clearable(path: Path, overwrite: bool) -> None:
    if not _is_run(path):
        raise JaxschedError(
            f"{path}: not empty and not a run directory; choose another output directory"
        )
    if not overwrite:
        raise JaxschedError(
            f"{path}: there is a run already; resume it, ask to overwrite it, or choose another"
        )


def _lock(path: Path) -> FolderLock:
    try:
        return FolderLock(path)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _is_run(path: Path) -> bool:
    try:
        _read_config(path)
    except JaxschedError:
        return False
    return True


def _check_same(path: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    for name in _SAME_ON_RESUME:
        if name in old and name in new and old[name] != new[name]:
            raise JaxschedError(
                f"{path}: cannot resume: {name} was {old[name]!r}, now it is {new[name]!r}"
            )


def _write_config(path: Path, document: dict[str, Any]) -> None:
    write_whole(path / "config.json", (json.dumps(document, indent=2) + "\n").encode())


def _complete_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Text and content of each line up to the first that a killed process left unfinished."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                return
            if not text.endswith("\n") or not isinstance(line, dict) or "step" not in line:
                return
            yield text, line


def _cannot_write(path: Path, error: OSError) -> JaxschedError:
    return JaxschedError(f"{path}: cannot be written: {error.strerror or error}")
