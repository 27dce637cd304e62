"""Rigid jobs on servers: which waiting job starts next, on workloads of a leaderboard."""

from jaxsched.envs.cluster.environment import ClusterJobs, Params

__all__ = ["ClusterJobs", "Params"]
