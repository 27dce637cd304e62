"""MLFS: tasks of iterative jobs with deadlines, placed one at a time, and load control."""

from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.jobs import TASK_JOBS
from jaxsched.envs.mlfs.rules.tables import Params

__all__ = ["MLFS", "TASK_JOBS", "Params"]
