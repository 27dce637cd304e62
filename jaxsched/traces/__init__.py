"""Job traces: readers for published formats, generators, and the traces the project ships.

Published file -> ``load`` -> ``Trace`` -> ``import_trace`` -> job tables; the project's own CSV
and the named traces give job tables directly.
"""

from jaxsched.traces.csv_tables import read_tables, write_tables
from jaxsched.traces.describe import describe_tables, load_over_time, plot_tables
from jaxsched.traces.formats import FORMATS, Format, load_tables, load_trace, recognise
from jaxsched.traces.loading import load
from jaxsched.traces.mapping import (
    Imported,
    ImportSummary,
    MappingConfig,
    cut_traces,
    import_trace,
    sample_traces,
)
from jaxsched.traces.registry import NamedTrace, entries, get, names, resolve
from jaxsched.traces.spot import with_spot_jobs
from jaxsched.traces.synthetic import SyntheticConfig, generate
from jaxsched.traces.trace import TRACE_COLUMNS, Trace
from jaxsched.traces.trace_files import read_trace, write_trace

__all__ = [
    "FORMATS",
    "Format",
    "ImportSummary",
    "Imported",
    "MappingConfig",
    "NamedTrace",
    "TRACE_COLUMNS",
    "SyntheticConfig",
    "Trace",
    "cut_traces",
    "describe_tables",
    "entries",
    "generate",
    "get",
    "import_trace",
    "load",
    "load_over_time",
    "load_tables",
    "load_trace",
    "names",
    "plot_tables",
    "read_tables",
    "read_trace",
    "recognise",
    "resolve",
    "sample_traces",
    "with_spot_jobs",
    "write_tables",
    "write_trace",
]
