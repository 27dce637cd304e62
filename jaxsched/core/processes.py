"""Several processes that run one program together, each with its own devices.

Every process runs the same commands; only the first one writes files and shows progress. They find
each other through ``jax.distributed``, by the variables of Slurm or MPI, or by explicit arguments.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from jaxsched import runtime
from jaxsched.arguments import argument
from jaxsched.errors import EndedAlone, JaxschedError, first_line

T = TypeVar("T")

NOTICE_S = 60
"""Seconds without a heartbeat after which JAX ends the remaining processes."""
_LONGEST_MESSAGE = 4096
_LOST = ("gloo", "nccl", "coordination service", "connection closed", "socket closed", "heartbeat")


class Launch(NamedTuple):
    """How processes find each other.

    Attributes:
      coordinator: ``host:port`` of the first process; None: the launcher's.
      num_processes: number of processes.
      process_id: index of this process, from 0.
      local_devices: indices of its own GPUs among visible ones; None: JAX decides.
    """

    coordinator: str | None
    num_processes: int
    process_id: int
    local_devices: tuple[int, ...] | None = None


class Launcher(NamedTuple):
    """A program that starts processes, and its environment variables.

    Attributes:
      name: for messages.
      size: variable that holds the number of processes.
      rank: variable that holds the number of this one.
      finds: variable that is set where JAX can find the first process by itself.
      local_rank: variable that holds the number of this one on its machine.
      local_size: variable that begins with the number of processes on a machine.
    """

    name: str
    size: str
    rank: str
    finds: str
    local_rank: str
    local_size: str


LAUNCHERS = (
    Launcher(
        "Slurm",
        "SLURM_NTASKS",
        "SLURM_PROCID",
        "SLURM_STEP_NODELIST",
        "SLURM_LOCALID",
        "SLURM_STEP_TASKS_PER_NODE",
    ),
    Launcher(
        "Open MPI",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_MCA_orte_hnp_uri",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    Launcher("MPI", "PMI_SIZE", "PMI_RANK", "", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)


def launch_of(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Launch | None:
    """How this process was launched; None if it is alone.

    Args:
      coordinator: ``host:port``, as given.
      num_processes: as given.
      process_id: as given.
      environment: variables by which launchers are recognised.

    Raises:
      JaxschedError: the arguments contradict each other, or do not suffice.
    """
    given = {"num_processes": num_processes, "process_id": process_id}
    launcher = _launcher(environment)
    if coordinator is None:
        for name, value in given.items():
            if value is not None:
                raise JaxschedError(
                    f"{argument(name)} is {value}, but {argument('coordinator')} HOST:PORT is "
                    "missing"
                )
        if launcher is None:
            return None
        if launcher.finds not in environment:
            raise JaxschedError(
                f"{launcher.name} started {environment[launcher.size]} processes and does not "
                f"say where the first one is: give {argument('coordinator')} HOST:PORT"
            )
        own = own_devices(launcher, environment)
        return _checked(None, *_size_and_rank(launcher, environment))._replace(local_devices=own)
    if not _is_address(coordinator):
        raise JaxschedError(f"{argument('coordinator')} is {coordinator!r}; accepted: HOST:PORT")
    if launcher is not None:
        launched = dict(zip(given, _size_and_rank(launcher, environment), strict=True))
        given = {name: launched[name] if value is None else value for name, value in given.items()}
    for name, value in given.items():
        if value is None:
            raise JaxschedError(
                f"{argument('coordinator')} is {coordinator}, but {argument(name)} is missing"
            )
    found = _checked(coordinator, *(int(value) for value in given.values() if value is not None))
    own = None if launcher is None else own_devices(launcher, environment)
    return found._replace(local_devices=own)


def own_devices(launcher: Launcher, environment: Mapping[str, str]) -> tuple[int, ...] | None:
    """Indices of the visible GPUs that a process should use.

    All, where the launcher shows each process its own GPUs; an equal share, where each sees all of
    the machine. By default JAX gives process n of a machine the n-th visible GPU: no GPU where a
    process sees only its own, and one of eight for a single process.

    Args:
      launcher: what started the processes.
      environment: of this process.

    Returns:
      Indices from 0; None if the variables do not name GPUs.
    """
    rank = environment.get(launcher.local_rank, "")
    size = re.match(r"\d+", environment.get(launcher.local_size, ""))
    gpus = environment.get("SLURM_GPUS_ON_NODE", "")
    on_machine = int(gpus) if gpus.isdecimal() else 0
    visible = environment.get("CUDA_VISIBLE_DEVICES", "")
    seen = len(visible.split(",")) if visible else on_machine
    if not (seen and rank.isdecimal()) or "JAX_LOCAL_DEVICE_IDS" in environment:
        return None
    bound = "SLURM_GPUS_PER_TASK" in environment or seen < on_machine
    if bound or seen == 1 or (size and int(size[0]) == 1):
        return tuple(range(seen))
    if not size or seen % int(size[0]):
        return None
    share = seen // int(size[0])
    return tuple(range(int(rank) * share, (int(rank) + 1) * share))


def start(launch: Launch | None) -> None:
    """Connect to the other processes; call it before JAX looks for devices.

    Raises:
      JaxschedError: the connection failed.
    """
    if launch is None or launch.num_processes == 1:
        return
    import jax

    runtime.set_process(launch.process_id)
    found: dict[str, Any] = {"local_device_ids": launch.local_devices}
    if launch.coordinator is not None:
        found |= {
            "coordinator_address": launch.coordinator,
            "num_processes": launch.num_processes,
            "process_id": launch.process_id,
        }
    try:
        jax.distributed.initialize(heartbeat_timeout_seconds=NOTICE_S, **found)
    except (RuntimeError, ValueError) as error:
        raise JaxschedError(
            f"process {launch.process_id} of {launch.num_processes} did not meet the others: "
            f"{first_line(error)}"
        ) from error


def several() -> bool:
    """Whether there is more than one process."""
    import jax

    return jax.process_count() > 1


def wait_for_all(name: str) -> None:
    """A barrier: wait until every process calls it."""
    if several():
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(name)


def check_same(number: int, what: str) -> None:
    """Refuse a number that differs between processes; all of them call it.

    Raises:
      JaxschedError: in all processes.
    """
    if not several():
        return
    import numpy as np
    from jax.experimental import multihost_utils

    found = np.asarray(multihost_utils.process_allgather(np.array(number))).reshape(-1)
    if np.any(found != found[0]):
        raise JaxschedError(
            f"{what} is {', '.join(map(str, found))} in the processes of this run; they must work "
            "in one folder, on a file system that they share"
        )


def largest(*numbers: int) -> tuple[int, ...]:
    """The maximum of each number over the processes; all of them call it."""
    if not several():
        return numbers
    import numpy as np
    from jax.experimental import multihost_utils

    gathered = np.asarray(multihost_utils.process_allgather(np.array(numbers, np.int32)))
    return tuple(gathered.reshape(-1, len(numbers)).max(0).tolist())


def first_alone(function: Callable[[], T], otherwise: Callable[[], T]) -> T:
    """``function()`` in the first process, then ``otherwise()`` in the others.

    Raises:
      JaxschedError: in all processes, if ``function`` raised it in the first.
    """
    if not several():
        return function()
    result, message = None, ""
    if runtime.is_first():
        try:
            result = function()
        except JaxschedError as error:
            message = str(error) or type(error).__name__
    message = _from_first(message)
    if message:
        raise JaxschedError(message)
    return otherwise() if result is None else result


@contextlib.contextmanager
def together(*agreed: type[BaseException]) -> Iterator[None]:
    """A context in which an error ends this process at once, as others wait for it.

    Args:
      *agreed: errors that all processes raise together; they are raised unchanged.

    Raises:
      EndedAlone: one line that says why.
    """
    if not several():
        yield
        return
    try:
        yield
    except agreed:
        raise
    except Exception as error:
        line = first_line(error)
        if any(word in str(error).lower() for word in _LOST):
            raise EndedAlone(
                f"another process of this run has ended or cannot be reached ({line})"
            ) from error
        if isinstance(error, JaxschedError):
            raise EndedAlone(str(error)) from error
        raise


def _launcher(environment: Mapping[str, str]) -> Launcher | None:
    """The launcher of more than one process, if there is one."""
    for launcher in LAUNCHERS:
        size, rank = environment.get(launcher.size, ""), environment.get(launcher.rank, "")
        # Slurm sets the number of tasks for the batch script too, which is no step of the job.
        step = launcher.name != "Slurm" or launcher.finds in environment
        if size.isdecimal() and rank.isdecimal() and int(size) > 1 and step:
            return launcher
    return None


def _size_and_rank(launcher: Launcher, environment: Mapping[str, str]) -> tuple[int, int]:
    return int(environment[launcher.size]), int(environment[launcher.rank])


def _checked(coordinator: str | None, num_processes: int, process_id: int) -> Launch:
    if num_processes < 1:
        raise JaxschedError(f"{argument('num_processes')} is {num_processes}; accepted: 1 or more")
    if not 0 <= process_id < num_processes:
        raise JaxschedError(
            f"{argument('process_id')} is {process_id}; accepted: 0 to {num_processes - 1} "
            f"({num_processes} processes)"
        )
    return Launch(coordinator, num_processes, process_id)


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) < 2**16


def _from_first(message: str) -> str:
    """The first process' message, in all processes."""
    import numpy as np
    from jax.experimental import multihost_utils

    data = message.encode()[:_LONGEST_MESSAGE]
    room = np.zeros(_LONGEST_MESSAGE, np.uint8)
    room[: len(data)] = np.frombuffer(data, np.uint8)
    heard: Any = multihost_utils.broadcast_one_to_all(room)
    return bytes(np.asarray(heard, np.uint8)).rstrip(b"\0").decode(errors="replace")
