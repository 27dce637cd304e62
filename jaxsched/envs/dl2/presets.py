"""Named recipes of DL2.

What the settings of ``quick`` that differ from the paper's are for, as seen in trials on validation
sequences of 60 servers (JCT against Optimus after about a million inferences): from a DRF teacher,
whose decisions hardly ever stop before the cluster is full, policies stay at DRF's level, since
they never see what stopping is worth. Discounted by 0.9 per slot, the small gain of one task drowns
in the noise of what the next slots bring (8 % above). Looking no further than the slot, policies
come to 10 % below, but with the paper's shares then begin to starve long jobs, whereas epochs lead
to 14 % below. On the small testbed, where servers are scarce, it helps to count the epochs of jobs
near their end for more.
"""

from dataclasses import replace
from functools import partial

from jaxsched.algorithms.actor_critic_settings import ActorCriticConfig
from jaxsched.algorithms.imitation import ImitationConfig
from jaxsched.algorithms.ppo import PPOConfig
from jaxsched.core.training import LoopConfig
from jaxsched.envs.dl2.recipe import (
    ARTEFACT,
    LARGE,
    PUBLISHED_RECIPE,
    SIM,
    TESTBED,
    Recipe,
    Search,
    Supervised,
)
from jaxsched.systems.base import PresetInfo, TraceSet

RECORDED = partial(ImitationConfig, student_share=0.0)
"""The teacher's schedules are recorded once: there is nobody to act."""

TESTBED_TRACES = TraceSet("dl2-testbed", "dl2-testbed", "dl2-testbed", 100, 10, 10)
LARGE_TRACES = TraceSet("dl2-large", "dl2-large", "dl2-large", 20, 4, 4)

# The paper's learner, as the specification lists it, but for two departures that runs name. In the
# supervised stage the network comes within 10 % of DRF's JCT with a learning rate that falls from
# 0.002, not with 0.005; and many environments share an update, which in the paper each slot has.
PAPER = Recipe()

# What makes the paper's learner improve on its teacher here (docs/systems/dl2.md, section 10). Not
# the paper's: epochs as the reward of a slot, no look beyond it, no job-aware exploration; and the
# entropy is the mean over actions. Slots stay whole.
MENDED = replace(
    PAPER,
    loop=LoopConfig(4, 128, 3000),
    actor_critic=ActorCriticConfig(3000, gamma=0.0, entropy_per_action=True, held=192, held_envs=4),
    exploration=False,
    reward="slot_epochs",
    evaluate_every=250,
)

# Many environments, on-policy updates, a reward for every inference; rows share their weights.
QUICK = Recipe(
    supervised=Supervised(
        teacher="optimus", learner=RECORDED(800), num_updates=800, evaluate_every=200
    ),
    loop=LoopConfig(num_envs=128, rollout_length=128, num_updates=200),
    algorithm="ppo",
    ppo=PPOConfig(
        200,
        epochs=2,
        learning_rate=1e-3,
        gamma=0.0,
        step_lambda=0.95,
        entropy_end=5e-4,
    ),
    reward="epochs",
    network="rows",
    exploration=False,
    evaluate_every=10,
    checkpoint_every=50,
)

# Imitate the probe, which knows speeds and contention, and search from there: the network learns
# both from the jobs' types and the cluster's load, and whole episodes have no horizon. All jobs fit
# into one batch: in the paper's batches the first takes what a later one needs, which costs 1 %
# here and 4 % on the large cluster under contention (validation sequences).
SEARCH = replace(
    QUICK,
    env=replace(TESTBED, window=30),
    traces=TraceSet("dl2-testbed", "dl2-testbed", "dl2-testbed", 200, 50, 100),
    supervised=Supervised(
        teacher="probe",
        num_tables=100,
        learner=RECORDED(3000),
        num_updates=3000,
        evaluate_every=1000,
    ),
    algorithm="none",
    search=Search(loop=replace(Search().loop, num_updates=60)),
)

# The large cluster under three times the paper's arrivals.
CONTENDED = replace(
    SEARCH,
    env=replace(SIM, window=60),
    traces=TraceSet("dl2-contended", "dl2-contended", "dl2-contended", 200, 50, 100),
    search=Search(
        learner=replace(Search().learner, members=32),
        loop=replace(Search().loop, num_envs=256, rollout_length=6144, num_updates=40),
    ),
)

# The paper's learner in the published simulator, as far as the text goes: the entropy is summed
# over the actions, DRF's bundles and the slot's end are labels, rollouts cut slots. Only the target
# is the published code's: the slot's reward alone (gamma 0). Its sequences are for tests only.
ARTEFACT_TEXT = replace(
    PUBLISHED_RECIPE,
    supervised=Supervised(
        teacher="drf_actions",
        learner=ImitationConfig(
            60,
            gradient_steps=50,
            student_share=0.0,
            learning_rate=2e-3,
            final_learning_rate=1e-4,
        ),
        num_updates=60,
        evaluate_every=20,
    ),
    loop=LoopConfig(num_envs=16, rollout_length=32, num_updates=6000),
    actor_critic=ActorCriticConfig(6000, gamma=0.0),
    explores="paper",
    network="paper",
)

# The best known here: imitate the probe, then search by whole episodes for the completion time in
# whole slots, as the published numbers count. What does not fit is masked, which changes what the
# agent knows and not what it can reach: a slot that nothing more fits is over either way.
ARTEFACT_SEARCH = replace(
    ARTEFACT_TEXT,
    env=replace(ARTEFACT, misfit="mask", observation="paper"),
    traces=TraceSet("dl2-artefact", "dl2-artefact-published", "dl2-artefact", 400, 100),
    supervised=Supervised(
        teacher="probe_actions",
        learner=ImitationConfig(
            150, gradient_steps=64, learning_rate=2e-3, final_learning_rate=1e-4
        ),
        num_updates=150,
        evaluate_every=30,
    ),
    algorithm="none",
    network="rows",
    search=Search(
        learner=replace(Search().learner, members=32),
        loop=replace(Search().loop, num_envs=256, rollout_length=6144, num_updates=40),
        reward="presence",
    ),
    play="greedy",
)

PRESETS = {
    "quick": QUICK,
    "paper": PAPER,
    "paper-mended": MENDED,
    "paper-mended-testbed": replace(
        MENDED,
        env=TESTBED,
        traces=TESTBED_TRACES,
        supervised=Supervised(by_task=True),
        loop=replace(MENDED.loop, num_updates=6000),
    ),
    "testbed": replace(QUICK, env=TESTBED, traces=TESTBED_TRACES, urgency=0.6),
    "search": SEARCH,
    "contended": CONTENDED,
    "artefact": PUBLISHED_RECIPE,
    "artefact-text": ARTEFACT_TEXT,
    "artefact-search": ARTEFACT_SEARCH,
    "large": replace(QUICK, env=LARGE, traces=LARGE_TRACES),
}

NOTES = {
    "quick": PresetInfo(
        "60 servers: imitation of Optimus, then PPO", "22 min on 2 CPU cores, three seeds together"
    ),
    "paper": PresetInfo(
        "the paper's learner: imitation of DRF, then an actor-critic",
        "9 min on 2 CPU cores, three seeds together",
    ),
    "paper-mended": PresetInfo(
        "the paper's learner paid by epochs and without its discount; not judged yet"
    ),
    "paper-mended-testbed": PresetInfo("the same on 13 servers, labels by task"),
    "testbed": PresetInfo(
        "13 servers: imitation of Optimus, then PPO",
        "10 min on 2 CPU cores, three seeds together",
    ),
    "search": PresetInfo(
        "the best results on 13 servers: imitation of probe, then search over whole episodes",
        "25 min on 2 CPU cores",
    ),
    "contended": PresetInfo(
        "60 servers, three times the paper's arrivals: imitation of probe, then search",
        "23 min on 2 CPU cores",
    ),
    "artefact": PresetInfo(
        "the published simulator and what its code does: DRF, then actor-critic"
    ),
    "artefact-text": PresetInfo(
        "the published simulator and the learner of the paper's text: DRF, then actor-critic"
    ),
    "artefact-search": PresetInfo(
        "the published simulator: imitation of probe_actions, then search over whole episodes"
    ),
    "large": PresetInfo("500 servers: imitation of Optimus, then PPO"),
}
"""What each recipe is for; times as ``benchmarks/results`` has them."""
