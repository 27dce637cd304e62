"""Trained DAS policies against every heuristic, episode by episode.

    python -m benchmarks.das_ratios RUN [RUN ...] [--as-seeds] [--more 0] [--no-fit skip]
        [--json FILE]

Each RUN is a run directory of ``jaxsched train das``, whose cluster decides the environment. The
episodes are those of row T1 of ``papers/das.py``: the four shipped test episodes, eight fresh ones
and so many more of the seed that the row alone plays otherwise (52 there): who chooses between runs
by them must give the row another seed. ``untrained`` is the same network with fresh weights of each
seed. With ``--as-seeds`` runs of one recipe are judged together, as seeds. ``--no-fit`` is what a
decision does with a job that does not fit, for policies and rules alike. Ratios are geometric means
of the ratios per episode, with 95 % bootstrap intervals over seeds and episodes (section 12.1).
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.scripts import exit_status, untrained
from jaxsched.errors import JaxschedError
from jaxsched.systems import functions

REFERENCES = ("linear", "random")
METRICS = {"JCT (min)": "avg_jct_min", "fee ($)": "avg_fee"}


def main() -> None:
    """Print one table per run, write everything as JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--as-seeds", action="store_true")
    parser.add_argument("--no-fit", choices=("skip", "block"), help="as the run has it if absent")
    parser.add_argument("--more", type=int, default=0, help="episodes beyond the first twelve")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.more < 0:
        parser.error("--more must be 0 or more")
    groups = [arguments.runs] if arguments.as_seeds else [[run] for run in arguments.runs]
    results = [compare(runs, arguments.more, arguments.no_fit) for runs in groups]
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def compare(runs: list[Path], more: int, no_fit: str | None) -> dict[str, Any]:
    """All policies on one cluster; the runs are seeds of one recipe."""
    import jax

    from benchmarks.papers.das.common import NUM_FRESH, geometric_ratio, more_tables
    from benchmarks.papers.samples import mean_of, sample_of
    from benchmarks.papers.settings import ROLE_SEEDS
    from jaxsched import traces
    from jaxsched.envs.das.show.paper import BASE, HEURISTICS
    from jaxsched.jobs import digest_tables
    from jaxsched.provenance import facts
    from jaxsched.runs import saved_policies
    from jaxsched.systems import registry

    system = registry.get("das")
    loaded = [saved_policies.load(run, system) for run in runs]
    learned, saved = loaded[0][0], [entry for _, entries in loaded for entry in entries]
    recipes = {(one.env, one.network, one.play) for one, _ in loaded}
    if len(recipes) > 1:
        raise JaxschedError(f"{', '.join(map(str, runs))}: not seeds of one recipe")
    env: Any = learned.env
    env = env if no_fit is None else replace(env, on_no_fit=no_fit)
    tables = traces.get("das-test")
    tables += traces.get("das-normal", seed=ROLE_SEEDS["test"], num_traces=NUM_FRESH)
    tables += more_tables(more) if more else []
    params = env.params(tables)
    policy = functions.network_policy(system, env, learned.network, "learned", learned.play)
    samples = {
        "learned": sample_of(
            [
                functions.play(system, env, policy, params, weights)
                for one, _ in loaded
                for weights in one.weights
            ]
        )
    }
    keys = [jax.random.key(entry.meta["seed"]) for entry in saved]
    samples["untrained"] = sample_of(
        [
            functions.play(system, env, policy, params, weights)
            for weights in untrained(system, env, learned.network, params, keys)
        ]
    )
    for name in (*HEURISTICS, *REFERENCES):
        rule = functions.heuristic(system, name, env, len(tables[0]), {})
        samples[name] = sample_of([functions.play(system, rule.env, rule.policy, params)])
    best = min(HEURISTICS, key=lambda name: samples[name]["avg_jct_min"].mean())
    names = " ".join(run.name for run in runs)
    print(f"\n{names}: {env.num_servers} machines, {len(saved)} seeds, {len(tables)} episodes")
    print(
        f"{'policy':18}{'JCT':>9}{'JCT of 4':>10}{'fee':>8}  ratios to fifo_loadbalance: JCT, fee"
    )
    rows = {}
    for name, sample in samples.items():
        means = {label: mean_of(sample, metric).estimate for label, metric in METRICS.items()}
        ratios = {
            label: geometric_ratio(sample, samples[BASE], metric)
            for label, metric in METRICS.items()
        }
        shipped = float(sample["avg_jct_min"][:, :4].mean())
        texts = [f"{r.estimate:.4f} [{r.low:.4f}, {r.high:.4f}]" for r in ratios.values()]
        values = list(means.values())
        print(f"{name:18}{values[0]:9.1f}{shipped:10.1f}{values[1]:8.3f}  {'  '.join(texts)}")
        rows[name] = {
            "means": means,
            "mean_jct_of_shipped": shipped,
            "ratios": {
                label: [ratio.estimate, ratio.low, ratio.high] for label, ratio in ratios.items()
            },
            "per_seed_jct": sample["avg_jct_min"].mean(axis=1).tolist(),
            "per_seed_fee": sample["avg_fee"].mean(axis=1).tolist(),
        }
    print(f"best heuristic by mean JCT: {best}")
    return {
        "run": names,
        "num_servers": env.num_servers,
        "network": learned.network,
        "seeds": [entry.meta["seed"] for entry in saved],
        "variants": saved[0].meta.get("variants"),
        "episodes": len(tables),
        "digest": digest_tables(tables),
        "best_heuristic": best,
        "policies": rows,
        "on_no_fit": env.on_no_fit,
        "command": f"python -m benchmarks.das_ratios {names}{' --as-seeds' * (len(runs) > 1)}"
        f" --more {more}{f' --no-fit {no_fit}' if no_fit else ''}",
        "facts": {name: fact for name, fact in facts().items() if name != "command"},
    }


if __name__ == "__main__":
    sys.exit(exit_status(main))
