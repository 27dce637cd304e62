"""The observation's entries in words, for the hand-over to other programs (section 4)."""

from jaxsched.envs.sched2.environment import TIME_SCALE_S, Sched2
from jaxsched.types import Feature


def features_of(env: Sched2) -> dict[str, Feature]:
    """What each kind of entry means, by its name with ``*`` for every number."""
    time, gpus = TIME_SCALE_S, float(env.gpus_per_server)
    if env.profile == "time":
        profile = Feature("run time at locality level min(i, worst level of the job)", "s", time)
    else:
        profile = Feature("slowdown at locality level min(i, worst level of the job)", "1")
    return {
        "server*.gpu*.remaining": Feature(
            "remaining time of the job on the GPU, 0 if free", "s", time
        ),
        "position*.profile*": profile,
        "position*.demand": Feature(
            "GPUs that the job needs, 0 for an empty position", "GPUs", gpus
        ),
        "position*.wait": Feature("time since the job was submitted", "s", time),
        "beyond.count": Feature("waiting jobs beyond the window", "jobs", float(env.window)),
        "beyond.demand": Feature("their mean number of GPUs", "GPUs", gpus),
        "beyond.duration": Feature("their mean ideal run time", "s", time),
        "beyond.wait": Feature("their mean wait", "s", time),
        "position*.level_now": Feature(
            "level that packing would give now, 0 if it does not fit", "1", 3.0
        ),
        "position*.effectiveness_now": Feature(
            "effectiveness if started now, 0 if it does not fit", "1"
        ),
    }
