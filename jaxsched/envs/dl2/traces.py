"""DL2's jobs and named traces."""

from jaxsched.elastic.jobs import DL2_JOBS
from jaxsched.envs.dl2.workload import Arrival, dl2_tables
from jaxsched.jobs import JobTable
from jaxsched.jobs.kinds import JobKind
from jaxsched.systems.workload import Workload
from jaxsched.traces.named import NamedTrace, shipped_tables


def _drawn(name: str, num_jobs: int, peak: float, arrival: Arrival = "trace") -> NamedTrace:
    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        return dl2_tables(seed, num_traces, num_jobs=num_jobs, peak=peak, arrival=arrival)

    words = f"DL2 workload, {arrival} arrivals, peak {peak:g} jobs per slot"
    return NamedTrace(f"dl2-{name}", words, True, make, num_jobs)


def published_tables() -> list[JobTable]:
    """The first five sequences published with DL2's simulator."""
    return shipped_tables("dl2_artefact_traces.csv.gz", DL2_JOBS)


def _published(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
    return published_tables()


WORKLOAD = Workload(
    jobs=(JobKind(DL2_JOBS),),
    traces=(
        _drawn("sim", 60, 2.0),
        _drawn("testbed", 30, 1.5),
        _drawn("contended", 120, 6.0),
        _drawn("large", 200, 5.0),
        _drawn("poisson", 60, 1.2, "poisson"),
        _drawn("uniform", 60, 1.2, "uniform"),
        _drawn("google", 60, 2.0, "google"),
        _drawn("artefact", 60, 3.0, "artefact"),
        NamedTrace(
            "dl2-artefact-published",
            "five of the sequences published with DL2's simulator, 60 jobs each (shipped)",
            False,
            _published,
        ),
    ),
)
