"""The rows of SCHED2 and its rivals: specification, section 12."""

from benchmarks.papers.runner import Paper, Row
from benchmarks.papers.sched2 import (
    comparison,
    fragmentation,
    generator,
    learning,
    locality,
    queue,
)

PAPER = Paper(
    system="sched2",
    title="SCHED2: scheduling deep learning training via deep reinforcement learning",
    rows=(
        Row("F3", "what the generator draws (Fig. 3)", generator.generated),
        Row("F4", "fragmentation under packing (Fig. 4)", fragmentation.of_packing),
        Row("F7", "effectiveness, makespan, completion time by mix (Fig. 7)", comparison.by_mix),
        Row("F8", "effectiveness by load (Fig. 8)", comparison.by_scale),
        Row("F9", "fragmentation and the queue's demand (Fig. 9)", fragmentation.of_all),
        Row("F10", "run time and wait (Fig. 10)", locality.run_and_wait),
        Row("T3", "relaxed localities by class (Table III)", locality.relaxed),
        Row("R", "reused localities", locality.reused),
        Row("Q", "baselines that see the whole queue", queue.whole_queue),
        Row("L", "learning curve", learning.learning_curve),
        Row("S", "environment steps per second", learning.environment_speed),
    ),
    quick_changes={
        "loop.num_updates": 3,
        "loop.num_envs": 16,
        "loop.rollout_length": 900,
        "loop.num_random_streams": 2,
        "search.learner.members": 8,
        "search.learner.episodes": 2,
        "learner.learning_starts": 100,
        "learner.capacity": 20000,
        "evaluate_every": 1,
        "checkpoint_every": 3,
    },
    quick_sizes={"num_train": 8, "num_validation": 4, "num_test": 4, "num_jobs": 300},
)
