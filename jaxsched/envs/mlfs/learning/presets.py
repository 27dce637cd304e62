"""Named recipes of MLF-RL and of the baseline RL."""

from dataclasses import replace
from typing import Any

from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.algorithms.ppo import PPOConfig
from jaxsched.core.training import LoopConfig
from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.learning.recipe import PAIRS, SLOT_EVERY, Imitation, Recipe
from jaxsched.systems.base import PresetInfo, TraceSet

TUNED: dict[str, Any] = dict(
    importance_share=20,
    children_share=0,
    deadline_weight=3,
    remaining_weight=1000,
    waiting_weight=10,
)
"""Weights of priorities that do better than the paper's, found on training workloads
(``benchmarks/once/mlfs_search.py``): nearly the shortest remaining job first."""

PAPER = Recipe()

# From the paper's recipe nothing is learned beyond the imitation: what one placement is worth
# drowns in the jobs that happen to end within the hour. Work done over the work left tells within
# minutes.
QUICK = replace(
    PAPER,
    env=replace(PAPER.env, **TUNED, reward="progress"),
    imitation=Imitation(teacher="linear"),
    loop=LoopConfig(64, 256, 120),
    learner=PPOConfig(
        120,
        epochs=2,
        num_minibatches=8,
        horizon_s=600.0,
        lambda_=0.9,
        step_lambda=0.95,
        reward_scale=500.0,
        learning_rate=5e-4,
        final_learning_rate=5e-5,
        entropy_start=0.001,
        entropy_end=0.0,
    ),
    evaluate_every=40,
)
RL = replace(
    PAPER,
    env=MLFS(order="fifo", reward="backlog", slot_every=SLOT_EVERY),
    network="rl",
)

# It starts as MLF-H with the weights found, but with the time that a task loses on a server taken
# off. Two days of an episode show the backlog that a good choice of servers avoids, one does not.
SEARCH = Recipe(
    env=MLFS(decide="slot", reward="service", **TUNED),
    traces=TraceSet("mlfs-small-x3", "mlfs-small-x3", "mlfs-small-x3", 128, 8, 8),
    network=PAIRS,
    search=EvolutionConfig(
        members=12,
        episodes=3,
        initial_std=0.12,
        follow="gradient",
        learning_rate=0.08,
        final_learning_rate=0.02,
        averaging=0.8,
    ),
    loop=LoopConfig(num_envs=36, rollout_length=3000, num_updates=16, num_random_streams=3),
    evaluate_every=16,
    checkpoint_every=2,
)

PRESETS = {"quick": QUICK, "paper": PAPER, "rl": RL, "search": SEARCH}

NOTES = {
    "quick": PresetInfo(
        "a network: imitation of linear, then PPO on the work done",
        "16 min on 2 CPU cores, three seeds together",
    ),
    "paper": PresetInfo(
        "the paper's recipe: imitation of MLF-H, then PPO; nothing is learned beyond the imitation",
        "15 min on 2 CPU cores, three seeds together",
    ),
    "rl": PresetInfo("the paper's baseline RL, of Mirhoseini et al."),
    "search": PresetInfo(
        "the best results: 29 weights of pairs of task and server, by search over whole episodes",
        "35 min on 2 CPU cores, three seeds together",
    ),
}
"""What each recipe is for; times as ``benchmarks/results`` has them."""
