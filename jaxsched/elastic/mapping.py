"""From rigid jobs, as real traces have them, to the elastic jobs of DL2 and Chic.

Submission times stay as they are. What elastic jobs need and rigid ones lack is derived from the
run time, since a rigid job's number of GPUs is what the elastic scheduler decides.
"""

import numpy as np

from jaxsched.elastic.jobs import CHIC_JOBS, DL2_JOBS
from jaxsched.elastic.models import CHIC_COEFFICIENTS, MODELS
from jaxsched.jobs import Integers, JobTable
from jaxsched.traces.details import KIND

MEAN_EPOCHS = 100.0  # of DL2's workload
MIN_EPOCHS, MAX_EPOCHS = 5, 720
MIN_ITERATIONS, MAX_ITERATIONS = 100, 200

TYPE_SHARES = (*(0.1 / 4,) * 4, 0.3, 0.6)
"""Shares of the types that jobs are drawn as whose trace names neither model nor user: four rare
ones, speech and language, as in the workload of Luan et al. The types after these are not drawn."""


def dl2_jobs(table: JobTable) -> JobTable:
    """DL2's jobs: epochs in proportion to run time, 100 on average, clipped to 5..720.

    Types follow from the trace's models or users where it names them, else from the drawn models.

    Source: DL2's specification, section 11 ("real traces").
    """
    duration = table["duration"].astype(np.float64)
    epochs = np.clip(np.round(duration * MEAN_EPOCHS / duration.mean()), MIN_EPOCHS, MAX_EPOCHS)
    columns = {
        "submit_time": table["submit_time"],
        "model": _kind(table) % len(MODELS),
        "epochs": epochs,
        "true_epochs": epochs,
        "speed_factor": np.ones((len(table), 1)),
    }
    notes = (*table.notes, "epochs in proportion to run time; numbers of GPUs not used")
    return JobTable(columns, table.name, notes, DL2_JOBS)


def chic_jobs(table: JobTable) -> JobTable:
    """Chic's workloads: the rank of the run time mapped linearly to 100..200 iterations.

    Source: Chic's specification, section 11 ("real traces").
    """
    rank = np.argsort(np.argsort(table["duration"], kind="stable"), kind="stable")
    share = rank / max(len(table) - 1, 1)
    iterations = np.round(MIN_ITERATIONS + share * (MAX_ITERATIONS - MIN_ITERATIONS))
    columns = {
        "submit_time": table["submit_time"].astype(np.float64),
        "model": _kind(table) % len(CHIC_COEFFICIENTS),
        "iterations": iterations.astype(np.int64),
    }
    notes = (*table.notes, "iterations by rank of the run time; numbers of GPUs not used")
    return JobTable(columns, table.name, notes, CHIC_JOBS)


def _kind(table: JobTable) -> Integers:
    """What type of job each one is: by its model or user, where the trace names them."""
    return table[KIND] if KIND in table.columns else table["model"]
