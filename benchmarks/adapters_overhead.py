"""What the forms of other projects cost: environment steps per second of processor time.

    python -m benchmarks.adapters_overhead [--system sched2] [--envs 1024] [--steps 256]
        [--repeats 11] [--json FILE]

One process plays the same environments in each form, in turns, so that all meet the same load of
the machine; figures are medians over the turns, ratios are medians of the ratios within a turn.
The action is the first legal one, resets are automatic, and the processor time is that of all
threads. Forms named ``scan`` are one compiled loop; the others are called step by step.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status
from jaxsched.errors import JaxschedError, check_counts

NATIVE = "native"
WARM_UPS = 2
Turn = Callable[[], None]


def main() -> None:
    """Measure, print, write JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--system", default="sched2")
    parser.add_argument("--envs", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=256, help="of each environment in a turn")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    check_counts(envs=options.envs, steps=options.steps, repeats=options.repeats)
    from jaxsched.provenance import surroundings

    rows = measured(options.system, options.envs, options.steps, options.repeats)
    print(f"{'form':28} {'steps per CPU second':>22} {'of native':>10}")
    for row in rows:
        rate = row["steps_per_cpu_s"]
        print(f"{row['form']:28} {rate:22,.0f} {row['of_native']:10.2f}")
    if options.json is not None:
        document = {
            "kind": "adapters overhead",
            "system": options.system,
            "environments": options.envs,
            "steps": options.steps,
            "repeats": options.repeats,
            "rows": rows,
            **surroundings(),
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def measured(system: str, envs: int, steps: int, repeats: int) -> list[dict[str, Any]]:
    """A row of each form."""
    import jaxsched
    from jaxsched.bench.timing import Stopwatch

    env, params = jaxsched.make(system)
    turns = turns_of(env, params, envs, steps)
    seconds: dict[str, list[float]] = {form: [] for form in turns}
    for repeat in range(WARM_UPS + repeats):
        for form, turn in turns.items():
            watch = Stopwatch()
            turn()
            if repeat >= WARM_UPS:
                seconds[form].append(watch.lap().cpu_s)
    rows = []
    for form, each in seconds.items():
        base = seconds["native, scan" if form.endswith("scan") else NATIVE]
        ratio = float(np.median(np.array(base) / np.array(each)))
        rate = envs * steps / float(np.median(each))
        spread = [envs * steps / max(each), envs * steps / min(each)]
        rows.append({"form": form, "steps_per_cpu_s": rate, "min_max": spread, "of_native": ratio})
    return rows


def turns_of(env: Any, params: Any, envs: int, steps: int) -> dict[str, Turn]:
    """What takes ``steps`` steps of all environments, by the name of the form."""
    turns = in_jax(env, params, envs, steps)
    for name, output in (("Gymnasium, JAX arrays", "jax"), ("Gymnasium, NumPy arrays", "numpy")):
        turns[name] = vector_turn(env, params, envs, steps, output)
    try:
        turns["Stable-Baselines3"] = sb3_turn(env, params, envs, steps)
    except JaxschedError:
        print("Stable-Baselines3 is not installed and left out", file=sys.stderr)
    return turns


def in_jax(env: Any, params: Any, envs: int, steps: int) -> dict[str, Turn]:
    """The environment itself and gymnax's form, step by step and as a compiled loop."""
    import jax

    from jaxsched.adapters.gymnax import GymnaxEnv
    from jaxsched.core.environment import Observed, look, start, step_and_look

    form = GymnaxEnv(env, params)
    keys = jax.random.split(jax.random.key(0), envs)
    begun = jax.jit(jax.vmap(lambda key: start(env, key, params)))(keys)
    first = jax.jit(jax.vmap(lambda current: look(env, current, params)))(begun)

    def native(carry: Any, key: Any, params: Any) -> Any:
        (current, seen), keys = carry, jax.random.split(key, envs)
        action = seen.mask.argmax(-1)
        step = partial(step_and_look, env)
        current, seen, timestep = jax.vmap(step, (0, 0, 0, None))(keys, current, action, params)
        return (current, seen), (timestep.reward, seen.observation)

    def gymnax(carry: Any, key: Any, params: Any) -> Any:
        (state, seen), keys = carry, jax.random.split(key, envs)
        action = seen.mask.argmax(-1)
        step = jax.vmap(form.step, (0, 0, 0, None))
        observation, state, reward, *_, info = step(keys, state, action, params)
        return (state, Observed(observation, info["action_mask"])), (reward, observation)

    turns: dict[str, Turn] = {}
    for name, one, given in ((NATIVE, native, params), ("gymnax", gymnax, form.default_params)):
        turns[name] = stepwise(one, (begun, first), given, steps)
        turns[f"{name}, scan"] = scanned(one, (begun, first), given, steps)
    return turns


def stepwise(one: Any, carry: Any, params: Any, steps: int) -> Turn:
    """A call of a compiled step for each step."""
    import jax

    step = jax.jit(one)
    keys = list(jax.random.split(jax.random.key(1), steps))
    held = [carry]

    def turn() -> None:
        now = held[0]
        for key in keys:
            now, seen = step(now, key, params)
            jax.block_until_ready(seen)  # as a program that looks at what it gets
        held[0] = now

    return turn


def scanned(one: Any, carry: Any, params: Any, steps: int) -> Turn:
    """One call for all steps; what is seen is summed up, so that it has to be made."""
    import jax

    from jaxsched.bench.timing import consume

    @jax.jit
    def loop(carry: Any, keys: Any, params: Any) -> Any:
        def step(carry: Any, key: Any) -> Any:
            carry, (reward, observation) = one(carry, key, params)
            return carry, reward.sum() + jax.vmap(consume)(observation).sum()

        return jax.lax.scan(step, carry, keys)

    keys, held = jax.random.split(jax.random.key(1), steps), [carry]

    def turn() -> None:
        held[0], _ = jax.block_until_ready(loop(held[0], keys, params))

    return turn


def vector_turn(env: Any, params: Any, envs: int, steps: int, output: str) -> Turn:
    """Gymnasium's vector environment."""
    from jaxsched.adapters.gymnasium import JaxschedVectorEnv

    copies = JaxschedVectorEnv(env, params, envs, output=output)
    _, infos = copies.reset(seed=0)
    held = [infos["action_mask"]]

    def turn() -> None:
        mask = held[0]
        for _ in range(steps):
            *_, infos = copies.step(mask.argmax(-1))
            mask = infos["action_mask"]
        held[0] = mask

    return turn


def sb3_turn(env: Any, params: Any, envs: int, steps: int) -> Turn:
    """The bridge to Stable-Baselines3.

    Raises:
      JaxschedError: it is not installed.
    """
    from jaxsched.adapters.stable_baselines3 import JaxschedVecEnv

    copies = JaxschedVecEnv(env, params, envs)
    copies.reset()

    def turn() -> None:
        for _ in range(steps):
            masks = np.stack(copies.env_method("action_masks"))
            copies.step(masks.argmax(-1))

    return turn


if __name__ == "__main__":
    sys.exit(exit_status(main))
