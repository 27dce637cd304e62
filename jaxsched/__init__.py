"""RL environments for scheduling deep-learning training jobs on GPU clusters, in JAX.

Importing the package is light: the names below load their modules, and with them JAX, on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jaxsched.errors import JaxschedError
from jaxsched.offers import offer_workloads

if TYPE_CHECKING:
    from jaxsched import traces
    from jaxsched.advice.advising import advise
    from jaxsched.core.environment import Environment
    from jaxsched.core.learner import Learner
    from jaxsched.experiment.comparing import compare, evaluate
    from jaxsched.experiment.exporting import export
    from jaxsched.experiment.functions import policy
    from jaxsched.experiment.loading import load
    from jaxsched.experiment.looking import headroom
    from jaxsched.experiment.replaying import replay
    from jaxsched.experiment.sweeping import sweep
    from jaxsched.experiment.training import train, training
    from jaxsched.jobs import JobTable
    from jaxsched.systems.make import make
    from jaxsched.types import TimeStep

__version__ = "0.1.0"

__all__ = [
    "Environment",
    "JaxschedError",
    "JobTable",
    "Learner",
    "TimeStep",
    "__version__",
    "advise",
    "compare",
    "evaluate",
    "export",
    "headroom",
    "load",
    "make",
    "policy",
    "replay",
    "sweep",
    "traces",
    "train",
    "training",
]

_LAZY = {
    "Environment": "jaxsched.core.environment",
    "JobTable": "jaxsched.jobs",
    "Learner": "jaxsched.core.learner",
    "TimeStep": "jaxsched.types",
    "advise": "jaxsched.advice.advising",
    "compare": "jaxsched.experiment.comparing",
    "evaluate": "jaxsched.experiment.comparing",
    "export": "jaxsched.experiment.exporting",
    "headroom": "jaxsched.experiment.looking",
    "load": "jaxsched.experiment.loading",
    "make": "jaxsched.systems.make",
    "policy": "jaxsched.experiment.functions",
    "replay": "jaxsched.experiment.replaying",
    "sweep": "jaxsched.experiment.sweeping",
    "train": "jaxsched.experiment.training",
    "training": "jaxsched.experiment.training",
}
_MODULES = ("adapters", "serve", "traces")
"""Rooms that are used as they are, ``jaxsched.traces.load``."""


def _workloads() -> Any:
    """What the systems add to the world of traces; loads them."""
    return import_module("jaxsched.systems.registry").workloads()


offer_workloads("systems", _workloads)


def __getattr__(name: str) -> Any:
    """Load a public name from the module that defines it."""
    if name in _MODULES:
        return import_module(f"jaxsched.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
