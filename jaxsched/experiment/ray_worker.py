"""What runs in Ray's workers: one group of a sweep, and the board where workers leave lines.

Nothing here loads JAX before the worker's environment is that of the sweep.
"""

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import jaxsched
from jaxsched.systems import presets

SIGN = ".ray-session"
"""File in the sweep's folder with a word of the session."""
LOOK_S = 1.0
"""Between looks at the board."""
LINE_S = 10.0
"""Between lines of progress of a task."""


def definitions() -> tuple[type, Callable[..., dict[str, Any]]]:
    """The board and the task.

    They are defined within a function so that Ray sends them as they are: a worker without the
    library can then say so.
    """

    class Board:
        """Lines of the workers, and whether they are asked to stop."""

        def __init__(self) -> None:
            self.lines: list[tuple[str, str, bool]] = []
            self.status = 0

        def tell(self, group: str, line: str, begins: bool) -> None:
            self.lines.append((group, line, begins))

        def exchange(self, status: int) -> list[tuple[str, str, bool]]:
            self.status, lines, self.lines = status, self.lines, []
            return lines

        def asked(self) -> int:
            return self.status

    def task(shared: Any, name: str, group: bytes, board: Any) -> dict[str, Any]:
        try:
            from jaxsched.experiment import ray_worker
        except ImportError as error:
            import platform  # nothing of this module goes with the task
            import sys

            return {
                "refused": f"{sys.executable} on {platform.node()} has no jaxsched ({error}); "
                "install the same versions on every machine"
            }
        return ray_worker.train(shared, name, group, board)

    return Board, task


def versions() -> dict[str, str]:
    """What must be the same on every machine."""
    return {
        "jaxsched": jaxsched.__version__,
        "jax": metadata.version("jax"),
        "jaxlib": metadata.version("jaxlib"),
    }


def train(shared: Mapping[str, Any], name: str, group: bytes, board: Any) -> dict[str, Any]:
    """Train a group.

    Args:
      shared: what the engine gives to all tasks.
      name: the group in words.
      group: pickled.
      board: handle of the actor.

    Returns:
      ``rows`` of the group, and ``files`` (a ZIP archive of its folder) where the worker does not
      share the sweep's; or ``stopped``, the status, and whether all is ``lost``; or ``refused``.
    """
    ours, theirs = versions(), shared["versions"]
    different = [f"{part} {ours[part]}" for part in ours if ours[part] != theirs[part]]
    if different:
        wanted = ", ".join(f"{part} {version}" for part, version in theirs.items())
        return {
            "refused": f"{platform.node()} has {', '.join(different)}; accepted: {wanted}, the "
            "versions of the program that began the sweep"
        }
    _prepare(shared)
    from jaxsched.arguments import options_typed
    from jaxsched.errors import JaxschedError

    try:
        with options_typed(shared["options_typed"]):
            return _train(shared, name, group, _Mailbox(board, name))
    except JaxschedError as error:
        return {"refused": str(error)}


def _prepare(shared: Mapping[str, Any]) -> None:
    """Give this process the environment of the sweep's."""
    from jaxsched import runtime

    os.environ.update(shared["environment"])
    sys.path += [place for place in shared["path"] if place not in sys.path]
    runtime.keep_compilations()
    if shared["devices"] is not None:
        runtime.split_cpu(shared["devices"])
    import jax

    for setting, value in shared["settings"].items():
        jax.config.update(setting, value)


def _train(
    shared: Mapping[str, Any], name: str, data: bytes, mailbox: "_Mailbox"
) -> dict[str, Any]:
    import pickle

    from jaxsched.experiment.devices import mesh_of
    from jaxsched.experiment.groups import Session, ended, training_of_group
    from jaxsched.runs import interrupts, trainer

    group, system = pickle.loads(data), _system(shared["system"])
    content = pickle.loads(shared["content"])
    shares = _shares(content.folder, shared["sign"])
    with _place(content.folder, shares) as folder:
        content = content._replace(
            system=system, recipe=presets.preset(system, shared["preset"]), folder=folder
        )
        path = folder / group.name
        for left in path.glob(".*.partial"):  # by a worker that was lost
            left.unlink(missing_ok=True)
        if status := mailbox.asked():
            return {"stopped": status, "lost": False}
        mailbox.begins(path, len(group.members), shares)
        deadline = shared["deadline"]
        if deadline is not None:
            deadline = time.monotonic() + deadline - time.time()
        session = Session(True, interrupts.Limits(deadline), mailbox.tell, shown=False)
        mesh = mesh_of(shared["devices"], shared["shard"])
        steps = training_of_group(content, group, session, mesh, mailbox.asked)
        try:
            rows = ended(steps, mailbox.progress)
        except trainer.Interrupted as stop:
            return {"stopped": stop.status, "lost": not shares}
        return {"rows": rows} if shares else {"rows": rows, "files": _packed(path)}


def _system(given: str | bytes) -> Any:
    """The system by its name, or as it was sent.

    Raises:
      JaxschedError: what it needs cannot be imported here.
    """
    from jaxsched.errors import JaxschedError, first_line
    from jaxsched.systems import registry

    if isinstance(given, str):
        return registry.get(given)
    import pickle

    try:
        return pickle.loads(given)
    except Exception as error:  # whatever its modules raise
        raise JaxschedError(
            f"{platform.node()} cannot load the system ({first_line(error)}); its modules must be "
            "there, too"
        ) from error


def _shares(folder: Path, sign: str) -> bool:
    """Whether this machine sees the sweep's folder, and the session's word in it."""
    try:
        return (folder / SIGN).read_text(encoding="utf-8") == sign
    except OSError:
        return False


@contextmanager
def _place(folder: Path, shares: bool) -> Iterator[Path]:
    """The sweep's folder, or a temporary one where this machine does not see it."""
    if shares:
        yield folder
        return
    from jaxsched.experiment.temporary import TemporaryFolder

    temporary = TemporaryFolder()
    yield temporary.path


def _packed(folder: Path) -> bytes:
    """A group's folder less its checkpoints, which are large and of use to a run that goes on."""
    import io
    import zipfile

    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            part = path.relative_to(folder)
            if path.is_file() and "checkpoints" not in part.parts:
                archive.write(path, part)
    return data.getvalue()


class _Mailbox:
    """The board as a task uses it; one that does not answer stops no training."""

    def __init__(self, board: Any, name: str) -> None:
        self._board, self._name = board, name
        self._looked, self._wrote, self._status = 0.0, 0.0, 0

    def begins(self, path: Path, members: int, shares: bool) -> None:
        """The first line."""
        import jax

        device = jax.devices()[0]
        place = f"everything goes to {path}"
        if not shares:
            place = "the sweep's folder is not seen there; policies are brought back at the end"
        elif (path / "config.json").exists():
            place = f"goes on in {path}"
        self.tell(
            f"{members} side by side on {platform.node()} ({device.device_kind}, process "
            f"{os.getpid()}); {place}",
            begins=True,
        )

    def progress(self, step: Any) -> None:
        """A line of progress now and then."""
        from jaxsched.units import readable_time

        if time.monotonic() - self._wrote < LINE_S:
            return
        self._wrote = time.monotonic()
        score = "" if step.score is None else f", score {step.score:.5g}"
        self.tell(
            f"{step.stage}, update {step.update} of {step.num_updates}, "
            f"{step.steps_per_s:,.0f} steps/s, {readable_time(step.left_s)} left{score}"
        )

    def tell(self, line: str, *, begins: bool = False) -> None:
        """Leave a line."""
        self._board.tell.remote(self._name, line, begins)

    def asked(self) -> int:
        """0, or the exit status for what asks to stop."""
        import ray

        if not self._status and time.monotonic() - self._looked > LOOK_S:
            try:
                self._status = ray.get(self._board.asked.remote(), timeout=LOOK_S)
            except ray.exceptions.RayError:
                self._status = 0
            self._looked = time.monotonic()
        return self._status
