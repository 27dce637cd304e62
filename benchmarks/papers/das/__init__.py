"""The rows of DAS, its rivals and the heuristics: specification, section 12."""

from benchmarks.papers.das import heuristics, significance, speed, states, sweeps, table1
from benchmarks.papers.runner import Paper, Row

PAPER = Paper(
    system="das",
    title="DAS: a dual-agent scheduler for distributed deep learning jobs on public cloud",
    rows=(
        Row("T1", "completion time and fee on three clusters (Table 1)", table1.table_1),
        Row("F5", "attention heads and history length (Fig. 5)", sweeps.heads_and_history),
        Row("M", "learned and zero prior mean (section 10.4)", sweeps.prior_means),
        Row("F6", "three scripted cluster states (Fig. 6)", states.scripted_states),
        Row("F7", "low, normal and high load (Fig. 7)", sweeps.loads),
        Row("T3", "Wilcoxon tests of DAS against RIFLING (Table 3)", significance.wilcoxon_tests),
        Row("A", "lazy and eager scheduling (Appendix A)", heuristics.lazy_and_eager),
        Row("F", "time per decision and per job (Appendix F)", speed.decision_time),
        Row("S", "environment decisions per second", speed.environment_speed),
    ),
    quick_changes={
        "imitation.loop.num_updates": 4,
        "imitation.loop.num_envs": 8,
        "imitation.loop.rollout_length": 16,
        "imitation.learner.gradient_steps": 2,
        "imitation.learner.batch_size": 4,
        "imitation.learner.sequence_length": 16,
        "loop.num_updates": 2,
        "loop.num_envs": 8,
        "loop.rollout_length": 16,
        "learner.epochs": 1,
        "learner.num_minibatches": 2,
        "learner.sequence_length": 16,
        "evaluate_every": 2,
        "imitation.evaluate_every": 2,
        "checkpoint_every": 2,
    },
    quick_sizes={"num_train": 1, "num_validation": 2, "num_test": 2, "num_jobs": 150},
)
