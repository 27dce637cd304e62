"""A predictor fitted to the beginnings of workloads, and the search of its three numbers."""

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.rigid_learned.parts import REAL, SPLIT, report, workloads

SEARCHED = REAL[:-1]  # Philly takes as long as the others together


def train(options: argparse.Namespace) -> None:
    """Gather what is known of jobs, fit the network to it, and search its three numbers."""
    from jaxsched.files import write_whole
    from jaxsched.trace_replay.scorers import to_json

    began = time.process_time()
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
