"""The rows of Chic: Chic, Chic-Pair and Optimus, specification, section 12."""

from benchmarks.papers.chic import curves, mixed, rates, sweeps, timing
from benchmarks.papers.runner import Paper, Row

PAPER = Paper(
    system="chic",
    title="Chic: experience-driven scheduling in machine learning clusters",
    rows=(
        Row("X1", "completion time at five arrival rates (Fig. 4a)", rates.completion_times),
        Row("X2", "shortest, median, longest at 1.8 /h (Fig. 4b)", rates.distribution),
        Row("X3", "the policy of 1.8 /h at other rates (Fig. 4c)", rates.transfer),
        Row("M", "one policy for all rates, by search", mixed.one_policy),
        Row("X4", "wall time and Optimus' interval (Fig. 5)", timing.wall_time),
        Row("X5", "learning curves at 1.8 /h (Fig. 6)", curves.learning_curves),
        Row("X6", "workloads of a training episode (Fig. 7a)", sweeps.episode_length),
        Row("X7", "window of Chic-Pair (Fig. 7b)", sweeps.window),
        Row("X8", "penalties p1 and p2", sweeps.penalties),
        Row("X9", "without the uniform trajectory, without validation", sweeps.ablations),
    ),
    quick_changes={
        "loop.num_updates": 40,
        "loop.num_envs": 64,
        "learner.num_trajectories": 63,
        "evaluate_every": 4,
        "checkpoint_every": 20,
        "learner.members": 4,
        "imitation.loop.num_updates": 40,
    },
    quick_sizes={"num_train": 100, "num_validation": 10, "num_test": 10},
)
