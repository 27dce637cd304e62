"""Chic and Chic-Pair: how many workers and parameter servers each training workload gets."""

from jaxsched.elastic.jobs import CHIC_JOBS
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.intervals import OptimusIntervals
from jaxsched.envs.chic.rules import Params

__all__ = ["CHIC_JOBS", "Chic", "OptimusIntervals", "Params"]
