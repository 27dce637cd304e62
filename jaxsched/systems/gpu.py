"""A recipe for devices that step tens of thousands of environments side by side.

Plain recipes learn from few steps, which leave a GPU idle: it needs about 30,000 environments to
be busy. This one takes a hundred times as many steps and far fewer gradient steps for each: short
rollouts, few large minibatches, higher learning rates, products in bfloat16.
"""

from collections.abc import Mapping
from dataclasses import replace

from jaxsched.algorithms.ppo_settings import PPOConfig
from jaxsched.core.training import LoopConfig
from jaxsched.networks.described import Precision
from jaxsched.systems.parts import PresetInfo
from jaxsched.systems.recipe import Recipe

SOURCE = "plain-ppo"
"""What is kept of it: environment, networks, discount, targets."""

NUM_ENVS = 32_768
ROLLOUT_LENGTH = 16
NUM_UPDATES = 400
EPOCHS = 2
NUM_MINIBATCHES = 4
"""Of 131,072 decisions each, 64 times as many as in a plain recipe."""
LEARNING_RATE = 1e-3
PRECISION: Precision = "bfloat16"
PURPOSES = {"gpu-ppo": PresetInfo("PPO with 32,768 environments side by side, for a GPU")}
EVALUATIONS = 8
CHECKPOINTS = 2


def gpu_presets(plain: Mapping[str, Recipe]) -> dict[str, Recipe]:
    """``gpu-ppo``, of a system that has plain recipes; none without."""
    if SOURCE not in plain:
        return {}
    source = plain[SOURCE]
    (stage,) = source.stages
    assert isinstance(stage.learner, PPOConfig)
    learner = replace(
        stage.learner,
        total_updates=NUM_UPDATES,
        epochs=EPOCHS,
        num_minibatches=NUM_MINIBATCHES,
        learning_rate=LEARNING_RATE,
    )
    stage = replace(
        stage,
        loop=LoopConfig(NUM_ENVS, ROLLOUT_LENGTH, NUM_UPDATES),
        learner=learner,
        precision=PRECISION,
        evaluate_every=NUM_UPDATES // EVALUATIONS,
    )
    return {
        "gpu-ppo": replace(source, stages=(stage,), checkpoint_every=NUM_UPDATES // CHECKPOINTS)
    }
