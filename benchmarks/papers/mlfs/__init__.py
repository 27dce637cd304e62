"""The rows of MLFS and its rivals: specification, section 12."""

from benchmarks.papers.mlfs import ablations, comparison, large, philly, speed
from benchmarks.papers.runner import Paper, Row

PAPER = Paper(
    system="mlfs",
    title="Job scheduling for large-scale machine learning clusters",
    rows=(
        Row("E1", "completion time and makespan by load (Fig. 4a, 4b)", comparison.completion),
        Row("E2", "deadlines, waiting, accuracy, bandwidth (Fig. 4c-4g)", comparison.quality),
        Row("E3", "2474 GPUs (Fig. 5)", large.large_cluster),
        Row("E4", "urgency and deadline terms (Fig. 6)", ablations.priority_terms),
        Row("E5", "bandwidth term (Fig. 7)", ablations.bandwidth_term),
        Row("E6", "migration (Fig. 8)", ablations.migration),
        Row("E7", "load control, MLF-C (Fig. 9)", ablations.load_control),
        Row("E8", "scheduler time per slot (Fig. 4h)", speed.scheduler_time),
        Row("E9", "environment decisions per second", speed.environment_speed),
        Row("E10", "the order of the rules on Philly's jobs (Fig. 5a)", philly.philly_order),
    ),
    quick_changes={
        "imitation.loop.num_updates": 2,
        "imitation.loop.num_envs": 4,
        "imitation.loop.rollout_length": 16,
        "imitation.learner.batch_size": 32,
        "imitation.learner.gradient_steps": 1,
        "imitation.evaluate_every": 2,
        "loop.num_updates": 2,
        "loop.num_envs": 4,
        "loop.rollout_length": 16,
        "learner.epochs": 1,
        "learner.num_minibatches": 2,
        "evaluate_every": 2,
        "checkpoint_every": 2,
    },
    quick_sizes={"num_train": 2, "num_validation": 2, "num_test": 2, "num_jobs": 12},
)
