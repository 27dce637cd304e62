"""A notebook: watch the training, stop when it is good enough, go on later."""

import jaxsched

training = jaxsched.training(
    "sched2",
    preset="plain-ppo",
    seed=1,
    set={"loop.num_updates": 60, "loop.num_envs": 32, "evaluate_every": 10},
)
curve = []
# One a chunk: update, env_steps, steps_per_s, metrics, score (None between evaluations).
for progress in training:
    if progress.score is not None:
        curve.append((progress.env_steps, progress.score))
    if len(curve) == 3:
        break
run = training.finish()
assert len(curve) == 3
assert run.best.score == max(score for _, score in curve)  # effectiveness: higher is better
print(run.metrics.tail(3))  # a data frame: what metrics.jsonl holds
run.plot("curve.png")
