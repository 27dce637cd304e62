"""Named recipes of DL2."""

from dataclasses import replace

from jaxsched.algorithms.ppo import PPOConfig
from jaxsched.envs.dl2.recipe import LARGE, TESTBED, Recipe
from jaxsched.system import TraceSet
from jaxsched.training import LoopConfig

TESTBED_TRACES = TraceSet("dl2-testbed", "dl2-testbed", "dl2-testbed", 100, 10, 10)
LARGE_TRACES = TraceSet("dl2-large", "dl2-large", "dl2-large", 20, 4, 4)

# The paper's learner, as the specification lists it.
PAPER = Recipe()

# Many environments and on-policy updates; rows share their weights.
VECTORISED = Recipe(
    loop=LoopConfig(num_envs=64, rollout_length=256, num_updates=200),
    algorithm="ppo",
    ppo=PPOConfig(200, gamma=0.9),
    network="rows",
    exploration=False,
    evaluate_every=10,
    checkpoint_every=50,
)

PRESETS = {
    "quick": VECTORISED,
    "paper": PAPER,
    "testbed": replace(VECTORISED, env=TESTBED, traces=TESTBED_TRACES),
    "large": replace(VECTORISED, env=LARGE, traces=LARGE_TRACES),
}
