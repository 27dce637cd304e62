"""Learning rates and seeds side by side in one program, then an outside optimiser."""

import jaxsched

small = {"loop.num_updates": 4, "loop.num_envs": 32}
sweep = jaxsched.sweep(
    "sched2",
    preset="plain-ppo",
    over={"learner.learning_rate": [1e-4, 3e-4, 1e-3]},
    num_seeds=2,
    set=small,
)
frame = sweep.to_pandas()  # a row a setting and seed
assert len(frame) == 6 and sweep.best["learner.learning_rate"] in (1e-4, 3e-4, 1e-3)


def objective(rate: float) -> float:
    """What Optuna, Ray Tune or a loop would call; a callback may prune."""
    seen = []

    def callback(progress):
        if progress.score is not None:
            seen.append(progress.score)
        return len(seen) < 2  # False stops the run, which is complete all the same

    run = jaxsched.train(
        "sched2",
        preset="plain-ppo",
        set=small | {"learner.learning_rate": rate, "evaluate_every": 1},
        callback=callback,
    )
    return run.best.score


assert min(objective(rate) for rate in (1e-4, 1e-3)) > 0
