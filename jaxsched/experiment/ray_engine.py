"""The groups of a sweep as tasks of Ray: on this machine, or on those of a cluster.

Ray decides where a task runs, with which devices, and begins it again where its worker was lost. A
task trains one group (:mod:`jaxsched.experiment.ray_worker`) with the program that this process
would have, so its numbers are the same.
"""

import contextlib
import io
import os
import pickle
import sys
import time
import uuid
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxsched.arguments import are_options, argument
from jaxsched.errors import JaxschedError, check_counts, first_line
from jaxsched.experiment import ray_worker
from jaxsched.experiment.groups import Engine, Rows, Session, shared_by
from jaxsched.experiment.ray_connection import connection, load
from jaxsched.experiment.sweep_plan import SweepPlan
from jaxsched.files import write_whole
from jaxsched.runs import interrupts, trainer
from jaxsched.runs.directory import RunDirectory
from jaxsched.runs.sweep import Group
from jaxsched.systems import registry
from jaxsched.systems.system import System

POLL_S = 0.3
"""Between looks at signals, the board and what has ended."""
PATIENCE_S = 5.0
"""For the board to answer."""
HERE = ("JAX_COMPILATION_CACHE_DIR", "JAX_COORDINATOR_ADDRESS", "JAX_PROCESS_ID")
"""Settings of this process that say nothing of others."""
SETTINGS = (
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_disable_most_optimizations",
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_threefry_partitionable",
)
"""Settings of JAX on which numbers depend."""


class RayOptions(NamedTuple):
    """How a sweep uses Ray.

    Attributes:
      address: of a running cluster; ``RAY_ADDRESS``, or one of this machine alone, if absent.
      num_cpus: cores of a task; 1, or one for each device, if absent.
      num_gpus: GPUs of a task, a part of one too; if absent none where the cluster has none, else
        1, or one for each device.
      max_retries: how often a task begins again whose worker was lost.
      engine_log: whether Ray's own lines are printed.
      devices: that a task divides its environments or seeds between; None: one.
      shard: which of them.
    """

    address: str | None = None
    num_cpus: float | None = None
    num_gpus: float | None = None
    max_retries: int = 3
    engine_log: bool = False
    devices: int | str | None = None
    shard: str = "seeds"


def ray_engine(options: RayOptions) -> Engine:
    """The engine with these options.

    Raises:
      JaxschedError: an option is refused, or Ray is not installed.
    """
    _check(options)
    ray = load(options.engine_log)

    def train(
        planned: SweepPlan, groups: Sequence[Group], session: Session
    ) -> Iterator[tuple[Group, Rows]]:
        if not session.resume:
            for group in groups:
                RunDirectory.check(planned.folder / group.name, planned.config)
        if len(groups) == 1 and len(groups[0].members) > 1:
            n = len(groups[0].members)
            session.say(
                f"one task: {n} trainings side by side; {argument('side_by_side')} makes more"
            )
        with connection(ray, options.address, options.engine_log), _sign(planned.folder) as sign:
            tasks = _Tasks(ray, options, planned, session, sign)
            yield from tasks.results(groups)

    return train


def _check(options: RayOptions) -> None:
    check_counts(optional=True, devices=None if options.devices == "all" else options.devices)
    if options.devices == "all":
        raise JaxschedError(
            f"{argument('devices')} is 'all'; accepted with the engine 'ray': a number, of each "
            "task"
        )
    for name in ("num_cpus", "num_gpus"):
        value = getattr(options, name)
        if value is not None and not 0 <= value < float("inf"):
            raise JaxschedError(f"{argument(name)} is {value!r}; accepted: a number from 0 on")
    gpus = options.num_gpus or 0
    if gpus > 1 and gpus != int(gpus):
        raise JaxschedError(
            f"{argument('num_gpus')} is {gpus!r}; accepted: a whole number, or a part of one GPU"
        )
    if options.max_retries < 0:
        raise JaxschedError(
            f"{argument('max_retries')} is {options.max_retries}; accepted: a number from 0 on"
        )


@contextlib.contextmanager
def _sign(folder: Path) -> Iterator[str]:
    """A word in a file of the folder, by which workers see whether they share it."""
    path, word = folder / ray_worker.SIGN, uuid.uuid4().hex
    write_whole(path, word.encode())
    try:
        yield word
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


class _Tasks:
    """The tasks of one session."""

    def __init__(
        self, ray: Any, options: RayOptions, planned: SweepPlan, session: Session, sign: str
    ) -> None:
        self.ray, self.options, self.planned, self.session = ray, options, planned, session
        self.begun: dict[str, int] = {}  # by group, how often
        self.failed: dict[str, str] = {}
        self.resources = self._resources()
        self.shared = ray.put(self._shared(sign))
        board, task = ray_worker.definitions()
        self.board = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(board).remote()
        self.task = ray.remote(max_retries=options.max_retries, **self.resources)(task)

    def results(self, groups: Sequence[Group]) -> Iterator[tuple[Group, Rows]]:
        """Each group with its rows as it ends.

        Raises:
          Interrupted: asked to stop; what has a checkpoint can go on.
          JaxschedError: groups could not be trained; all others have been.
        """
        ray, named = self.ray, self.planned.named
        waiting: dict[Any, Group] = {}
        for group in groups:
            task = self.task.options(name=f"jaxsched {group.name}")
            words = (named(group), pickle.dumps(group))
            waiting[task.remote(self.shared, *words, self.board)] = group
        status = 0
        with interrupts.requests(self.session.limit) as asked:
            while waiting:
                done, _ = ray.wait(list(waiting), timeout=POLL_S)
                if not status and (status := asked(0.0)):
                    self._stop(waiting)
                self._show(status)
                for reference in done:
                    group = waiting.pop(reference)
                    rows = self._result(reference, group, status)
                    if rows is not None:
                        self.session.say(f"{named(group)} has ended; {len(waiting)} left")
                        yield group, rows
        if status:
            raise trainer.Interrupted(status)
        if self.failed:
            first, why = next(iter(self.failed.items()))
            more = len(self.failed) - 1
            others = f" (and {more} more, all else is done)" if more else " (all else is done)"
            raise JaxschedError(
                f"{first}{others}: {why}; what is missing can go on ({argument('resume')})"
            )

    def _resources(self) -> dict[str, float]:
        """Cores and GPUs of a task.

        Raises:
          JaxschedError: Ray runs on this machine alone, and it has fewer.
        """
        devices = self.options.devices if isinstance(self.options.devices, int) else 1
        there = self.ray.cluster_resources()
        gpus = self.options.num_gpus
        if gpus is None:
            gpus = float(devices) if there.get("GPU", 0) > 0 else 0.0
        cpus = self.options.num_cpus
        if cpus is None:
            cpus = 1.0 if gpus else float(devices)
        asked = {"CPU": cpus, "GPU": gpus}
        machines = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        if not any(
            all(machine.get(kind, 0) >= number for kind, number in asked.items())
            for machine in machines
        ):
            most = {kind: max(m.get(kind, 0) for m in machines) for kind in asked}
            raise JaxschedError(
                f"a task asks for {argument('num_cpus')} {cpus:g} and {argument('num_gpus')} "
                f"{gpus:g}; the machines that Ray "
                f"knows have at most {most['CPU']:g} and {most['GPU']:g}"
            )
        return {"num_cpus": cpus, "num_gpus": gpus}

    def _shared(self, sign: str) -> dict[str, Any]:
        """What every task needs, in plain values: workers look at them before they load more."""
        import jax

        gpus = self.resources["num_gpus"]
        environment = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(("JAX_", "XLA_")) and name not in HERE
        }
        if gpus:  # this process may be on a machine without
            environment.pop("JAX_PLATFORMS", None)
        else:
            environment.setdefault("JAX_PLATFORMS", "cpu")
        if 0 < gpus < 1:
            environment.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.75 * gpus:.3f}")
        limit = self.session.limit.deadline
        shared = shared_by(self.planned)
        folder = self.planned.folder.absolute()
        content = shared._replace(system=None, recipe=None, folder=folder)  # type: ignore[arg-type]
        return {
            "versions": ray_worker.versions(),
            "environment": environment,
            "settings": {name: jax.config.values[name] for name in SETTINGS},
            "path": [os.path.abspath(place) for place in sys.path],
            "devices": self.options.devices,
            "shard": self.options.shard,
            "deadline": None if limit is None else time.time() + limit - time.monotonic(),
            "sign": sign,
            "options_typed": are_options(),
            "system": _portable(self.ray, self.planned.system),
            "preset": self.planned.config["preset"],
            "content": pickle.dumps(content),
        }

    def _show(self, status: int) -> None:
        """Lines of the workers; tells them whether to stop."""
        try:
            lines = self.ray.get(self.board.exchange.remote(status), timeout=PATIENCE_S)
        except self.ray.exceptions.RayError:  # begins again with its machine
            return
        for group, line, begins in lines:
            if begins:
                self.begun[group] = self.begun.get(group, 0) + 1
            lost = begins and self.begun[group] > 1
            self.session.say(f"{group}: {'its worker was lost; again ' if lost else ''}{line}")

    def _stop(self, waiting: Mapping[Any, Group]) -> None:
        """Forget tasks that have not begun; the others hear of it by the board."""
        for reference, group in waiting.items():
            if self.planned.named(group) not in self.begun:
                self.ray.cancel(reference)

    def _result(self, reference: Any, group: Group, status: int) -> Rows | None:
        """What a task has found; None if that is nothing."""
        name, errors = self.planned.named(group), self.ray.exceptions
        try:
            outcome = self.ray.get(reference)
        except errors.TaskCancelledError:
            return None
        except errors.RayTaskError as error:
            self.failed[name] = f"{type(error.cause).__name__}: {first_line(error.cause)}"
            return None
        except errors.RayError as error:
            if not status:
                times = self.options.max_retries + 1
                kind = type(error).__name__
                self.failed[name] = f"its worker was lost ({kind}), {times} times at most"
            return None
        if "refused" in outcome:
            self.failed[name] = outcome["refused"]
        if outcome.get("lost"):
            self.session.say(f"{name}: its machine does not share the folder, its updates are lost")
        if "files" in outcome:
            _unpack(outcome["files"], self.planned.folder / group.name)
        rows: Rows | None = outcome.get("rows")
        return rows


def _portable(ray: Any, system: System) -> str | bytes:
    """The name of an installed system, or the system itself.

    Raises:
      JaxschedError: it cannot be pickled.
    """
    if registry.is_installed(system.name) and registry.get(system.name) is system:
        return system.name
    try:
        data: bytes = ray.cloudpickle.dumps(system)
        return data
    except Exception as error:  # whatever its parts raise
        raise JaxschedError(
            f"system {system.name!r} cannot be sent to workers ({first_line(error)}); accepted: "
            "one that can be pickled, or of an installed package (entry point jaxsched.systems)"
        ) from error


def _unpack(data: bytes, folder: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(folder)
