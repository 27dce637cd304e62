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
        **{f"position*.outlook.{name}": feature for name, feature in _outlook_of(env).items()},
    }


def _outlook_of(env: Sched2) -> dict[str, Feature]:
    gpus = float(env.gpus_per_server)
    return {
        "duration": Feature("ideal run time", "s", TIME_SCALE_S),
        "wait": Feature("time since the job was submitted", "s", TIME_SCALE_S),
        "until": Feature(
            "time until it could start at level 0 if nothing else started", "s", TIME_SCALE_S
        ),
        "lost": Feature("what starting now would add to its run time", "s", TIME_SCALE_S),
        "fits": Feature("1 if it fits the free GPUs", "1"),
        "level0": Feature("1 if it would start at level 0 now", "1"),
        "split": Feature("1 if it fits, but not at level 0", "1"),
        "demand": Feature("GPUs that the job needs", "GPUs", gpus),
        "left_over": Feature("GPUs left free on the server that takes its rest", "GPUs", gpus),
        "sensitivity": Feature("its slowdown at level 1, less 1", "1"),
        "effectiveness": Feature("effectiveness if started now, 0 if it does not fit", "1"),
    }
