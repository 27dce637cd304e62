"""Stopped and resumed is one go, to the bit; two trainings do not disturb each other."""

from itertools import zip_longest

import jax
import numpy as np

import jaxsched

options = dict(
    preset="plain-ppo",
    seed=4,
    set={"loop.num_updates": 20, "loop.num_envs": 32, "evaluate_every": 5},
)
whole = jaxsched.train("sched2", out="runs/whole", **options)
jaxsched.train(
    "sched2", out="runs/halves", callback=lambda progress: progress.update < 7, **options
)
halves = jaxsched.train("sched2", out="runs/halves", resume=True, **options)
for a, b in zip(jax.tree.leaves(whole.weights), jax.tree.leaves(halves.weights), strict=True):
    np.testing.assert_array_equal(a, b)

first = jaxsched.training("sched2", **options)
second = jaxsched.training(
    "chic",
    preset="plain-ppo",
    set={"loop.num_updates": 25, "loop.num_envs": 8, "evaluate_every": 25},
)
for _ in zip_longest(first, second):
    pass
again = first.finish()
for a, b in zip(jax.tree.leaves(whole.weights), jax.tree.leaves(again.weights), strict=True):
    np.testing.assert_array_equal(a, b)
