"""What a job table of an elastic system holds."""

from jaxsched.elastic.models import CHIC_COEFFICIENTS, MODELS
from jaxsched.jobs import NO_SUBMISSION, Column, Schema

DL2_JOBS: Schema = (
    Column("submit_time", 0, NO_SUBMISSION - 1, "s", "submission"),
    Column("model", 0, len(MODELS) - 1, "id", "row of the table of job types"),
    Column("epochs", 1e-6, 1e9, "epochs", "what the scheduler expects", "real"),
    Column("true_epochs", 1e-6, 1e9, "epochs", "what ends the job", "real", "epochs"),
    Column("speed_factor", 1e-6, 1e6, "", "on the speed, by slot, cyclic", "numbers", 1.0),
)
"""Elastic jobs of DL2: trained for a number of epochs by any number of workers and servers."""

CHIC_JOBS: Schema = (
    Column("submit_time", 0, NO_SUBMISSION - 1, "s", "submission", kind="real"),
    Column("model", 0, len(CHIC_COEFFICIENTS) - 1, "id", "ResNet50, VGG16 or ResNeXt110"),
    Column("iterations", 1, 2**23, "iterations", "training iterations to run"),
)
"""Elastic workloads; the first submission need not be at 0."""
