"""Learned schedulers of rigid jobs: made on the beginning of traces, judged on their end.

    python -m benchmarks.rigid_learned train --data DIR --out DIR    fits and searches a predictor
    python -m benchmarks.rigid_learned judge --data DIR --out DIR    plays everybody once

The jobs of a workload are split by time: the first 60 % train, the next 20 % choose, and the last
20 % are the test, which ``judge`` alone looks at. Everybody replays a workload from its first job
on, so that all have a history; a part's figures are over the jobs submitted in it.

``train`` writes OUT/predictor.json, and ``judge`` OUT/rigid_learned.json; without the former it
plays what comes with the library.
"""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.scripts import exit_status
from jaxsched.runtime import prepare_cpu

SPLIT = (0.6, 0.8)
REAL = ("openb", "itp-02", "itp-03", "itp-04", "itp-07", "philly-4vc", "philly")
GENERATED = ("helios-venus", "helios-earth", "helios-saturn", "helios-uranus", "philly-like")
GENERATED_JOBS = 12_000
SEARCHED = REAL[:-1]  # Philly takes as long as the others together
KERNEL_BYTES = 4_000_000
BARS = ("las-decades", "2d-gittins", "qssf", "sjf")
PAIRS = (
    *(("learned", bar) for bar in BARS),
    ("learned-300s", "las-decades-300s"),
    ("learned-once", "qssf"),
)
PLAYED = ("learned", "learned-300s", "learned-once", *BARS, "las-decades-300s", "srtf")
RESAMPLES = 10_000


def main() -> int:
    """Train or judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("train", "judge"))
    parser.add_argument("--data", type=Path, required=True, help="folder of public traces")
    parser.add_argument("--out", type=Path, default=Path("runs/rigid_learned"))
    parser.add_argument("--steps", type=int, default=500, help="of the fit")
    parser.add_argument("--candidates", type=int, default=12, help="of the search")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    prepare_cpu(kernel_bytes=KERNEL_BYTES)
    return exit_status(partial({"train": train, "judge": judge}[options.what], options))


def workloads(data: Path, share: float) -> dict[str, Any]:
    """Every workload's first jobs: name -> table, cluster and number of all jobs."""
    from jaxsched.leaderboard import WORKLOADS, prepare

    found = {}
    for workload in WORKLOADS:
        ready = prepare(workload, data, num_jobs=GENERATED_JOBS if workload.is_generated else None)
        count = len(ready.table)
        found[workload.name] = (ready.table.window(0, int(share * count)), ready.cluster, count)
    return {name: found[name] for name in (*REAL, *GENERATED)}


def train(options: argparse.Namespace) -> None:
    """Gather what is known of jobs, fit the network to it, and search its three numbers."""
    from jaxsched.files import write_whole
    from jaxsched.trace_replay.scorers import to_json

    began = time.process_time()
    options.out.mkdir(parents=True, exist_ok=True)
    played = workloads(options.data, SPLIT[1])
    data = {
        name: gathered(name, table, cluster, count, options.out)
        for name, (table, cluster, count) in played.items()
    }
    predictor = fitted(data, tuple(data), options.steps, options.seed)
    losses = {name: round(validation_loss(predictor, *data[name]), 3) for name in data}
    report(f"negative log-likelihood on validation: {losses}")
    predictor, tried = searched(predictor, played, options)
    made = {
        "command": "python -m benchmarks.rigid_learned train",
        "workloads": {name: count for name, (_, _, count) in played.items()},
        "split": SPLIT,
        "fit_steps": options.steps,
        "seed": options.seed,
        "validation_loss": losses,
        "search": tried,
        "cpu_s": round(time.process_time() - began),
    }
    document = {"made": made, "predictor": to_json(predictor)}
    write_whole(options.out / "predictor.json", (json.dumps(document) + "\n").encode())


def report(line: str) -> None:
    """Progress, at once."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def gathered(name: str, table: Any, cluster: Any, count: int, out: Path) -> tuple[Any, Any, int]:
    """Features and bins of run times of a workload's jobs, and how many of them train."""
    import jax
    import numpy as np

    from jaxsched.trace_replay import Policy
    from jaxsched.trace_replay.history import EDGES
    from jaxsched.trace_replay.replays import observed
    from jaxsched.trace_replay.scorers import untrained

    file = out / f"{name}.npz"
    if not file.exists():
        predictor = untrained((), jax.random.key(0))  # the same for all jobs: nearly LAS
        predictor = predictor._replace(
            weights=(0 * predictor.weights[0],), biases=(predictor.biases[0] - 0.5,)
        )
        _, features = observed(table, cluster, Policy("learned"), predictor=predictor)
        np.savez_compressed(file, features=features)
        report(f"{name}: {len(table):,} jobs observed")
    bins = np.searchsorted(EDGES, table["duration"], side="left")
    return np.load(file)["features"].astype(np.float32), bins, int(SPLIT[0] * count)


def loss(predictor: Any, features: Any, bins: Any) -> Any:
    """Negative log-likelihood of the bins in which jobs end, ``[n]``."""
    import jax
    import jax.numpy as jnp

    from jaxsched.trace_replay.scorers import logits

    found = logits(predictor, features)
    number = jnp.arange(found.shape[-1])
    passed = jnp.where(number < bins[:, None], jax.nn.softplus(found), 0)
    ended = jnp.where(number == bins[:, None], jax.nn.softplus(-found), 0)
    return jnp.sum(passed + ended, axis=-1)


def validation_loss(predictor: Any, features: Any, bins: Any, fitted: int) -> float:
    """The mean loss on the jobs that come after those that train."""
    return float(loss(predictor, features[fitted:], bins[fitted:]).mean())


def fitted(data: dict[str, Any], names: tuple[str, ...], steps: int, seed: int) -> Any:
    """A network fitted to the training parts of some workloads, each with the same weight."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax

    from jaxsched.trace_replay.scorers import untrained

    rng = np.random.default_rng(seed)

    def drawn(size: int) -> tuple[Any, Any]:
        rows = {name: rng.integers(0, data[name][2], size // len(names)) for name in names}
        features = np.concatenate([data[name][0][rows[name]] for name in names])
        return features, np.concatenate([data[name][1][rows[name]] for name in names])

    features, _ = drawn(48_000)
    predictor = untrained((48, 24), jax.random.key(seed))
    weights = (*predictor.weights[:-1], predictor.weights[-1] * 0.1)
    mean, scale = features.mean(0), 1 / np.maximum(features.std(0), 1.0)
    predictor = predictor._replace(mean=mean, scale=scale, weights=weights)
    optimiser = optax.adamw(optax.cosine_decay_schedule(2e-3, steps), weight_decay=0.2)
    moved = (predictor.weights, predictor.biases)
    state = optimiser.init(moved)

    @jax.jit
    def update(moved: Any, state: Any, features: Any, bins: Any, key: Any) -> Any:
        kept = jax.random.bernoulli(key, 0.95, features.shape)
        features = jnp.where(kept, features, mean)

        def objective(moved: Any) -> Any:
            changed = predictor._replace(weights=moved[0], biases=moved[1])
            return loss(changed, features, bins).mean()

        changes, state = optimiser.update(jax.grad(objective)(moved), state, moved)
        return optax.apply_updates(moved, changes), state

    for key in jax.random.split(jax.random.key(seed + 1), steps):
        moved, state = update(moved, state, *drawn(1536), key)
    result = predictor._replace(weights=moved[0], biases=moved[1])
    return jax.tree.map(np.asarray, result)


def adjusted(predictor: Any, numbers: Any) -> Any:
    """A predictor with other numbers: power of the size, sharpness, octaves by interval."""
    import numpy as np

    power, sharpness, slope = (np.float32(number) for number in numbers)
    return predictor._replace(
        size_power=power,
        weights=(*predictor.weights[:-1], predictor.weights[-1] * sharpness),
        level_shift=slope * np.arange(len(predictor.level_shift), dtype=np.float32),
    )


def searched(predictor: Any, played: dict[str, Any], options: argparse.Namespace) -> Any:
    """The best of some candidates by an evolution strategy.

    The objective is the mean over workloads, and over training part (less the first sixth, of
    little history) and validation part, of the logarithm of the mean JCT over that of LAS.
    """
    import numpy as np

    from jaxsched.trace_replay import POLICIES, Policy, replay

    def of_part(name: str, policy: Policy, predictor: Any) -> Any:
        table, cluster, count = played[name]
        jct = replay(table, cluster, policy, predictor=predictor).jct
        ends = [int(share * count) for share in (0.1, *SPLIT)]
        parts = [jct[first:last].mean() for first, last in itertools.pairwise(ends)]
        return np.log(np.array(parts))

    bars = {name: of_part(name, POLICIES["las-decades"], None) for name in SEARCHED}
    rng = np.random.default_rng(options.seed)
    mean, std = np.array([0.5, 0.9, 0.03]), np.array([0.25, 0.12, 0.05])
    tried: list[dict[str, Any]] = []
    for k in range(options.candidates):
        numbers = mean if k == 0 else mean + std * rng.standard_normal(3)
        candidate = adjusted(predictor, numbers)
        over = [of_part(name, Policy("learned"), candidate) - bars[name] for name in SEARCHED]
        found = [round(float(number), 3) for number in numbers]
        tried.append({"numbers": found, "log_ratio": round(float(np.mean(over)), 4)})
        report(f"[{k + 1}/{options.candidates}] {tried[-1]} {np.exp(over).T.round(3).tolist()}")
        if k % 4 == 3:
            best = sorted(tried, key=lambda each: each["log_ratio"])[:3]
            mean, std = np.mean([each["numbers"] for each in best], axis=0), 0.8 * std
    chosen = min(tried, key=lambda each: float(each["log_ratio"]))
    return adjusted(predictor, chosen["numbers"]), tried


def judge(options: argparse.Namespace) -> None:
    """Play the test parts: OUT's predictor, or the library's, and the rules beside it."""
    from jaxsched.bench.timing import surroundings
    from jaxsched.files import write_whole
    from jaxsched.trace_replay.scorers import read, shipped

    own, file = options.out / "predictor.json", options.out / "rigid_learned.json"
    predictor = read(own) if own.exists() else shipped()
    options.out.mkdir(parents=True, exist_ok=True)
    played: dict[str, Any] = {}
    document = {**surroundings(), "workloads": played}
    for name, (table, cluster, count) in workloads(options.data, 1.0).items():
        test = slice(int(SPLIT[1] * count), None)
        played[name] = {rule: of_test(rule, table, cluster, test, predictor) for rule in PLAYED}
        report(f"{name}: { ({rule: round(row['avg_jct']) for rule, row in played[name].items()}) }")
    document["compared"] = compared(played)
    write_whole(file, (json.dumps(document, indent=1) + "\n").encode())
    for row in document["compared"]:
        report(
            f"{row['learned']} over {row['rule']}, {row['workloads']} workloads ({row['units']}): "
            f"geometric mean {row['ratio']:.3f}, bootstrap {words(row['bootstrap'])}, t "
            f"{words(row['t'])}, below in {row['below']}, sign test p = {row['sign_p']:.4f}"
        )


def words(interval: Sequence[float]) -> str:
    """An interval in brackets."""
    return f"[{interval[0]:.3f}, {interval[1]:.3f}]"


def of_test(rule: str, table: Any, cluster: Any, test: slice, predictor: Any) -> dict[str, Any]:
    """Figures of one policy over the jobs of the test part, and the time of a second replay."""
    from jaxsched.trace_replay import POLICIES, replay

    policy = POLICIES[rule]
    used = predictor if rule.startswith("learned") else None
    replay(table, cluster, policy, predictor=used)  # compiles
    began = time.process_time()
    records = replay(table, cluster, policy, predictor=used)
    seconds = time.process_time() - began
    group = table["group"][test] if "group" in table.columns else None
    return {**figures(records, test, group), "replay_cpu_s": seconds}


def compared(played: dict[str, Any]) -> list[dict[str, Any]]:
    """Geometric means of the ratios of mean JCTs, with workloads as units.

    Blocks of one trace correlate too much to be units. Two intervals of 95 %: of a bootstrap over
    workloads, and Student's of the logarithms, which one outlier widens on both sides; and the
    one-sided sign test.
    """
    import numpy as np
    from scipy import stats

    rows = []
    for units, names in (("real", REAL), ("all", tuple(played))):
        there = [name for name in names if name in played]
        for learned, rule in PAIRS:
            pairs = [[played[name][who]["avg_jct"] for who in (learned, rule)] for name in there]
            logs = np.log(np.array(pairs)[:, 0] / np.array(pairs)[:, 1])
            draws = np.random.default_rng(0).choice(logs, (RESAMPLES, len(logs))).mean(axis=1)
            half = logs.std(ddof=1) / len(logs) ** 0.5 * stats.t.ppf(0.975, len(logs) - 1)
            below = int(np.sum(logs < 0))
            rows.append(
                {
                    **{"learned": learned, "rule": rule, "units": units, "workloads": len(logs)},
                    "ratio": float(np.exp(logs.mean())),
                    "bootstrap": np.exp(np.percentile(draws, [2.5, 97.5])).tolist(),
                    "t": np.exp([logs.mean() - half, logs.mean() + half]).tolist(),
                    "below": below,
                    "sign_p": float(
                        stats.binomtest(below, len(logs), alternative="greater").pvalue
                    ),
                }
            )
    return rows


def figures(records: Any, part: slice, group: Any) -> dict[str, Any]:
    """Of the jobs submitted in a part: mean JCT, p99 slowdown, worst owner, suspensions."""
    import numpy as np

    jct, duration = records.jct[part], records.duration[part]
    worst = None
    if group is not None:
        worst = max(float(jct[group == owner].mean()) for owner in np.unique(group))
    return {
        "avg_jct": float(jct.mean()),
        "p99_slowdown": float(np.percentile(jct / duration, 99)),
        "worst_group_avg_jct": worst,
        "preemptions": int(records.preemptions[part].sum()),
    }


if __name__ == "__main__":
    sys.exit(main())
