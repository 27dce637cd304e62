"""Rigid jobs on servers: which waiting job starts next, on the leaderboard's workloads."""

from jaxsched.envs.cluster.environment import ClusterJobs, Params

__all__ = ["ClusterJobs", "Params"]
