"""What the rows of MLFS are run with beside the usual settings, and its command-line options."""

import argparse
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from benchmarks.papers import command
from benchmarks.papers.given_runs import add_run_option, saved_digest
from benchmarks.papers.runner import Paper
from benchmarks.papers.settings import Settings
from jaxsched.envs.mlfs.environment import CLUSTERS, WAITING_MIN, WaitingUnit
from jaxsched.envs.mlfs.jobs import LARGE_JOBS, LARGE_LOADS
from jaxsched.errors import JaxschedError

ClusterName = Literal["small", "real"]
CLUSTER_NAMES: tuple[ClusterName, ...] = get_args(ClusterName)
QUICK_LARGE_JOBS = 40
USUAL_LARGE_LOADS, QUICK_LARGE_LOADS = (0.5, 1.0, 2.0), (1.0,)
LARGE_WINDOW: int = CLUSTERS["large"]["max_active"]


@dataclass(frozen=True)
class MLFSSettings(Settings):
    """Settings of a run of MLFS' rows.

    Attributes:
      cluster: which of ``environment.CLUSTERS`` of MLFS all rows but E3 play on.
      runs: run directories of trained policies; policies are trained by the rows if there are none.
      large_jobs: jobs of each table of E3 at x = 1.
      large_loads: of E3, x.
      large_window: jobs in the cluster of E3; others wait outside.
      waiting_unit: of the wait in Equation 4, for the rules; trained policies have their own.
    """

    cluster: ClusterName = "real"
    runs: tuple[Path, ...] = ()
    large_jobs: int = LARGE_JOBS
    large_loads: tuple[float, ...] = USUAL_LARGE_LOADS
    large_window: int = LARGE_WINDOW
    waiting_unit: WaitingUnit = "day"

    def __post_init__(self) -> None:
        """Check the cluster and the number of jobs.

        Raises:
          JaxschedError: one of them is not accepted.
        """
        super().__post_init__()
        if self.cluster not in CLUSTER_NAMES:
            raise JaxschedError(
                f"cluster is {self.cluster!r}; accepted: {', '.join(CLUSTER_NAMES)}"
            )
        for name, value in (("jobs", self.large_jobs), ("window", self.large_window)):
            if value < 1:
                raise JaxschedError(f"{name} is {value}; accepted: a whole number from 1 on")
        if not self.large_loads or not set(self.large_loads) <= set(LARGE_LOADS):
            known = ", ".join(f"{load:g}" for load in LARGE_LOADS)
            raise JaxschedError(f"loads is {self.large_loads}; accepted: some of {known}")

    def deciding(self) -> dict[str, Any]:
        """All of it but the folder, JSON-able; runs by what is saved in them.

        Raises:
          JaxschedError: a run holds no trained policy.
        """
        return {**super().deciding(), "runs": [saved_digest(path, "mlfs") for path in self.runs]}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this paper's script."""
    parser.add_argument(
        "--cluster", choices=CLUSTER_NAMES, help="of all rows but E3; real, with --quick small"
    )
    parser.add_argument(
        "--waiting-unit",
        choices=list(WAITING_MIN),
        default="day",
        help="of the wait in Equation 4, for the rules; the files of E8 and E9 are of an hour",
    )
    add_run_option(parser, "its priority weights are kept")
    parser.add_argument(
        "--jobs", type=int, help=f"of each table of E3 at x = 1; {LARGE_JOBS}, with --quick less"
    )
    usual = ",".join(f"{load:g}" for load in USUAL_LARGE_LOADS)
    parser.add_argument("--loads", help=f"of E3, commas between them; {usual}, with --quick 1")
    parser.add_argument(
        "--window",
        type=int,
        default=LARGE_WINDOW,
        help=f"jobs in the cluster of E3; {LARGE_WINDOW}",
    )


def settings_of(arguments: argparse.Namespace, paper: Paper, name: str) -> MLFSSettings:
    """Settings from the parsed options; quick sizes where nothing is asked for.

    Raises:
      JaxschedError: a value is not accepted.
    """
    usual = command.settings_of(arguments, paper, name)
    jobs = QUICK_LARGE_JOBS if usual.quick else LARGE_JOBS
    loads: tuple[float, ...] = QUICK_LARGE_LOADS if usual.quick else USUAL_LARGE_LOADS
    if arguments.loads is not None:
        try:
            loads = tuple(map(float, arguments.loads.split(",")))
        except ValueError:
            raise JaxschedError(f"--loads is {arguments.loads!r}; accepted: numbers") from None
    return MLFSSettings(
        **{field.name: getattr(usual, field.name) for field in fields(Settings)},
        cluster=arguments.cluster or ("small" if usual.quick else "real"),
        runs=tuple(arguments.runs),
        large_jobs=jobs if arguments.jobs is None else arguments.jobs,
        large_loads=loads,
        large_window=arguments.window,
        waiting_unit=arguments.waiting_unit,
    )
