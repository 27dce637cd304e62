"""SCHED2: which waiting job starts next, with locality-aware packing."""

from jaxsched.envs.sched2.environment import Params, Sched2

__all__ = ["Params", "Sched2"]
