"""The delay rule against a plain reading of its words, job by job."""

from math import exp, log, log1p

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.envs.sched2.heuristics import (
    PRIORITIES,
    SIZES,
    DelayRule,
    baseline,
    delay_choice,
    delayed_by,
    strict_rule,
    tuned_rule,
)
from jaxsched.envs.sched2.rules.observation import OUTLOOK
from jaxsched.systems import functions, registry

SYSTEM = registry.get("sched2")
G, J = 8, 6


def random_rule(rng):
    return DelayRule(
        rng.normal(0.0, 1.0, (2, 4)).astype(np.float32),
        rng.integers(-1, 3, 2).astype(np.float32) + 0.5,
        rng.normal(0.0, 1.0, len(PRIORITIES)).astype(np.float32),
    )


def random_window(rng):
    """Entries of six positions, the last ones empty."""
    rows = np.zeros((J, len(OUTLOOK)), np.float32)
    for row in rows[: rng.integers(1, J + 1)]:
        gpus, fits = int(rng.choice([1, 2, 3, 4, 8, 9, 16])), rng.random() < 0.8
        level0 = fits and rng.random() < 0.6
        entries = {
            "duration": rng.uniform(0.1, 5.0),
            "wait": rng.uniform(0.0, 10.0),
            "fits": fits,
            "level0": level0,
            "split": fits and not level0,
            "demand": gpus / G,
            "left_over": rng.choice([*range(G + 1 - gpus % G), G]) / G,  # G: no server takes it
            "sensitivity": rng.choice([0.4, 0.5, 0.6, 1.7, 3.0, 4.9]),
            "effectiveness": rng.uniform(0.05, 1.0) * fits,
        }
        row[:] = [entries.get(name, 0.0) for name in OUTLOOK]
    return rows


def read_plainly(rule, rows, empty):
    best, highest = J, -np.inf
    for place, row in enumerate(rows):
        job = dict(zip(OUTLOOK, (float(x) for x in row), strict=True))
        gpus = round(job["demand"] * G)
        if not job["fits"]:
            continue
        size = sum(gpus > most for most in SIZES)
        patience = exp(rule.patience[int(job["sensitivity"] >= 1.0)][size])
        if not job["level0"] and job["wait"] < patience * job["duration"]:
            continue
        opens = gpus < G and round(job["left_over"] * G) == G - gpus
        if opens and empty <= rule.reserve[int(gpus > 1)]:
            continue
        known = job | {
            "duration": log(job["duration"]),
            "wait": log1p(job["wait"] / job["duration"]),
            "age": -place / J,
        }
        score = sum(w * known[name] for w, name in zip(rule.priority, PRIORITIES, strict=True))
        if score > highest:
            best, highest = place, score
    return best


def test_it_does_what_it_says():
    rng, act, seen = np.random.default_rng(0), jax.jit(delay_choice, static_argnums=3), set()
    for _ in range(400):
        rule, rows, empty = random_rule(rng), random_window(rng), int(rng.integers(0, 4))
        found = int(act(rule, jnp.asarray(rows), jnp.int32(empty), G))
        assert found == read_plainly(rule, rows, empty)
        seen.add(found)
    assert seen == set(range(J + 1))


@pytest.fixture(scope="module")
def played():
    """A small cluster under the rules, with numbers as weights and without."""
    env = functions.environment(SYSTEM, num_servers=4, gpus_per_server=4, window=3)
    params = env.params(traces.get("sched2-mixed", seed=1, num_traces=3, num_jobs=53))
    never = strict_rule()._replace(patience=jnp.full((2, 4), 50.0))
    chosen = {
        "strict_sif": (baseline("strict_sif"), ()),
        "never": (delayed_by(), never),
        "tuned": (delayed_by(), jax.tree.map(jnp.asarray, tuned_rule())),
        "delay": (baseline("delay"), ()),
    }
    return {
        name: functions.play(SYSTEM, env, policy, params, weights).metrics
        for name, (policy, weights) in chosen.items()
    }


def test_without_patience_and_reserve_it_is_strict_sif(played):
    for name, values in played["strict_sif"].items():
        np.testing.assert_array_equal(played["never"][name], values, err_msg=name)


def test_what_is_shipped_is_the_tuned_rule(played):
    for name, values in played["tuned"].items():
        np.testing.assert_array_equal(played["delay"][name], values, err_msg=name)
    assert not np.array_equal(played["delay"]["avg_jct"], played["strict_sif"]["avg_jct"])
