"""DL2's published simulator: train in it, and judge what was learnt beside its saved numbers.

    python -m benchmarks.dl2_artefact [--seeds 5] [--fresh 100] [--runs runs/dl2_artefact]
        [--presets artefact-text,artefact-search] [--set path=value ...] [--results DIR]
        [--page FILE] [--written]

Trains each preset where its run is not finished, then plays all seeds on the five sequences that
were published and come with the package, and on fresh ones of the same generator that nothing else
is drawn from. Both comparisons go into the folder of results, ``dl2_artefact_NAME.json`` and
``dl2_artefact_fresh_NAME.json`` with the device's name, and the tables are printed; with ``--page``
they also replace what stands between the marks of that page. ``--written`` prints the tables of the
comparisons that are in the folder of results, and trains and plays nothing. The published learner's
own recipe, ``artefact``, is run by `benchmarks.dl2_published`.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status, read_json
from benchmarks.trained import outcome_of
from jaxsched.errors import JaxschedError
from jaxsched.files import write_json, write_whole
from jaxsched.systems import functions, presets

PRESETS = ("artefact-text", "artefact-search")
FRESH_SEED = 20_221  # training, test and validation have 0, 1 and 2
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
RULES = ("probe_actions", "optimus_artefact", "drf_artefact")
MANY = 20  # sequences from which on intervals are worth printing
METRICS = ("avg_jct_coarse", "avg_jct_slots", "makespan_coarse")
RESULTS = Path(__file__).parent / "results"
SAVED = {
    "DL2, saved at step 400": (6.583, 4.733, 4.933, 4.833, 6.767),
    "DL2, saved at step 500": (6.867, 4.850, 4.383, 4.667, 7.117),
}
"""Completion times in whole slots of the published policies on the five sequences."""


def main() -> None:
    """Train, play, write and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--fresh", type=int, default=100)
    parser.add_argument("--runs", type=Path, default=Path("runs/dl2_artefact"))
    parser.add_argument("--presets", default=",".join(PRESETS), help="between commas")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="path=value")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--written", action="store_true", help="print what is there")
    options = parser.parse_args()
    if options.seeds < 1 or options.fresh < 1:
        raise JaxschedError("--seeds and --fresh must be at least 1")
    text = options.page.read_text(encoding="utf-8") if options.page else f"{BEGIN}{END}"
    if BEGIN not in text or END not in text:
        raise JaxschedError(f"{options.page}: has no marks {BEGIN} and {END}")
    if options.written:
        found = {name: read_json(file) for name, file in files(options.results).items()}
    else:
        found = judged(trained(options), options.fresh)
        for name, file in files(options.results).items():
            write_json(file, found[name])
    tables = "\n\n".join(markdown(result) for result in found.values())
    print(tables)
    if options.page:
        head, rest = text.split(BEGIN)
        page = f"{head}{BEGIN}\n\n{tables}\n\n{END}{rest.split(END)[1]}"
        write_whole(options.page, page.encode())


def trained(options: argparse.Namespace) -> dict[str, Path]:
    """The folders of finished runs by preset.

    Raises:
      JaxschedError: a setting is not ``path=value``.
    """
    settings = {}
    for word in options.settings:
        path, sign, value = word.partition("=")
        if not sign:
            raise JaxschedError(f"--set {word}: expected path=value")
        settings[path] = value
    folders = {preset: options.runs / preset for preset in options.presets.split(",")}
    for preset, folder in folders.items():
        outcome_of(folder, "dl2", preset=preset, num_seeds=options.seeds, set=settings)
    return folders


def judged(folders: dict[str, Path], fresh: int) -> dict[str, dict[str, Any]]:
    """Comparisons on the published sequences and on fresh ones."""
    from jaxsched import traces
    from jaxsched.jobs import digest_tables
    from jaxsched.provenance import facts
    from jaxsched.results import comparison
    from jaxsched.runs import saved_policies
    from jaxsched.systems import registry

    system = registry.get("dl2")
    env = presets.preset(system, PRESETS[0]).env
    learned = [saved_policies.load(path, system, name)[0] for name, path in folders.items()]
    drawn = traces.get("dl2-artefact", seed=FRESH_SEED, num_traces=fresh)
    sets = {
        "published": (traces.get("dl2-artefact-published"), "five published sequences"),
        "fresh": (drawn, f"{fresh} fresh sequences, seed {FRESH_SEED}"),
    }
    here = facts()
    found = {}
    for name, (tables, words) in sets.items():
        contest = comparison.Contest(
            system,
            tables,
            words,
            facts={
                **functions.facts(system, env, {}),
                "test traces": words,
                "their digest": digest_tables(tables)[:12],
                "versions": f"jaxsched {here['code']['jaxsched']}, jax {here['versions']['jax']}",
                "device": f"{here['device']['kind']}, {here['cpu_cores']} CPU cores",
            },
            command="python -m benchmarks.dl2_artefact",
        )
        names = functions.usual_policies(system, env)
        found[name] = comparison.compare(contest, names, learned, environment=env)
    return found


def files(folder: Path) -> dict[str, Path]:
    """Where both comparisons go; they are named by the device."""
    import jax

    device = jax.devices()[0]
    kind = f"cpu{cores()}" if device.platform == "cpu" else device.device_kind.lower().split()[-1]
    middles = {"published": "", "fresh": "_fresh"}
    return {name: folder / f"dl2_artefact{middle}_{kind}.json" for name, middle in middles.items()}


def cores() -> int:
    """CPU cores that this process may use."""
    import os

    return len(os.sched_getaffinity(0))


def markdown(result: dict[str, Any]) -> str:
    """A comparison as a table: means, and how the seeds differ."""
    heads = [result["metrics"][metric]["label"] for metric in METRICS]
    lines = [
        f"{result['episodes']['source'].capitalize()}; of learned policies the mean over seeds, in "
        "brackets the best and the worst seed:",
        "",
        f"| policy | {' | '.join(heads)} | against DRF |",
        f"|---|{'---|' * (len(heads) + 1)}",
    ]
    values = {entry["name"]: entry["metrics"] for entry in result["policies"]}
    drf = float(np.mean(values["drf_artefact"][METRICS[0]]))
    rows = {name: [seeds_of(own[metric]) for metric in METRICS] for name, own in values.items()}
    if result["episodes"]["count"] == len(SAVED["DL2, saved at step 400"]):
        rows |= {name: [np.array([np.mean(saved)])] for name, saved in SAVED.items()}
    for name, row in sorted(rows.items(), key=lambda item: float(np.mean(item[1][0]))):
        cells = [words(column) for column in row] + [""] * (len(heads) - len(row))
        change = 100 * (float(np.mean(row[0])) / drf - 1)
        lines.append(f"| {name} | {' | '.join(cells)} | {change:+.1f} % |")
    return "\n".join([*lines, *against(result, values)])


def against(result: dict[str, Any], values: dict[str, Any]) -> list[str]:
    """Ratios of learned policies to rules, episode by episode, where there are many episodes."""
    from jaxsched.results.statistics import ratio_interval

    if result["episodes"]["count"] < MANY:
        return []
    heads = " | ".join(result["metrics"][metric]["label"] for metric in METRICS)
    lines = ["", "Ratios of means with 95 % intervals over seeds and sequences:", ""]
    lines += [f"| policy | over | {heads} |", f"|---|---|{'---|' * len(METRICS)}"]
    for entry in result["policies"]:
        if entry["kind"] != "learned":
            continue
        for rule in RULES:
            ratios = [
                ratio_interval(entry["metrics"][metric], values[rule][metric]) for metric in METRICS
            ]
            cells = (f"{each.estimate:.3f} [{each.low:.3f}, {each.high:.3f}]" for each in ratios)
            lines.append(f"| {entry['name']} | {rule} | {' | '.join(cells)} |")
    return lines


def seeds_of(values: Sequence[Any]) -> Any:
    """Mean over the episodes of each seed, one of them for rules."""
    return np.atleast_2d(np.asarray(values, np.float64)).mean(axis=1)


def words(values: Any) -> str:
    """A mean over seeds, and their range if there are several."""
    text = f"{values.mean():.2f}"
    return text if len(values) < 2 else f"{text} ({values.min():.2f} to {values.max():.2f})"


if __name__ == "__main__":
    sys.exit(exit_status(main))
