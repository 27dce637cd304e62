"""DAS: two agents order the pending gang jobs and place them on machines."""

from jaxsched.envs.das.environment import DAS, Action, surrogate
from jaxsched.envs.das.observation import Observation
from jaxsched.envs.das.tables import Params
from jaxsched.gang import GANG_JOBS

__all__ = ["DAS", "GANG_JOBS", "Action", "Observation", "Params", "surrogate"]
