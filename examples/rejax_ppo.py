"""Train rejax's PPO on SCHED2 through gymnax's older form of five results.

    pip install rejax jaxsched
    python examples/rejax_ppo.py [--steps 200000] [--seed 0] [--json FILE]

The learner knows nothing of masks: an illegal action changes nothing but the time, and costs what
is waiting. Prints the mean effectiveness (ideal run time over completion time) of the sampled
policy on 64 drawn episodes while it learns: with the reward ``dense`` it is one plus the return
per job.
"""

import argparse
import json
from pathlib import Path

import jax
from rejax import PPO
from rejax.evaluate import evaluate

from jaxsched import traces
from jaxsched.adapters import gymnax

JOBS = 100  # of each episode
EPISODES = 64


def train(steps, seed):
    """Environment steps and mean effectiveness, at the start and eight times while it learns."""
    tables = traces.get("sched2-mixed", seed=0, num_traces=256, num_jobs=JOBS)
    env, params = gymnax.make(
        "sched2", done=True, trace=tables, reward="dense", extras=True, auto_advance=True
    )

    def effectiveness(algorithm, state, key):
        act = algorithm.make_act(state)
        most = algorithm.env_params.max_steps_in_episode
        _, returns = evaluate(act, key, env, algorithm.env_params, EPISODES, most)
        return 1 + returns.mean() / JOBS

    algorithm = PPO.create(
        env=env,
        env_params=params,
        num_envs=64,
        num_steps=128,
        num_minibatches=16,
        num_epochs=4,
        learning_rate=1e-3,
        max_grad_norm=0.5,
        gamma=0.97,
        gae_lambda=0.9,
        ent_coef=0.0,
        normalize_observations=True,
        normalize_rewards=True,
        total_timesteps=steps,
        eval_freq=steps // 8,
    ).replace(eval_callback=effectiveness)
    _, curve = jax.jit(algorithm.train)(jax.random.key(seed))
    every = -(-algorithm.eval_freq // (64 * 128)) * 64 * 128  # whole rounds of steps
    return [{"steps": n * every, "effectiveness": float(x)} for n, x in enumerate(curve)]


def main():
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    curve = train(options.steps, options.seed)
    for point in curve:
        print(f"{point['steps']:>9,} steps  effectiveness {point['effectiveness']:.4f}")
    if options.json:
        result = {"steps": options.steps, "seed": options.seed, "curve": curve}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
