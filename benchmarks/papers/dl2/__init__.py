"""The rows of DL2, specification, section 12."""

from benchmarks.papers.dl2 import (
    allocation,
    curves,
    design,
    resizing,
    results,
    robustness,
    speed,
)
from benchmarks.papers.runner import Paper, Row

PAPER = Paper(
    system="dl2",
    title="DL2: a deep learning-driven scheduler for deep learning clusters",
    rows=(
        Row("E1", "completion times on both clusters (Fig. 9)", results.completion_times),
        Row("E2", "GPU utilisation and makespan", results.utilisation),
        Row("E3", "supervised, reinforcement, both (Fig. 10)", curves.learning_curves),
        Row("E4", "workers per server of a Seq2Seq job (Fig. 11)", allocation.seq2seq),
        Row("E5", "other arrival patterns (Fig. 12)", results.arrivals),
        Row("E6", "variation of the training speed (Fig. 15)", robustness.variation),
        Row("E7", "errors of the estimated epochs (Fig. 16)", robustness.epoch_error),
        Row("E8", "unseen job types (Fig. 17)", curves.unseen_types),
        Row("E9", "other teachers (Fig. 18)", design.teachers),
        Row("E10", "window, neurons, layers (Fig. 19)", design.sizes),
        Row("E11", "ablations (Table 2)", design.ablations),
        Row("E12", "federated training", curves.federated),
        Row("E13", "all-reduce with the same network", robustness.all_reduce),
        Row("E14", "measured speeds", robustness.measured),
        Row("E15", "latency and environment steps per second", speed.speed),
        Row("E16", "500 servers and 200 jobs", results.many_servers),
        Row("E17", "cost of resizing (Fig. 13, 14)", resizing.resizing),
    ),
    quick_changes={
        "loop.num_updates": 20,
        "loop.num_envs": 16,
        "loop.rollout_length": 64,
        "supervised.loop.num_updates": 200,
        "supervised.data.tables": 4,
        "evaluate_every": 5,
        "checkpoint_every": 10,
    },
    quick_sizes={"num_train": 8, "num_validation": 3, "num_test": 3},
)
