"""What Chic's text leaves open, each reading learnt by the paper's own method.

    python -m benchmarks.chic_readings [--readings "as written;one resource"] [--seeds 5]
        [--updates 400] [--json FILE]

Trains the preset ``paper`` on ``chic-1.80`` under each reading, seeds side by side, plays 30
validation sequences every 10 updates and keeps each seed's weights of least completion time there.
A seed ends after 60 updates without a gain, as in the paper (which validates every second). These,
and the untrained networks, then play 100 sequences that nothing was chosen on, once, beside
``optimus``, ``search``, ``random`` and ``pretrained`` (the checkpoint of our recipe, ``--preset
search``). With ``--json`` what the file has already is not run again.

The list was written before any of it was run; all else is as the paper has it:

as written           a phase ends where no unit fits (the words of condition 1) or none makes
                     anything faster, and in no other way: void changes nothing. Penalties 5 and 1.
void ends            what the preset has: void ends the phase as well.
one resource         condition 1 as Equation 4 is printed ("exists k"): a phase ends as soon as one
                     resource is used up. Optimus has the same words.
weights 1            p1 = p2 = 1: the paper gives signs of the penalties and no sizes.
ten steps            Equation 9 is an arg max; it is solved by ten gradient steps, not by one.
one resource, ...    the same with condition 1 as printed: ``weights 1``, ``ten steps``, and both.
                     ``masked``: units that do not fit and empty rows cannot be chosen;
                     ``unpenalised``: p1 = p2 = 0. These two are changes of the text, to see what
                     penalties do.

Not run: a penalty once per phase, which needs a flag in the environment's state.

Axes: ``S`` seeds, ``E`` sequences, ``V`` evaluations.
"""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.chic_recipe import INERT, NUM_VALIDATION, TEN, VALIDATION_SEED, begin, names_in
from benchmarks.scripts import exit_status
from jaxsched.errors import JaxschedError
from jaxsched.files import write_whole
from jaxsched.systems import functions, registry

ONE = ("env.void_outside=inert", "env.stop_on_one=true", "loop.rollout_length=3072")
ONES = ("params.p1=1", "params.p2=1")
READINGS: dict[str, tuple[str, ...]] = {
    "as written": INERT,
    "void ends": (),
    "one resource": ONE,
    "weights 1": (*INERT, *ONES),
    "ten steps": (*INERT, *TEN),
    "one resource, weights 1": (*ONE, *ONES),
    "one resource, ten steps": (*ONE, *TEN),
    "one resource, weights 1, ten steps": (*ONE, *ONES, *TEN),
    "one resource, masked": (*ONE, "env.free_choice=false"),
    "one resource, unpenalised": (*ONE, "params.p1=0", "params.p2=0"),
}
"""Settings that differ from the preset's, by reading."""
OURS = "pretrained"
OTHERS = ("optimus", "search", "random", OURS)
EVERY, PATIENCE = 10, 60  # updates: between validations, without a gain before a seed ends
TEST_SEED, NUM_TEST = 5011, 100
METRICS = ("avg_jct", "max_jct", "makespan", "missed", "steps")
SHOWN = "avg_jct"


def main() -> None:
    """Train and play what the file does not have yet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--readings", default=";".join(READINGS), help="names between semicolons")
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.updates < EVERY or options.seeds < 1:
        raise JaxschedError(f"--updates must be at least {EVERY}, --seeds at least 1")
    names = names_in("--readings", options.readings, READINGS)
    from jaxsched.provenance import surroundings

    result: dict[str, Any] = {
        "system": "chic",
        "command": "",
        **surroundings(),
        "readings": {},
        "loads": {"1.8": {"seed": TEST_SEED, "metrics": {}}},
    }
    if options.json is not None and options.json.exists():
        before = json.loads(options.json.read_text())
        result |= {part: before[part] for part in ("readings", "loads")}
    played = result["loads"]["1.8"]["metrics"]
    for name in (*OTHERS, *names):
        if name in played:
            continue
        if name in OTHERS:
            played[name] = of_other(name)
        else:
            found, plays = trained(READINGS[name], options.updates, options.seeds)
            result["readings"][name] = found
            played[name], played[f"{name}, untrained"] = plays
        write(options.json, result)
        print(f"{name}: {np.mean(played[name][SHOWN]):,.1f} s", flush=True)


def write(path: Path | None, result: dict[str, Any]) -> None:
    """Write the file, if one is asked for, with the command that makes all that is in it."""
    if path is None:
        return
    readings = result["readings"]
    words = ["python", "-m", "benchmarks.chic_readings", "--readings", ";".join(readings)]
    counts = {len(one["chosen"]) for one in readings.values()}
    if len(counts) == 1:
        words += ["--seeds", str(*counts)]
    result["command"] = shlex.join(words)
    write_whole(path, (json.dumps(result, indent=1) + "\n").encode())


def test_tables() -> Any:
    """The sequences of the verdict."""
    from jaxsched import traces

    return traces.get("chic-1.80", seed=TEST_SEED, num_traces=NUM_TEST)


def of_other(name: str) -> dict[str, list[list[float]]]:
    """Metrics of a rule, or of the checkpoint of our recipe; ``[1, E]``."""
    from jaxsched.runs import saved_policies

    system, tables = registry.get("chic"), test_tables()
    if name == OURS:
        learned, _ = saved_policies.load(name, system)
        env, weights = learned.env, learned.weights[0]
        policy = functions.network_policy(system, env, learned.network, name, learned.play)
    else:
        rule = functions.heuristic(system, name, system.environment(), len(tables[0]), {})
        env, policy, weights = rule.env, rule.policy, ()
    found = functions.play(system, env, policy, env.params(tables), weights).metrics
    return {metric: [found[metric].tolist()] for metric in METRICS if metric in found}


def trained(
    changes: Sequence[str], updates: int, seeds: int
) -> tuple[dict[str, Any], tuple[dict[str, Any], dict[str, Any]]]:
    """Learn under a reading.

    Returns:
      What the file tells of the training (curves ``[V, S]``), and the metrics ``[S, E]`` of the
      chosen weights and of the untrained ones.
    """
    from jaxsched import traces
    from jaxsched.core import training

    system, began = registry.get("chic"), time.perf_counter()
    recipe, setup, carry = begin(changes, updates, seeds)

    def plays(weights: Any, tables: Any) -> dict[str, list[list[float]]]:
        params = recipe.env.params(tables, **recipe.stages[-1].params)
        found = []
        for seed in range(seeds):
            one = jax.tree.map(itemgetter(seed), weights)
            found.append(functions.play(system, setup.play_env, setup.policy, params, one).metrics)
        return {metric: [one[metric].tolist() for one in found] for metric in METRICS}

    validation = traces.get("chic-1.80", seed=VALIDATION_SEED, num_traces=NUM_VALIDATION)
    first = best = jax.tree.map(np.asarray, setup.learner.policy_params(carry.learner_state))
    least, chosen = np.full(seeds, np.inf), np.zeros(seeds, int)
    at, curve, missed = [0], [], []
    while True:
        weights = jax.tree.map(np.asarray, setup.learner.policy_params(carry.learner_state))
        metrics = plays(weights, validation)
        times = np.mean(metrics[SHOWN], axis=1)
        curve.append(times.tolist())
        missed.append(np.mean(metrics["missed"], axis=1).tolist())
        better = (times < least) & (at[-1] - chosen <= PATIENCE)
        least, chosen = np.where(better, times, least), np.where(better, at[-1], chosen)
        best = jax.tree.map(
            lambda new, old: np.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old),  # noqa: B023
            weights,
            best,
        )
        if at[-1] + EVERY > updates or (at[-1] - chosen >= PATIENCE).all():
            break
        carry, _ = training.chunk(
            setup.env,
            setup.learner,
            setup.loop,
            carry,
            setup.params_at(at[-1] / updates),
            num_updates=EVERY,
        )
        at.append(at[-1] + EVERY)
    told = {
        "changes": list(changes),
        "departures": list(system.recipes.departures.of(recipe)),
        "updates": at,
        "validation": curve,
        "missed": missed,
        "chosen": chosen.tolist(),
        "wall_s": time.perf_counter() - began,
    }
    tables = test_tables()
    return told, (plays(best, tables), plays(first, tables))


if __name__ == "__main__":
    sys.exit(exit_status(main))
