"""Reader for the traces of Gavel (OSDI'20), which its successors use as well.

Lines of fields separated by tabulators, without header: ten in the traces for the physical cluster,
seven in those made of Philly's arrivals. They give the steps of a job, not its run time; that
follows from Gavel's table of measured throughputs (steps/s of a job type on so many V100 together),
which is looked for beside the trace. An SLO is a factor: the deadline comes that many run times
after the arrival.
"""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs.columns import describe_value
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import NAN, field_rows, number, renamed
from jaxsched.traces.readers.head import Head
from jaxsched.traces.rows import Rows, join_columns
from jaxsched.traces.text import open_text, read_head, read_json
from jaxsched.traces.trace import LARGEST, Trace

NAME = "gavel"
DESCRIPTION = "Gavel (OSDI'20); run times by its table of throughputs, if beside the file"
PHYSICAL = (
    "job_type",
    "command",
    "working_directory",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
    "priority_weight",
    "SLO",
    "arrival_time",
)
MSR = (
    "job_type",
    "command",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "arrival_time",
    "scale_factor",
)
LAYOUTS = {len(names): names for names in (PHYSICAL, MSR)}

SIMULATED, MEASURED = "simulation_throughputs.json", "physical_cluster_throughputs.json"
_TABLES = {len(PHYSICAL): (MEASURED, SIMULATED), len(MSR): (SIMULATED, MEASURED)}
"""Number of fields -> the tables that run times are taken from, the better one first."""

_REFERENCE = "v100"
_ALONE = "null"
_LEAST_RATE = 1e-6  # steps/s; a lower one is none
_SIZE = re.compile(r"\d{1,15}", re.ASCII)

_NAMES = {"submit_time": "arrival_time", "num_gpus": "scale_factor", "iterations": "total_steps"}

Rates = Mapping[str, float]
"""Job type and scale factor, as Gavel's tables write them -> steps/s on as many V100."""


def matches(head: Head) -> bool:
    """Whether the first line has as many fields as a layout, with numbers where it has them."""
    fields = next((line for line in head.text.splitlines() if line.strip()), "").split("\t")
    names = LAYOUTS.get(len(fields), ())
    cells = dict(zip(names, fields, strict=False))
    try:
        return bool(cells) and all(float(cells[name]) >= 0 for name in _NAMES.values())
    except ValueError:
        return False


def read(path: PathLike, throughputs: PathLike | None = None) -> Trace:
    """Read a Gavel trace; times count from its first job.

    Args:
      path: the trace.
      throughputs: Gavel's table of throughputs, plain or gzip; None: the one in the folder of the
        trace or in the folder above, if there is one.

    Raises:
      JaxschedError: one line with file and line number, or about the table.
    """
    names = _layout(path)
    table = throughputs or _beside(path, _TABLES[len(names)])
    rates = {} if table is None else read_rates(table)
    counts: Counts = Counter()
    batches = field_rows(path, names, separator="\t", counts=counts)
    columns = join_columns([_columns(rows, rates) for rows in batches])
    jobs, without = len(columns["duration"]), int(np.sum(np.isnan(columns["duration"])))
    if table is None:
        note = f"run times of {jobs} jobs not known, since no table of throughputs is beside it"
    else:
        used = Path(table).name
        note = f"run times are steps over the throughput on V100s in {used}"
        if without:
            note += f", which has none for {without} of {jobs} jobs"
    return finished(path, columns, NAME, counts=counts, notes=(note,))


def read_rates(path: PathLike) -> dict[str, float]:
    """The throughputs of jobs alone on V100 GPUs, from one of Gavel's tables.

    Args:
      path: a JSON file, plain or gzip: kind of GPU -> job type and scale factor -> other job type
        or "null" -> steps/s.

    Returns:
      ``"('<job type>', <scale factor>)"`` -> steps/s, those above 0 (0: does not fit in memory).

    Raises:
      JaxschedError: one line if the file is no such table.
    """
    try:
        with open_text(path) as file:
            document = read_json(file.read())
    except ValueError as error:
        if isinstance(error, JaxschedError):
            raise
        document = None
    by_type = document.get(_REFERENCE) if isinstance(document, dict) else None
    if not isinstance(by_type, dict):
        raise JaxschedError(
            f"{path}: is no table of throughputs; accepted: a JSON object with '{_REFERENCE}', as "
            "published with Gavel"
        )
    rates = {}
    for key, partners in by_type.items():
        rate = partners.get(_ALONE) if isinstance(partners, dict) else None
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= LARGEST:
            raise JaxschedError(
                f"{path}: {_REFERENCE}, {describe_value(key)}: the throughput alone is "
                f"{describe_value(rate)}; accepted: steps/s from 0 on, under '{_ALONE}'"
            )
        if rate >= _LEAST_RATE:
            rates[key] = float(rate)
    return rates


def _layout(path: PathLike) -> tuple[str, ...]:
    numbered = enumerate(read_head(path).splitlines(), 1)
    line, text = next((line, text) for line, text in numbered if text.strip())
    fields = len(text.split("\t"))
    if fields not in LAYOUTS:
        raise JaxschedError(
            f"{path}, line {line}: has {fields} fields; accepted: "
            + " or ".join(f"{count} ({','.join(names)})" for count, names in LAYOUTS.items())
            + ", separated by tabulators"
        )
    return LAYOUTS[fields]


def _beside(path: PathLike, names: tuple[str, ...]) -> Path | None:
    folder = Path(path).absolute().parent
    candidates = (
        place / f"{name}{ending}"
        for place in (folder, folder.parent)
        for name in names
        for ending in ("", ".gz")
    )
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _columns(rows: Rows, rates: Rates) -> dict[str, npt.NDArray[Any]]:
    columns = renamed(rows, _NAMES)
    rate = [
        rates.get(f"('{job_type}', {scale:.0f})", NAN) if scale % 1 == 0 else NAN
        for job_type, scale in zip(rows.column("job_type"), columns["num_gpus"], strict=True)
    ]
    columns["duration"] = columns["iterations"] / np.array(rate, np.float64)
    types = [_model(cell) for cell in rows.texts("job_type").tolist()]
    columns["model"] = np.array([model for model, _ in types], np.str_)
    columns["batch_size"] = np.array([size for _, size in types], np.float64)
    if "SLO" in rows.header:
        columns["priority"] = number(rows, "priority_weight", from_zero=False)
        factor = number(rows, "SLO", from_zero=False)
        after = np.where(factor < 0, NAN, factor) * columns["duration"]
        columns["deadline"] = columns["submit_time"] + after
    return columns


def _model(job_type: str) -> tuple[str, float]:
    """Model and batch size of a job type such as ``ResNet-18 (batch size 64)``."""
    model, opened, rest = job_type.rpartition("(batch size ")
    size, closed, after = rest.partition(")")
    if opened and closed and not after and _SIZE.fullmatch(size):
        return model.rstrip(), float(size)
    return job_type, NAN
