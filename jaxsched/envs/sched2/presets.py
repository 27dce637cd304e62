"""Named recipes of SCHED2.

What the settings that differ from the specification's list are for, as seen in trials on the
training traces: without a bound on the backlog the replay fills with overloaded clusters, whose
large costs drown the small differences between actions; n-step returns carry the exploring steps
along; with a long horizon those differences drown in the cost of arrivals that no action changes.
A short horizon loses little here: a split placement is charged when the job starts.
"""

from dataclasses import replace

from jaxsched.algorithms.dqn import DQNConfig
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.core.training import LoopConfig
from jaxsched.envs.sched2.environment import Sched2
from jaxsched.envs.sched2.recipe import Recipe, Search
from jaxsched.systems.parts import PresetInfo, TraceSet

PAPER_UPDATES = 8500  # of 512 steps: 2,400 episodes of 1,000 jobs, about 1,800 decisions each

# The paper's budget.
PAPER = Recipe(
    env=Sched2(auto_advance=True, reward="dense", extras=True),
    loop=LoopConfig(num_envs=64, rollout_length=8, num_updates=PAPER_UPDATES),
    learner=DQNConfig(
        PAPER_UPDATES,
        gradient_steps=4,
        n_step=1,
        horizon_s=300.0,
        target_rate=0.005,
        learning_starts=10_000,
    ),
    network="positions",
    max_backlog=100,
    evaluate_every=250,
    checkpoint_every=2125,
)

# A few minutes on two cores: the same with fewer steps and a smaller replay.
QUICK = replace(
    PAPER,
    loop=replace(PAPER.loop, num_updates=2500),
    learner=replace(PAPER.learner, capacity=150_000, learning_starts=5000),
    evaluate_every=250,
    checkpoint_every=1250,
)

# Every choice that the paper tells, the specification's values where it is silent, the mask of
# actions and the discount among them; for the record. 2,400 episodes of 1,000 jobs are about 7
# million decisions, those with void alone included.
LITERAL_UPDATES = 13_600
LITERAL = Recipe(
    env=Sched2(),
    loop=LoopConfig(num_envs=64, rollout_length=8, num_updates=LITERAL_UPDATES),
    learner=DQNConfig(LITERAL_UPDATES, gradient_steps=4, double=False),
    evaluate_every=850,
    checkpoint_every=3400,
)

SEARCHED = Search(
    EvolutionConfig(
        members=32,
        episodes=16,
        initial_std=0.2,
        follow="gradient",
        learning_rate=0.02,
        final_learning_rate=0.002,
        averaging=0.9,
        relative=0.85,
    ),
    delay_weight=0.1,
)

# Six minutes on two cores: whole episodes of mixed load, from the strict_sif heuristic on. The
# length covers any episode of 1,000 jobs. Without automatic advance there are more steps, some of
# which have only void, but each takes less than half the time. Shorter episodes start empty and
# teach little of congestion.
SEARCH = Recipe(
    env=Sched2(reward="lost", outlook=True),
    loop=LoopConfig(num_envs=512, rollout_length=3000, num_updates=80, num_random_streams=16),
    network="linear",
    search=SEARCHED,
    traces=TraceSet("sched2-mixed", "sched2-test-68", "sched2-mixed", 512, 60),
    evaluate_every=20,
    checkpoint_every=40,
)

# The same in a minute, half of it compiling: only traces on which there is something to gain over
# strict_sif, half as many episodes a member, larger steps, a policy that follows them sooner. There
# are as many validation as test traces: one program plays both.
SEARCH_SHORT = replace(
    SEARCH,
    loop=replace(SEARCH.loop, num_envs=256, num_updates=24, num_random_streams=8),
    search=replace(
        SEARCHED,
        learner=replace(
            SEARCHED.learner,
            episodes=8,
            learning_rate=0.05,
            final_learning_rate=0.01,
            averaging=0.7,
        ),
    ),
    traces=TraceSet("sched2-congested", "sched2-congested", "sched2-congested", 256, 60, 60),
    evaluate_every=3,
    checkpoint_every=24,
)

PRESETS = {
    "quick": QUICK,
    "paper": PAPER,
    "literal": LITERAL,
    "search": SEARCH,
    "search-short": SEARCH_SHORT,
}

NOTES = {
    "quick": PresetInfo(
        "a first look: as paper, with a third of its budget",
        "2 min on 2 CPU cores",
    ),
    "paper": PresetInfo(
        "the paper's learner (DQN) and budget, with changes that make it learn",
        "24 min on 2 CPU cores, three seeds together",
    ),
    "literal": PresetInfo(
        "what the paper tells, with a mask and a discount of ours: no better than its baselines",
        "6 min on 2 CPU cores",
    ),
    "search": PresetInfo(
        "the best results: 55 weights found by search over whole episodes of mixed load",
        "6 min on 2 CPU cores; five seeds 23 min",
    ),
    "search-short": PresetInfo(
        "the demo: search on congested traces alone, and ahead of the best rule on them",
        "1 min on 2 CPU cores",
    ),
}
"""What each recipe is for; times as ``benchmarks/results`` has them."""
