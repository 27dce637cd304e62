"""SCHED2's own pictures in a report: Figures 4, 9 and 10 of the paper."""

from jaxsched.systems.figures import Curve, Figures, MetricGroup

FIGURES = Figures(
    curves={
        "fragmentation": Curve(
            "Fragmentation",
            "Mean server fragmentation, sampled at each start: 0 when the running jobs of every "
            "server end together, towards 1 when they end far apart.",
        ),
        "queue_gpus": Curve(
            "GPUs demanded by the queue",
            "Sum of the GPUs that all waiting jobs ask for, sampled at each start.",
        ),
    },
    groups=(
        MetricGroup(
            "Locality",
            "Relaxed: share of the multi-GPU jobs of a class that run without the best locality. "
            "Reuse: share of the multi-GPU jobs that take over GPUs last held by well-placed "
            "multi-GPU jobs.",
            ("relaxed_sensitive", "relaxed_insensitive", "reuse_fraction"),
        ),
    ),
)
