"""Somebody else's training code, on my log."""

import gymnasium
import pandas as pd

import jaxsched
import jaxsched.adapters.gymnasium  # noqa: F401  (registers the names)

log = pd.DataFrame(
    {"submit_time": range(0, 30_000, 300), "num_gpus": [1, 2, 4, 8] * 25, "duration": [3600] * 100}
)
traces = jaxsched.traces.load(log)
env = gymnasium.make("jaxsched/Sched2-v0", traces=traces, num_servers=4)
observation, info = env.reset(seed=0)
for _ in range(50):
    observation, reward, terminated, truncated, info = env.step(
        env.action_space.sample(info["action_mask"])
    )
    if terminated or truncated:
        observation, info = env.reset()
