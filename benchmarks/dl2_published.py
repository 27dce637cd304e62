"""DL2's published learner in its published simulator: seeds side by side, judged in two ways.

    python -m benchmarks.dl2_published [--case artefact] [--seeds 10] [--first-seed 0]
        [--updates 7000] [--every 100] [--validate 500] [--seconds S] [--runs DIR]
        [--only train|judge] [--results DIR] [--name NAME] [--page FILE] [--written]

All seeds are trained in one program, through both stages of the preset; their policies are written
every ``--every`` updates. Then each of these plays the five published sequences, and those of every
``--validate`` updates 20 validation sequences, by drawing actions as the recipe does. Two numbers
of each seed come out, completion times in whole slots on the five:

- ours: of the policy that was best on the validation sequences, which also plays fresh sequences;
- the authors': the lowest of all evaluations on the five themselves.

``--case`` says which of the published learner's ways are in that the paper's text does not tell
(``CASES``): those that settings reach are all in the preset ``artefact``, the default. The
published learner also restores Adam's moments of the supervised stage for the policy (its count of
steps at 0) and plays its hundred sequences in order, about once; ``restored`` does the first,
``once`` both: it draws from so many sequences that hardly any comes twice. ``none`` has none of
these ways, the others one each.

``--seconds`` ends reinforcement learning early; the result tells after how many updates. It goes
into the folder of results, ``dl2_published_[CASE_][seedsN_]NAME.json.xz``, and tables are printed:
those of the case, and with ``--page`` those of ``artefact`` and one of all cases, which are put
between the marks of that page. ``--written`` prints what is there.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.dl2_artefact import FRESH_SEED, RESULTS, SAVED, cores
from benchmarks.pack import pack
from benchmarks.scripts import exit_status, packed_path, read_json, table
from jaxsched.errors import JaxschedError
from jaxsched.files import write_json, write_whole
from jaxsched.systems import functions, presets
from jaxsched.systems.stages import stages_of

BEGIN, END = "<!-- published learner: begin -->", "<!-- published learner: end -->"
CHUNK = 50  # updates of one call
KERNEL_BYTES = 4_000_000  # loops of one environment for each seed are small
COARSE, FINE = "avg_jct_coarse", "avg_jct_slots"
STEP, DRF = "DL2, saved at step 500", "drf_artefact"
FACTS, PRESET = "facts.json", "artefact"
BARE = {
    "gradient": ("learner.gradient_at=current",),
    "priorities": ("learner.importance=batch", "learner.priority_most=1"),
    "failed": ("wrap.failed=true",),
    "counted": ("wrap.counted=false",),
}
"""Settings without one thing each that the published learner does."""
FURTHER = 10  # the first of ten further seeds
MANY = "traces.num_train=4000"  # some hundred of them are drawn
NONE = tuple(chain(*BARE.values()))


class Case(NamedTuple):
    """What is changed about the preset ``artefact``, and whether Adam's moments are taken over."""

    words: str
    settings: tuple[str, ...] = NONE
    moments: bool = False


def _alone(name: str) -> tuple[str, ...]:
    return tuple(chain(*(settings for other, settings in BARE.items() if other != name)))


CASES = {
    PRESET: Case("all that settings reach: the preset `artefact`", ()),
    "restored": Case("these, and Adam's moments of the supervised stage", (), moments=True),
    "once": Case("these, and hardly a sequence is played twice", (MANY,), moments=True),
    "none": Case("none of them"),
    "gradient": Case("gradient at the probabilities stored with the decision", _alone("gradient")),
    "priorities": Case("priorities and importance weights as published", _alone("priorities")),
    "failed": Case("nothing is learnt from grants that did not fit", _alone("failed")),
    "counted": Case("rare kinds forced, a ratio for each slot", _alone("counted")),
    "moments": Case("Adam's moments of the supervised stage", moments=True),
}
"""Which of the published learner's ways are in."""


def main() -> None:
    """Train, play, write and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--updates", type=int, default=7000)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--validate", type=int, default=500)
    parser.add_argument("--fresh", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--case", choices=CASES, default="artefact")
    parser.add_argument("--runs", type=Path, default=Path("runs/dl2_published"))
    parser.add_argument("--only", choices=("train", "judge"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--name", help="of the result, in place of the device's")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--written", action="store_true", help="print what is there")
    options = parser.parse_args()
    for word in ("seeds", "updates", "every", "validate", "fresh"):
        if getattr(options, word) < 1:
            raise JaxschedError(f"--{word} is {getattr(options, word)}; it must be at least 1")
    if options.updates % CHUNK or options.every % CHUNK or options.validate % options.every:
        raise JaxschedError(
            f"--updates and --every must be multiples of {CHUNK}, --validate of --every"
        )
    text = options.page.read_text(encoding="utf-8") if options.page else f"{BEGIN}{END}"
    if BEGIN not in text or END not in text:
        raise JaxschedError(f"{options.page}: has no marks {BEGIN} and {END}")
    name = options.name or f"cpu{cores()}"
    file = file_of(options.results, options.case, options.first_seed, name)
    if not options.written:
        if options.only != "judge":
            train(options)
        if options.only == "train":
            return
        write_json(file, judged(options))
        pack(file)
    tables = markdown(read_json(file))
    print(tables)
    if options.page:
        files = {
            (case, first): file_of(options.results, case, first, name)
            for case in CASES
            for first in (0, FURTHER)
        }
        results = {
            key: read_json(path) for key, path in files.items() if packed_path(path).exists()
        }
        tables = f"{markdown(results[PRESET, 0])}\n\n{of_cases(results)}"
        head, rest = text.split(BEGIN)
        page = f"{head}{BEGIN}\n\n{tables}\n\n{END}{rest.split(END)[1]}"
        write_whole(options.page, page.encode())


def file_of(folder: Path, case: str, first_seed: int, name: str) -> Path:
    """Where a case's result is."""
    parts = [case] * (case != PRESET) + [f"seeds{first_seed}"] * (first_seed > 0) + [name]
    return folder / f"dl2_published_{'_'.join(parts)}.json"


def recipe_of(options: argparse.Namespace) -> tuple[Any, Any, dict[str, Any]]:
    """The system, the recipe, and the sequences of each kind."""
    from jaxsched import traces
    from jaxsched.runs.overrides import override
    from jaxsched.systems import registry

    system = registry.get("dl2")
    recipe = override(presets.preset(system, PRESET), CASES[options.case].settings)
    used = presets.recipe_traces(system, recipe)
    return (
        system,
        recipe,
        {
            "train": traces.get(used.train, seed=0, num_traces=used.num_train),
            "validation": traces.get(
                used.validation or used.train, seed=2, num_traces=used.num_validation
            ),
            "five": traces.get(used.test),
            "fresh": traces.get(used.train, seed=FRESH_SEED, num_traces=options.fresh),
        },
    )


def train(options: argparse.Namespace) -> None:
    """Train all seeds; write their policies every so many updates, and what was run."""
    from jaxsched.runtime import prepare_cpu

    prepare_cpu(KERNEL_BYTES)  # before JAX looks for devices
    import jax
    import jax.numpy as jnp

    from jaxsched.core import training
    from jaxsched.provenance import facts

    began = time.monotonic()
    system, recipe, tables = recipe_of(options)
    stages = stages_of(system, recipe, tables["train"])
    last, first_seed = stages[-1], options.first_seed
    seeds, weights = jax.vmap(jax.random.key)(first_seed + jnp.arange(options.seeds)), None
    supervised = policy_file(options.runs, 0).exists()  # the stages before have been trained
    if supervised and not CASES[options.case].moments:
        weights, _ = read_policies(options.runs, 0, structure_of(system, last, tables))
    for stage in stages[:-1] if weights is None else ():
        env, learner, loop, params = stage.env, stage.learner, stage.loop, stage.params_at(0.0)
        carry = training.init(env, learner, loop, seeds, params, weights)
        carry, _ = training.chunk(
            env, learner, loop, carry, params, num_updates=stage.loop.num_updates
        )
        weights = jax.tree.map(jnp.copy, learner.policy_params(carry.learner_state))
        moments = jax.tree.map(jnp.copy, carry.learner_state.optimiser)
    env, learner, loop, params = last.env, last.learner, last.loop, last.params_at(0.0)
    carry = training.init(env, learner, loop, seeds, params, weights)
    if CASES[options.case].moments:
        state, anew = carry.learner_state, jnp.zeros_like(moments.count)
        both = state.optimiser._replace(policy=moments._replace(count=anew))
        carry = carry._replace(learner_state=state._replace(optimiser=both))
    update, here = 0, facts()
    options.runs.mkdir(parents=True, exist_ok=True)
    metrics: list[dict[str, Any]] = []
    while True:
        if update % options.every == 0:
            leaves = jax.device_get(jax.tree.leaves(learner.policy_params(carry.learner_state)))
            steps = np.asarray(carry.learner_state.gradient_steps)
            with policy_file(options.runs, update).open("wb") as stream:
                np.savez(stream, *leaves, steps=steps)
            run = {
                "case": options.case,
                "preset": PRESET,
                "settings": CASES[options.case].settings,
                "moments": CASES[options.case].moments,
                "variants": list(last.variants),
                "seeds": options.seeds,
                "first_seed": first_seed,
                "updates": update,
                "gradient_steps": steps.tolist(),
                "metrics": metrics,
                "wall_s": round(time.monotonic() - began, 1),
                "processor_s": round(time.process_time(), 1),
                "device": here["device"]["kind"],
                "cpu_cores": here["cpu_cores"],
                "versions": {**here["code"], **here["versions"]},
                "date": time.strftime("%Y-%m-%d"),
            }
            write_whole(options.runs / FACTS, json.dumps(run).encode())
            print(f"update {update}, steps {steps.mean():.0f}", file=sys.stderr, flush=True)
        if update >= options.updates or time.monotonic() - began > options.seconds:
            return
        carry, found = training.chunk(env, learner, loop, carry, params, num_updates=CHUNK)
        update += CHUNK
        means = {name: np.asarray(value).mean(1).tolist() for name, value in found.items()}
        metrics.append({"update": update, **means})


def policy_file(folder: Path, update: int) -> Path:
    """Where the policies after so many updates are."""
    return folder / f"policies_{update}.npz"


def structure_of(system: Any, setup: Any, tables: dict[str, Any]) -> Any:
    """How a policy's leaves make its parameters."""
    import jax

    env = setup.play_env
    shapes = functions.weights_spec(system, env, setup.network, env.params(tables["five"]))
    return jax.tree.structure(shapes)


def read_policies(folder: Path, update: int, tree: Any) -> tuple[Any, list[int]]:
    """The policies of all seeds after so many updates, and their gradient steps."""
    import jax

    with np.load(policy_file(folder, update)) as found:
        leaves = [found[name] for name in found.files if name != "steps"]
        return jax.tree.unflatten(tree, leaves), found["steps"].tolist()


def judged(options: argparse.Namespace) -> dict[str, Any]:
    """What the trained policies come to, with the facts of their training."""
    from jaxsched.runtime import prepare_cpu

    prepare_cpu(KERNEL_BYTES)  # before JAX looks for devices
    import jax
    import jax.numpy as jnp

    system, recipe, tables = recipe_of(options)
    run = read_json(options.runs / FACTS)
    run["metrics"] = [one for one in run["metrics"] if one["update"] % options.validate == 0]
    last = stages_of(system, recipe, tables["train"])[-1]
    env, seeds = last.play_env, run["seeds"]
    tree = structure_of(system, last, tables)
    five = judge_of(system, last, tables["five"])
    validation = judge_of(system, last, tables["validation"])
    points: dict[str, list[Any]] = {"five": [], "validation": []}
    for update in range(0, run["updates"] + 1, options.every):
        weights, steps = read_policies(options.runs, update, tree)
        for kind, play, every, metric in (
            ("five", five, options.every, COARSE),
            ("validation", validation, options.validate, FINE),
        ):
            if update % every:
                continue
            file = options.runs / f"{kind}_{update}.json"
            if not file.exists():  # what is played once is kept
                write_json(file, play(weights, update)[metric].tolist())
            found = read_json(file)
            points[kind].append({"update": update, "steps": steps, metric: found})
            means = np.mean(found, 1)
            print(kind, update, f"{means.mean():.2f}", means.round(2), file=sys.stderr, flush=True)
    scores = np.array([np.mean(point[FINE], 1) for point in points["validation"]])
    chosen = [points["validation"][best]["update"] for best in scores.argmin(0)]
    each = [
        jax.tree.map(lambda x, s=seed: x[s], read_policies(options.runs, update, tree)[0])
        for seed, update in enumerate(chosen)
    ]
    best = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
    # A draw of its own, which no choice has seen.
    draw = run["updates"] + 1
    tested = {"five": five(best, draw)}
    tested["fresh"] = judge_of(system, last, tables["fresh"])(best, draw)
    names = [name for name in functions.usual_policies(system, env) if name.endswith("_artefact")]
    known = {
        kind: {name: rule(system, env, name, tables[kind]) for name in names} for kind in tested
    }
    return {
        "what": "DL2's published learner in its published simulator",
        **run,
        "num_seeds": seeds,
        "points": points,
        "chosen": chosen,
        "tested": {
            kind: {metric: values.tolist() for metric, values in found.items()}
            for kind, found in tested.items()
        },
        "rules": known,
        "fresh": {"seed": FRESH_SEED, "number": options.fresh},
    }


def rule(system: Any, env: Any, name: str, tables: Sequence[Any]) -> dict[str, list[float]]:
    """What a rule comes to on each sequence."""
    found = functions.heuristic(system, name, env, 60, {})
    metrics = functions.play(system, found.env, found.policy, env.params(tables)).metrics
    return {metric: np.asarray(metrics[metric]).tolist() for metric in (COARSE, FINE)}


def judge_of(
    system: Any, setup: Any, tables: Sequence[Any]
) -> Callable[[Any, int], dict[str, Any]]:
    """A function of the seeds' weights and a number to draw by: metrics ``[seeds, sequences]``."""
    import jax
    import jax.numpy as jnp

    from jaxsched.core.evaluation import run_episodes

    env = setup.play_env
    params, recorder = env.params(tables), system.log.recorder(env)
    episodes, bound = jnp.arange(len(tables), dtype=jnp.int32), env.max_steps(params)

    @jax.jit
    def plays(weights: Any, keys: Any, params: Any) -> Any:
        return jax.vmap(
            lambda own, key: run_episodes(
                env, setup.policy, recorder, params, episodes, key, own, max_steps=bound
            )
        )(weights, keys)

    def judge(weights: Any, draw: int) -> dict[str, Any]:
        num = jax.tree.leaves(weights)[0].shape[0]
        keys = jax.vmap(jax.random.fold_in, (0, None))(
            jax.vmap(jax.random.key)(jnp.arange(num)), draw
        )
        outcome = jax.device_get(plays(weights, keys, params))
        if not outcome.finished.all():
            raise JaxschedError("a sequence did not end within the environment's step bound")
        rows = [jax.tree.map(lambda x, s=seed: x[s], outcome.records) for seed in range(num)]
        found = [system.log.metrics(env, params, np.asarray(episodes), row) for row in rows]
        return {
            metric: np.array([each[metric] for each in found], np.float64)
            for metric in (COARSE, FINE)
        }

    return judge


def markdown(result: dict[str, Any]) -> str:
    """The result in tables: both ways of judging, and how the seeds learnt."""
    saved = float(np.mean(SAVED[STEP]))
    five = np.array([np.mean(point[COARSE], 1) for point in result["points"]["five"]])
    tested = {kind: np.mean(found[COARSE], 1) for kind, found in result["tested"].items()}
    drf = {kind: float(np.mean(found[DRF][COARSE])) for kind, found in result["rules"].items()}
    steps = np.mean(result["gradient_steps"])
    versions = result["versions"]
    rows = [
        (STEP, f"{saved:.2f}", "", against(saved, drf["five"]), ""),
        ("here, step chosen on validation sequences", *seeds_of(tested["five"], drf["five"])),
        ("here, lowest of all evaluations on the five", *seeds_of(five.min(0), drf["five"])),
        ("here, after imitation", *seeds_of(five[0], drf["five"])),
        ("here, at the end", *seeds_of(five[-1], drf["five"])),
    ]
    head = ("policy", "mean of the seeds", "deviation; each seed", "against DRF", "against saved")
    five_table = table(head, [(*row[:4], row[4] and against(float(row[4]), saved)) for row in rows])
    fresh = [
        (f"here, chosen as above, {result['fresh']['number']} sequences", *cells)
        for cells in [seeds_of(tested["fresh"], drf["fresh"])]
    ]
    scores = [np.mean(point[FINE], 1) for point in result["points"]["validation"]]
    curve = [
        (f"{point['update']:,}", f"{np.mean(point['steps']):,.0f}", *seeds_of(score)[:2])
        for point, score in zip(result["points"]["validation"], scores, strict=True)
    ]
    return "\n\n".join(
        [
            f"Published learner, {result['num_seeds']} seeds, {steps:,.0f} gradient steps of each, "
            f"{result['date']}, {result['cpu_cores']} CPU cores, jaxsched {versions['jaxsched']}, "
            f"jax {versions['jax']}. Five published sequences, whole slots (DRF "
            f"{drf['five']:.2f}):",
            five_table,
            f"Fresh sequences, whole slots (DRF {drf['fresh']:.2f}):",
            table(head[:4], [row[:4] for row in fresh]),
            "Validation sequences while it learns, JCT in slots, drawn actions:",
            table(
                ("rollouts", "gradient steps", "mean of the seeds", "deviation; each seed"), curve
            ),
        ]
    )


def of_cases(results: dict[tuple[str, int], dict[str, Any]]) -> str:
    """What each of the published learner's ways does; JCT on the five, mean of the seeds."""
    saved, rows = float(np.mean(SAVED[STEP])), []
    for (case, first), result in results.items():
        five = np.array([np.mean(point[COARSE], 1) for point in result["points"]["five"]])
        tested = {kind: np.mean(found[COARSE], 1) for kind, found in result["tested"].items()}
        values = (tested["five"], five.min(0), five[-1], tested["fresh"])
        cells = [f"{each.mean():.2f} ({np.std(each, ddof=1):.2f})" for each in values]
        change = against(float(tested["five"].mean()), saved)
        least = against(float(five.min(0).mean()), saved)
        words = f"{CASES[case].words}{f'; further seeds, from {first} on' if first else ''}"
        rows.append((words, *cells[:2], change, least, *cells[2:]))
    head = (
        "of the published learner's ways",
        "chosen on validation",
        "lowest of all",
        "chosen, against saved",
        "lowest, against saved",
        "at the end",
        "fresh, chosen",
    )
    return "\n\n".join(
        [
            "With which of its ways, JCT in whole slots, mean of ten seeds (deviation):",
            table(head, rows),
        ]
    )


def seeds_of(values: Any, base: float | None = None) -> tuple[str, ...]:
    """Mean, deviation and each value of the seeds; the mean against a base; the mean again."""
    own = ", ".join(f"{value:.2f}" for value in values)
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    change = "" if base is None else against(float(np.mean(values)), base)
    return f"{np.mean(values):.2f}", f"{deviation:.2f}; {own}", change, f"{np.mean(values):.4f}"


def against(value: float, base: float) -> str:
    """How much more than a base."""
    return f"{100 * (value / base - 1):+.1f} %"


if __name__ == "__main__":
    sys.exit(exit_status(main))
