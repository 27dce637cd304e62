"""DL2: learned elastic allocation of workers and parameter servers, in time slots.

Peng et al., "DL2: A Deep Learning-driven Scheduler for Deep Learning Clusters" (2019).
"""

from jaxsched.envs.dl2.environment import DL2, StepMetrics
from jaxsched.envs.dl2.heuristics import Allocation, DL2Slots
from jaxsched.envs.dl2.rules.tables import Params

__all__ = ["DL2", "Allocation", "DL2Slots", "Params", "StepMetrics"]
