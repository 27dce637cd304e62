"""DAS: two agents order the pending gang jobs and place them on machines."""

from jaxsched.envs.das.environment import DAS, Action
from jaxsched.envs.das.heuristics import surrogate
from jaxsched.envs.das.jobs import GANG_JOBS
from jaxsched.envs.das.rules import Params
from jaxsched.envs.das.rules.observation import Observation

__all__ = ["DAS", "GANG_JOBS", "Action", "Observation", "Params", "surrogate"]
