"""Named recipes of SCHED2."""

from dataclasses import replace

from jaxsched.algorithms.dqn import DQNConfig
from jaxsched.envs.sched2.environment import Sched2
from jaxsched.envs.sched2.recipe import HORIZON_S, Curriculum, Recipe
from jaxsched.training import LoopConfig


def _learner(num_updates: int, **changes: object) -> DQNConfig:
    base = DQNConfig(num_updates, gradient_steps=4, n_step=3, horizon_s=HORIZON_S)
    return replace(base, **changes)  # type: ignore[arg-type]


# A few minutes on two cores: extra features, lighter load at first, a smaller replay.
QUICK = Recipe(
    env=Sched2(auto_advance=True, reward="dense", extras=True),
    loop=LoopConfig(num_envs=64, rollout_length=8, num_updates=6000),
    learner=_learner(6000, capacity=150_000, learning_starts=5000),
    curriculum=Curriculum(first_interval_scale=1.5, fraction=0.5),
    evaluate_every=500,
    checkpoint_every=3000,
)

# The paper's budget of 2,400 episodes of 1,000 jobs.
PAPER = Recipe(
    env=Sched2(auto_advance=True, reward="dense", extras=True),
    loop=LoopConfig(num_envs=64, rollout_length=8, num_updates=10_000),
    learner=_learner(10_000),
    curriculum=Curriculum(first_interval_scale=1.5, fraction=0.5),
    evaluate_every=500,
    checkpoint_every=2500,
)

PRESETS = {"quick": QUICK, "paper": PAPER}
