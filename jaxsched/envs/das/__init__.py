"""DAS: two agents order the pending gang jobs and place them on machines."""

from jaxsched.envs.das.environment import DAS, Action
from jaxsched.envs.das.heuristics.baselines import surrogate
from jaxsched.envs.das.jobs import GANG_JOBS
from jaxsched.envs.das.rules.observation import Observation
from jaxsched.envs.das.rules.tables import Params

__all__ = ["DAS", "GANG_JOBS", "Action", "Observation", "Params", "surrogate"]
