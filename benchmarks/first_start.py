"""How long the first start takes, and the second, once JAX keeps what was compiled.

    python -m benchmarks.first_start [--systems sched2,dl2,...] [--programs step,training]
        [--rounds 3] [--json FILE]

``step``: an environment's first ``reset`` and ``step``, each traced, compiled and run.
``training``: from the start of the process to the compiled program of fifty updates of a recipe.
Every start is a process of its own; of the two in a round the first finds an empty folder of
compiled programs, the second what the first left there. Both find the package's modules as an
installation has them, in bytecode. Prints medians of the rounds.
"""

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status
from jaxsched.errors import JaxschedError

RECIPES: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("sched2", "dl2", "chic", "mlfs"), ("plain-ppo",)
) | {"das": ("paper", "contended")}
PRESETS: dict[str, dict[str, tuple[str, ...]]] = {
    "step": dict.fromkeys(RECIPES, ("",)),
    "training": RECIPES,
}
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Where it is set, Python compiles every module of the package at every start."""
UPDATES = 50
STARTS = ("first", "second")


def main() -> None:
    """Measure, print, write JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", default=",".join(RECIPES))
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--preset", help=argparse.SUPPRESS)  # of a start
    parser.add_argument("--alone", type=float, help=argparse.SUPPRESS)  # started then, by this
    options = parser.parse_args()
    systems = chosen("--systems", options.systems, RECIPES)
    programs = chosen("--programs", options.programs, PROGRAMS)
    if options.alone is not None:
        print(json.dumps(PROGRAMS[programs[0]](systems[0], options.preset, options.alone)))
        return
    if not 1 <= options.rounds <= 100:
        raise JaxschedError("--rounds must be 1 to 100")
    import jaxsched
    from jaxsched.provenance import surroundings

    compileall.compile_dir(Path(jaxsched.__file__).parent, quiet=2)
    rows = []
    for program in programs:
        for system in systems:
            for preset in PRESETS[program][system]:
                rows.append(row(system, program, preset, options.rounds))
                print(line(rows[-1]), flush=True)
    if options.json is not None:
        document = {"kind": "first-start", "rounds": options.rounds, **surroundings(), "rows": rows}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def chosen(option: str, words: str, known: dict[str, Any]) -> list[str]:
    """The names in an option's value.

    Raises:
      JaxschedError: one is not known.
    """
    names = words.split(",")
    for name in names:
        if name not in known:
            raise JaxschedError(f"{option}: unknown name '{name}'; known are {', '.join(known)}")
    return names


def row(system: str, program: str, preset: str, rounds: int) -> dict[str, Any]:
    """Median seconds of each part of a first and of a second start."""
    found: dict[str, list[dict[str, float]]] = {start: [] for start in STARTS}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for start in STARTS:
                found[start].append(started(system, program, preset, folder))
    seconds = {
        start: {part: float(np.median([one[part] for one in each])) for part in each[0]}
        for start, each in found.items()
    }
    about = {"system": system, "program": program}
    return about | ({"preset": preset} if preset else {}) | seconds


def started(system: str, program: str, preset: str, folder: str) -> dict[str, float]:
    """Seconds of the parts of one start, in a process of its own.

    Raises:
      JaxschedError: it failed.
    """
    settings = {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_ENABLE_COMPILATION_CACHE": "1"}
    settings["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    command = [sys.executable, "-m", "benchmarks.first_start", "--systems", system]
    command += ["--programs", program, "--preset", preset, "--alone", repr(time.time())]
    around = {name: value for name, value in os.environ.items() if name != NO_BYTECODE}
    done = subprocess.run(
        command, env=around | settings, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise JaxschedError(f"{system}: the process failed: {done.stderr.strip()[-300:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def first_step(system: str, preset: str, began: float) -> dict[str, float]:
    """An environment's first ``reset`` and ``step``; ``began``: when the process was started."""
    del preset
    import jax

    import jaxsched
    from jaxsched.types import ArraySpec, DiscreteSpec

    env, params = jaxsched.make(system, num_traces=1, num_jobs=10)
    keys = jax.block_until_ready(jax.random.split(jax.random.key(0)))
    action = jax.block_until_ready(
        jax.tree.map(
            lambda spec: jax.numpy.int32(0) if isinstance(spec, DiscreteSpec) else spec.zeros(),
            env.action_spec(params),
            is_leaf=lambda spec: isinstance(spec, DiscreteSpec | ArraySpec),
        )
    )
    laps = [time.time()]
    state, _ = jax.block_until_ready(jax.jit(env.reset)(keys[0], params))
    laps.append(time.time())
    jax.block_until_ready(jax.jit(env.step)(keys[1], state, action, params))
    laps.append(time.time())
    preparing, reset, step = np.diff([began, *laps]).tolist()
    return {"preparing_s": preparing, "reset_s": reset, "step_s": step, "total_s": reset + step}


def training_program(system: str, preset: str, began: float) -> dict[str, float]:
    """The program of some updates of a recipe; ``began``: when the process was started."""
    import jax

    from jaxsched.bench.training import setup_of
    from jaxsched.core import training

    setup = setup_of(system, preset, ())
    params = setup.params_at(1.0)
    carry = training.init(setup.env, setup.learner, setup.loop, jax.random.key(0), params)
    jax.block_until_ready(carry)
    prepared = time.time()
    training.chunk.lower(
        setup.env, setup.learner, setup.loop, carry=carry, params=params, num_updates=UPDATES
    ).compile()
    done = time.time()
    return {
        "preparing_s": prepared - began,
        "compiling_s": done - prepared,
        "total_s": done - began,
    }


PROGRAMS = {"step": first_step, "training": training_program}


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    name = f"{row['system']} {row.get('preset', 'reset and step')}"
    parts = [
        f"{start} {row[start]['total_s']:5.1f} s ("
        + ", ".join(f"{part[:-2]} {s:.1f}" for part, s in row[start].items() if part != "total_s")
        + ")"
        for start in STARTS
    ]
    return (
        f"{name:24} {'; '.join(parts)}; {row['first']['total_s'] / row['second']['total_s']:.1f}x"
    )


if __name__ == "__main__":
    sys.exit(exit_status(main))
