"""Named recipes of MLF-RL and of the baseline RL (specification, section 10)."""

from dataclasses import fields, replace
from typing import Any

from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.algorithms.imitation import ImitationConfig
from jaxsched.algorithms.ppo import PPOConfig
from jaxsched.core.training import LoopConfig
from jaxsched.envs.mlfs.environment import MLFS, PRIORITIES
from jaxsched.systems.departures import Departures
from jaxsched.systems.parts import PresetInfo, TraceSet
from jaxsched.systems.recipe import Recipe, Stage

HORIZON_S = 1169.7  # eta = 0.95 per slot of 60 s
RETURN_SPAN_S = 3600.0  # t_m = 60 slots

SLOT_EVERY = 4
"""Of the environments that are learned in: the fastest with 64 of them."""

TUNED: dict[str, Any] = dict(
    importance_share=20,
    children_share=0,
    deadline_weight=3,
    remaining_weight=1000,
    waiting_weight=10,
    waiting_unit="hour",
)
"""Weights of priorities that do better than the paper's, found on training workloads
(``benchmarks/once/mlfs_search.py``): nearly the shortest remaining job first. The
unit is that of the search."""

IMITATION = Stage(
    name="imitation",
    learner=ImitationConfig(
        300,
        gradient_steps=4,
        batch_size=1024,
        student_share=0.0,
        learning_rate=1e-3,
        final_learning_rate=1e-4,
    ),
    loop=LoopConfig(64, 64, 300),
    teacher="heuristic",
    evaluate_every=100,
)
PAPER = Recipe(
    env=MLFS(slot_every=SLOT_EVERY),
    traces=TraceSet("mlfs-small-mixed", "mlfs-small-x3", "mlfs-small-x3", 60, 8, 8),
    stages=(
        IMITATION,
        Stage(
            name="ppo",
            learner=PPOConfig(
                200,
                epochs=2,
                num_minibatches=8,
                horizon_s=HORIZON_S,
                return_span_s=RETURN_SPAN_S,
                learning_rate=3e-4,
                final_learning_rate=3e-5,
                entropy_start=0.01,
                entropy_end=0.01,
            ),
            loop=LoopConfig(64, 256, 200),
            evaluate_every=20,
        ),
    ),
    network="servers",
    policy="mlf_rl",
    checkpoint_every=100,
)

# From the paper's recipe nothing is learned beyond the imitation: what one placement is worth
# drowns in the jobs that happen to end within the hour. Work done over the work left tells within
# minutes.
QUICK = replace(
    PAPER,
    env=replace(PAPER.env, **TUNED, reward="progress"),
    stages=(
        replace(IMITATION, teacher="linear"),
        Stage(
            name="ppo",
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
            loop=LoopConfig(64, 256, 120),
            evaluate_every=40,
        ),
    ),
)
RL = replace(
    PAPER,
    env=MLFS(order="fifo", reward="backlog", slot_every=SLOT_EVERY),
    network="rl",
    policy="rl",
)

# It starts as MLF-H with the weights found, but with the time that a task loses on a server taken
# off. Two days of an episode show the backlog that a good choice of servers avoids, one does not.
SEARCH = Recipe(
    env=MLFS(decide="slot", reward="service", **TUNED),
    traces=TraceSet("mlfs-small-x3", "mlfs-small-x3", "mlfs-small-x3", 128, 8, 8),
    stages=(
        Stage(
            name="search",
            learner=EvolutionConfig(
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
            cut=True,
        ),
    ),
    network="pairs",
    policy="mlf_rl",
    checkpoint_every=2,
)

PRESETS = {"quick": QUICK, "paper": PAPER, "rl": RL, "search": SEARCH}


def _of_environment(env: MLFS) -> tuple[str, ...]:
    changed = {
        name: getattr(env, name)
        for name, usual in PRIORITIES.items()
        if getattr(env, name) != usual
    }
    words = ", ".join(f"{name} {value}" for name, value in changed.items())
    said = f"tasks are offered by priorities with other weights (per cent) or units: {words}"
    return (said,) if changed else ()


def _of_learner(config: Any) -> tuple[str, ...]:
    if not isinstance(config, PPOConfig) or config.return_span_s == RETURN_SPAN_S:
        return ()
    return (
        f"discounted over {config.horizon_s:g} s, lambda {config.lambda_:g} by slot and "
        f"{config.step_lambda:g} by decision",
    )


DEPARTURES = Departures(
    paper=PAPER,
    words={
        "env": _of_environment,
        "imitation.skip": {True: "no imitation of MLF-H"},
        "imitation.teacher": {
            "linear": "imitates a linear rule found by search in place of MLF-H's choice of servers"
        },
        "env.reward": {
            "progress": "reward: work of ended instances over the remaining work of their jobs"
        },
        "ppo.skip": {True: "imitation only"},
        "network": {
            "rl": "sees neither urgency, deadline, size, loss nor priority",
            "pairs": "weights of pairs of task and server, found by search over whole episodes",
        },
        "learner": _of_learner,
    },
)

FORMER_SETTINGS = {
    "reinforcement": "ppo.skip, true where that was false",
    **{f"search.{one.name}": f"search.learner.{one.name}" for one in fields(EvolutionConfig)},
}
"""Words of ``--set`` before recipes had named stages -> today's."""

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
