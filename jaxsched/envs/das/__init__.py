"""DAS: two agents order the pending gang jobs and place them on machines."""

from jaxsched.envs.das.environment import DAS, Action
from jaxsched.envs.das.jobs import GANG_JOBS
from jaxsched.envs.das.observation import Observation
from jaxsched.envs.das.simulator.tables import Params
from jaxsched.envs.das.surrogate import surrogate

__all__ = ["DAS", "GANG_JOBS", "Action", "Observation", "Params", "surrogate"]
