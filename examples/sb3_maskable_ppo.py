"""Train sb3-contrib's MaskablePPO on SCHED2 and compare it with FIFO on fresh episodes.

    pip install stable-baselines3 sb3-contrib 'jaxsched[adapters]'
    python examples/sb3_maskable_ppo.py [--steps 500000] [--seed 0] [--json FILE] [--plot FILE]

Prints the mean effectiveness (ideal run time over completion time) on validation episodes while it
learns, of the untrained policy first, and at the end that of 100 fresh ones beside the rules'.
"""

import argparse
import json
import time
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecNormalize

import jaxsched
from jaxsched import pictures, traces
from jaxsched.adapters.gymnasium import JaxschedVectorEnv
from jaxsched.adapters.stable_baselines3 import JaxschedVecEnv

SEEN = {"extras": True, "auto_advance": True}
JOBS = 300  # of each episode
TRAINING, VALIDATION, FRESH = (0, 256), (1000, 20), (2000, 100)  # seed and number of job tables
GAMMA = 0.97
RULES = ("fifo", "sif", "strict_sif")


def tables_of(part):
    """Job tables of mixed load, loads from 0.6 to 1.1."""
    seed, number = part
    return traces.get("sched2-mixed", seed=seed, num_traces=number, num_jobs=JOBS)


def effectiveness(model, tables):
    """Mean effectiveness of the greedy policy: the reward ``literal`` adds it up job by job."""
    normalised = model.get_env().normalize_obs  # as in training
    env, params = jaxsched.make("sched2", trace=tables, reward="literal", **SEEN)
    copies = JaxschedVectorEnv(env, params, len(tables), autoreset_mode="Disabled")
    observation, _ = copies.reset(seed=0, options={"episode": np.arange(len(tables))})
    total, over = np.zeros(len(tables)), np.zeros(len(tables), bool)
    while not over.all():
        masks = copies.action_masks()
        action, _ = model.predict(normalised(observation), action_masks=masks, deterministic=True)
        observation, reward, terminated, truncated, _ = copies.step(action)
        total += reward  # 0 in a finished episode
        over |= terminated | truncated
    return float(np.mean(total / [len(table) for table in tables]))


class Curve(BaseCallback):
    """Plays the validation episodes now and then, and keeps the best weights."""

    def __init__(self, tables, every):
        super().__init__()
        self.tables, self.every = tables, every
        self.points, self.best, self.began = [], None, time.monotonic()

    def _on_step(self):
        return True

    def _on_rollout_start(self):
        due = len(self.points) * self.every
        if self.num_timesteps >= due:
            self.add()

    def add(self):
        """Play, print, keep."""
        score = effectiveness(self.model, self.tables)
        if not self.points or score > max(point[1] for point in self.points):
            self.best = deepcopy(self.model.policy.state_dict())
        self.points.append((self.num_timesteps, score))
        seconds = time.monotonic() - self.began
        print(
            f"{self.num_timesteps:>9,} steps {seconds:6.0f} s  effectiveness {score:.4f}",
            flush=True,
        )


def train(steps, seed, num_envs=64):
    """A trained model and its curve on the validation episodes."""
    torch.set_num_threads(1)  # more are slower for networks of this size
    env, params = jaxsched.make("sched2", trace=tables_of(TRAINING), reward="dense", **SEEN)
    # Normalised rewards: they are far from 1, and a value loss of that size drowns the policy's.
    venv = VecNormalize(JaxschedVecEnv(env, params, num_envs), gamma=GAMMA)
    model = MaskablePPO(
        "MlpPolicy",
        venv,
        n_steps=128,
        batch_size=512,
        n_epochs=10,
        learning_rate=lambda left: 1e-3 * left,
        gamma=GAMMA,
        gae_lambda=0.9,
        seed=seed,
        device="cpu",
    )
    curve = Curve(tables_of(VALIDATION), every=steps // 10)
    model.learn(steps, callback=curve)
    curve.add()
    model.policy.load_state_dict(curve.best)
    return model, curve


def draw(points, rules, file):
    """The learning curve, with the rules on the same episodes."""

    @pictures.styled
    def figure():
        drawn = pictures.new_figure(pictures.COLUMN_IN, 2.2)
        axes = drawn.subplots()
        axes.plot(*np.array(points).T, marker=".", label="MaskablePPO")
        for colour, (name, value) in zip(pictures.COLOURS[1:], rules.items(), strict=False):
            axes.axhline(value, linestyle="--", color=colour, label=name)
        axes.set(xlabel="environment steps", ylabel="effectiveness, validation")
        pictures.legend_above(axes)
        return drawn

    pictures.save_figure(figure(), file)


def rules_on(tables):
    """Mean effectiveness of the rules."""
    table = jaxsched.compare("sched2", policies=RULES, traces=tables)
    return {name: float(table.values(name, "avg_effectiveness").mean()) for name in RULES}


def main():
    """Train, compare, write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--plot", type=Path, help="picture of the learning curve (.png, .svg, .pdf)"
    )
    options = parser.parse_args()
    model, curve = train(options.steps, options.seed)
    fresh = tables_of(FRESH)
    rules = rules_on(fresh)
    found = {"maskable_ppo": effectiveness(model, fresh), **rules}
    for name, value in found.items():
        print(f"{name:14} {value:.4f} on {len(fresh)} fresh episodes of {JOBS} jobs")
    validation = rules_on(curve.tables)
    if options.json:
        result = {
            "steps": options.steps,
            "seed": options.seed,
            "curve": [{"steps": s, "effectiveness": e} for s, e in curve.points],
            "validation": validation,
            "fresh": found,
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        draw(curve.points, validation, options.plot)


if __name__ == "__main__":
    main()
