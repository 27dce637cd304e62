"""Networks that score each job by itself, and named recipes.

The same weights fit every cluster and window. Recipes learn on pieces of a generated trace for 4
servers; their policies run on clusters of any size (``env.num_servers``, ``env.window``).

Axes: ``W`` positions, ``C`` and ``F`` as in ``rules.observation``.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import flax.linen as nn
import jax.numpy as jnp

from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.algorithms.ppo_settings import PPOConfig
from jaxsched.core.training import LoopConfig
from jaxsched.envs.cluster.environment import ClusterJobs
from jaxsched.envs.cluster.jobs import PHILLY, RLTUNE, RLTUNE_SERVERS
from jaxsched.envs.cluster.rules.observation import unbatched
from jaxsched.networks import description as nd
from jaxsched.networks.exportable import ExportableModule
from jaxsched.systems.parts import PresetInfo, TraceSet
from jaxsched.systems.recipe import Recipe, Stage
from jaxsched.types import Array, PRNGKey

LEAST_SERVICE = {"service": -1.0, "runs": 0.1}
"""Initial weights of a linear score with suspension: jobs of the least attained service (logarithm)
run, and a job is suspended only for one with less than a third of its service."""

WIDTHS = {"jobs": ((32, 32), (32,)), "linear": ((), ())}
"""Kinds of networks that score jobs: ``hidden`` and ``wait`` of ``JobScorer``."""


class JobScorer(ExportableModule):
    """A score of each position, and one of waiting.

    The same layers read every position beside the state of the cluster; waiting is scored from that
    state and the oldest job. No weight depends on the cluster, the window or the table.

    Attributes:
      window: W.
      hidden: widths of the layers that positions share.
      wait: widths of the layers that score waiting.
      suspends: the environment's option; adds entries to positions.
      sees_run_times: the environment's option; adds entries to positions.
      has_types: whether GPUs have types; adds entries to positions.
      has_slots: whether GPUs have slots; adds entries to the cluster and to positions.
    """

    window: int
    hidden: tuple[int, ...] = (32, 32)
    wait: tuple[int, ...] = (32,)
    suspends: bool = False
    sees_run_times: bool = False
    has_types: bool = False
    has_slots: bool = False

    def initialiser(self, layer: str) -> nn.initializers.Initializer:
        """A linear score with suspension begins as the least attained service."""
        if layer == "job_score" and self.suspends and not self.hidden:
            return self._least_service
        return super().initialiser(layer)

    def _least_service(self, key: PRNGKey, shape: Sequence[int], dtype: Any = jnp.float32) -> Array:
        """``LEAST_SERVICE`` for a position's entries that it names, 0 for all others."""
        del key
        _, position = _names(self)
        column = [LEAST_SERVICE.get(name, 0.0) for name in position]
        kernel = jnp.zeros(shape, dtype)
        return kernel.at[: len(column), 0].set(jnp.array(column, dtype))

    def describe(self) -> list[nd.Step]:
        """Positions beside the cluster; the oldest job beside the cluster; joined."""
        job = nd.last_of("jobs", "job", self.hidden)
        sizes = _sizes(self)
        return [
            *_jobs_steps(self.window, sizes),
            *nd.dense_stack("jobs", "job", self.hidden),
            nd.dense(job, "job_score", 1, activation="linear"),
            nd.reshape("job_score", "job_scores", (self.window,)),
            nd.take(nd.OBSERVATION, "oldest", stop=sum(sizes)),
            *nd.dense_stack("oldest", "wait", self.wait),
            nd.dense(nd.last_of("oldest", "wait", self.wait), "wait_score", 1, activation="linear"),
            nd.concat(("job_scores", "wait_score"), nd.SCORES),
        ]


class ClusterValue(ExportableModule):
    """The value of a state, for training: from the mean over positions, and the cluster.

    Its weights fit every window, but the average is over all positions, empty ones included.

    Attributes:
      window: W.
      hidden: widths of the layers that positions share.
      head: widths of the layers behind the average.
      suspends: see ``JobScorer``.
      sees_run_times: see ``JobScorer``.
      has_types: see ``JobScorer``.
      has_slots: see ``JobScorer``.
    """

    single = True
    window: int
    hidden: tuple[int, ...] = (32,)
    head: tuple[int, ...] = (32,)
    suspends: bool = False
    sees_run_times: bool = False
    has_types: bool = False
    has_slots: bool = False

    def describe(self) -> list[nd.Step]:
        """Positions averaged, beside the cluster."""
        sizes = _sizes(self)
        return [
            *_jobs_steps(self.window, sizes),
            *nd.dense_stack("jobs", "job", self.hidden),
            nd.mean(nd.last_of("jobs", "job", self.hidden), "average"),
            nd.concat(("cluster", "average"), "joined"),
            *nd.dense_stack("joined", "head", self.head),
            nd.dense(
                nd.last_of("joined", "head", self.head),
                "value",
                1,
                activation="linear",
                output=nd.SCORES,
            ),
        ]


def _names(network: JobScorer | ClusterValue) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the entries of the cluster and of a position."""
    return unbatched(
        suspends=network.suspends,
        sees_run_times=network.sees_run_times,
        has_types=network.has_types,
        has_slots=network.has_slots,
    )


def _sizes(network: JobScorer | ClusterValue) -> tuple[int, int]:
    """C and F."""
    cluster, position = _names(network)
    return len(cluster), len(position)


def _jobs_steps(window: int, sizes: tuple[int, int]) -> list[nd.Step]:
    """Steps up to ``cluster`` ``[C]`` and ``jobs`` ``[W, F + C]``; ``sizes`` are C and F."""
    num_cluster, num_position = sizes
    return [
        nd.take(nd.OBSERVATION, "cluster", stop=num_cluster),
        nd.take(nd.OBSERVATION, "flat", start=num_cluster),
        nd.reshape("flat", "positions", (window, num_position)),
        nd.repeat("cluster", "clusters", window),
        nd.concat(("positions", "clusters"), "jobs"),
    ]


MINUTE_S = 60.0  # mean completion time that costs a reward of 1, where single actions are judged
TRACES = TraceSet(PHILLY.name, PHILLY.name, PHILLY.name, 48, 32, 100)

# Which job starts next; without waiting, whose cost would have to be learnt first.
PPO = Recipe(
    env=ClusterJobs(may_wait=False),
    traces=TRACES,
    stages=(
        Stage(
            name="ppo",
            learner=PPOConfig(
                60,
                only_choices=True,
                normalise_targets=True,
                gamma=1.0,
                lambda_=0.98,
                learning_rate=1e-3,
                entropy_end=0.0,
            ),
            loop=LoopConfig(num_envs=16, rollout_length=128, num_updates=60),
            params={"scale_s": MINUTE_S},
            evaluate_every=10,
        ),
    ),
    network="jobs",
    policy="ppo",
    checkpoint_every=30,
    departures=(),
)

(_PPO,) = PPO.stages
QUICK = replace(
    PPO,
    traces=TRACES._replace(num_train=16, num_validation=8, num_test=16),
    stages=(
        replace(
            _PPO,
            learner=replace(_PPO.learner, total_updates=12),
            loop=replace(_PPO.loop, num_updates=12),
            evaluate_every=6,
        ),
    ),
    checkpoint_every=12,
)

# The same by branching: a state's actions on copies with resampled futures, run to their end.
BRANCH = replace(
    PPO,
    stages=(
        Stage(
            name="branching",
            learner=BranchingConfig(
                40,
                futures=2,
                alternatives=4,
                max_steps=100,  # to the end, as each step starts a job
                gradient_steps=8,
                learning_rate=1e-3,
                exploration=0.05,
                clip=5.0,
                entropy_weight=0.05,
            ),
            loop=LoopConfig(num_envs=64, rollout_length=7, num_updates=40),
            params={"scale_s": MINUTE_S},
            evaluate_every=10,
        ),
    ),
    policy="branching",
    checkpoint_every=20,
)

# With suspension: linear scores give one order of waiting and running jobs. They begin as the least
# attained service; tables have heavy tails, so training and validation need many.
SEARCH = Recipe(
    env=ClusterJobs(window=64, may_wait=False, suspends=True),
    traces=TRACES._replace(num_train=160, num_validation=100),
    stages=(
        Stage(
            name="search",
            learner=EvolutionConfig(
                members=24,
                episodes=16,
                initial_std=0.05,
                follow="gradient",
                learning_rate=0.02,
                final_learning_rate=0.003,
                averaging=0.5,
                layers=("job_score",),
            ),
            loop=LoopConfig(
                num_envs=384, rollout_length=640, num_updates=40, num_random_streams=16
            ),
            evaluate_every=5,
        ),
    ),
    network="linear",
    policy="search",
    checkpoint_every=10,
    departures=(),
)

# RLTune's environment: servers of two sizes, choices that commit, true run times.
COMMITTED = Recipe(
    env=ClusterJobs(
        window=128,
        placement="first_fit",
        may_wait=False,
        servers=RLTUNE_SERVERS,
        commits=True,
        sees_run_times=True,
    ),
    traces=TraceSet(RLTUNE.name, RLTUNE.name, RLTUNE.name, 48, 32, 100),
    stages=(
        Stage(
            name="search",
            learner=EvolutionConfig(
                members=32, episodes=8, min_std=0.05, averaging=0.5, layers=("job_score",)
            ),
            loop=LoopConfig(num_envs=256, rollout_length=256, num_updates=30, num_random_streams=8),
            evaluate_every=5,
        ),
    ),
    network="linear",
    policy="search",
    checkpoint_every=10,
    departures=(),
)

PRESETS = {"quick": QUICK, "ppo": PPO, "branch": BRANCH, "search": SEARCH, "committed": COMMITTED}

NOTES = {
    "quick": PresetInfo("a first look: as ppo, with a fifth of its updates", "1 min on a CPU core"),
    "ppo": PresetInfo(
        "which job starts next, by a network that scores each job: no better than fifo-skip so far",
        "2 min on a CPU core",
    ),
    "branch": PresetInfo("as ppo, by trying actions on copies of a state and resampled futures"),
    "search": PresetInfo(
        "which jobs run, with suspension, by a linear score: level with las",
        "16 min on 2 CPU cores beside other work",
    ),
    "committed": PresetInfo(
        "RLTune's environment: servers of two sizes, choices that commit, true run times",
        "5 min on a CPU core",
    ),
}
"""What each recipe is for."""
