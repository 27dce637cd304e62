"""Job types of the elastic systems: names, resource needs, speed coefficients.

Resources are integers (GPUs, CPU cores, GB of memory), in this order everywhere. Requirements of
the first three types are those published with Chic (and Optimus); the others respect DL2's
statement (workers take at most 2 GPUs and 1-4 cores, parameter servers 1-4 cores).
"""

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.jobs.models import identifier

RESOURCES = ("gpus", "cpus", "memory_gb")


class ModelType(NamedTuple):
    """What one worker and one parameter server (PS) of a job type need."""

    name: str
    worker: tuple[int, int, int]
    ps: tuple[int, int, int]


MODELS = (
    ModelType("ResNet50", (1, 2, 8), (0, 3, 9)),
    ModelType("VGG16", (1, 2, 10), (0, 4, 10)),
    ModelType("ResNeXt110", (1, 2, 10), (0, 3, 10)),
    ModelType("InceptionBN", (1, 2, 8), (0, 3, 8)),
    ModelType("Seq2Seq", (1, 2, 8), (0, 1, 8)),
    ModelType("CTC", (0, 3, 6), (0, 3, 6)),
    ModelType("DSSM", (0, 4, 6), (0, 1, 6)),
    ModelType("WLM", (1, 1, 6), (0, 1, 6)),
)
NAMES = tuple(model.name for model in MODELS)
IDENTIFIERS = tuple(identifier(name) for name in NAMES)
WORKER_NEEDS = np.array([model.worker for model in MODELS], np.int32)  # [M, 3]
PS_NEEDS = np.array([model.ps for model in MODELS], np.int32)  # [M, 3]

ARTEFACT_WORKER_NEEDS = np.array(
    [[2, 2, 0], [2, 2, 0], [2, 2, 0], [2, 2, 0], [0, 2, 0], [2, 2, 0], [0, 2, 0], [2, 1, 0]],
    np.int32,
)
ARTEFACT_PS_NEEDS = np.array([[0, 4, 0]] * len(MODELS), np.int32)
"""The same in slots of the simulator that DL2's authors published, which has no memory."""

ARTEFACT_SAMPLES = np.array([115, 115, 390, 120, 780, 193, 349, 165])
"""Samples of an epoch there, a virtual unit."""

DemandTable = Literal["paper", "artefact"]


class Demands(NamedTuple):
    """What one worker and one PS of each type need, int32 ``[M, 3]`` each."""

    worker: npt.NDArray[np.int32]
    ps: npt.NDArray[np.int32]


def demands(table: DemandTable) -> Demands:
    """The needs of the papers' jobs, or those in DL2's published simulator."""
    if table == "artefact":
        return Demands(ARTEFACT_WORKER_NEEDS, ARTEFACT_PS_NEEDS)
    return Demands(WORKER_NEEDS, PS_NEEDS)


DL2_COEFFICIENTS = np.array(
    [
        [185, 2, 6, 1.8, 1.4],
        [170, 3, 24, 2.2, 1.8],
        [160, 5, 9, 3.0, 1.5],
        [195, 2, 10, 1.6, 1.4],
        [180, 2, 6.5, 1.8, 2.4],
        [130, 8, 5, 4.5, 2.0],
        [170, 6, 1, 3.0, 2.0],
        [140, 4, 18, 3.5, 1.5],
    ]
)
"""``(A, B, K, D, F)`` of ``speed.seconds`` per type, seconds per epoch, ``[M, 5]``: calibrated so
that one epoch takes about a minute with four workers and four PS (DL2, Figures 1 and 2)."""

CHIC_COEFFICIENTS = np.array(
    [
        [23.0, 1.9, 1.3, 0.20, 0.42],
        [31.5, 2.1, 2.5, 0.56, 1.10],
        [17.0, 1.3, 0.65, 0.35, 0.56],
    ]
)
"""The same for Chic's three types, seconds per iteration of batch 32, ``[3, 5]``."""
