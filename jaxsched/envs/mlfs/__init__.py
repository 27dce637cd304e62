"""MLFS: tasks of iterative jobs with deadlines, placed one at a time, and load control."""

from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.tables import Params
from jaxsched.task_graph import TASK_JOBS

__all__ = ["MLFS", "TASK_JOBS", "Params"]
