"""A document as the command writes it, made of formulas: many policies and workloads."""

import math

KNOWS = ("nothing", "run times", "estimates", "prediction")


def document(policies=30, workloads=12, loads=(0.6, 0.8, 0.9, 0.95)):
    pieces = {}
    for k in range(workloads):
        for load in loads:
            rows = [_row(p, k, load, draws=5 if k % 3 == 0 else 1) for p in range(policies)]
            pieces[f"workload-{k}@{load:g}"] = _piece(k, load, rows)
    return {
        "settings": {},
        "date": "2030-01-01",
        "device": "cpu",
        "versions": {"jax": "0"},
        "pieces": pieces,
    }


def _piece(k, load, rows):
    return {
        "workload": f"workload-{k}",
        "asked_load": load,
        "load": load * 1.02,
        "busy": load * 0.95,
        "num_jobs": 20_000 + k,
        "num_measured": 16_000,
        "num_draws": (5 if load == 0.9 else 1) if k % 3 == 0 else 1,
        "num_servers": 57,
        "gpus_per_server": 8,
        "digest": "a" * 64,
        "notes": ["<b>shares</b> of a GPU rounded up in 12.5% of the jobs"],
        "waiting": [3.0, 5.0, 8.0, 11.0 + k],
        "stationary": k % 4 != 1,
        "bounds": {"any_s": 9000.0 + k, "non_preemptive_s": 9900.0 + k},
        "reference": "policy-1",
        "seconds": 12.0,
        "standings": rows,
    }


def _row(p, k, load, draws):
    ratio = 1.01 + (p * 0.08 + (k * p % 5) * 0.05) * math.exp(4 * (load - 0.8))
    jct = ratio * (9000 + k)
    spread = None if draws == 1 or load != 0.9 else 0.4  # some reach below the bound
    ends = {"low": None, "high": None} if spread is None else {
        "low": jct * (1 - spread), "high": jct * (1 + spread)}  # fmt: skip
    over = {"low": None, "high": None} if spread is None else {"low": 0.8, "high": 1.3}
    figures = {
        "avg_jct": jct, "median_jct": jct / 9, "p99_jct": 20 * jct, "avg_wait": jct / 3,
        "slowdown_p50": 1.0, "slowdown_p99": 50.0 + p, "preemptions": float(p % 3),
        "makespan": 1e7, "utilization": 0.85,
    }  # fmt: skip
    if k % 2:
        figures["worst_group"] = 3.0 + p
    if k == 2:  # jobs of two priorities
        figures |= {f"{kind}_avg_{name}": jct / 2 for kind in ("high", "spot")
                    for name in ("jct", "wait", "queued")}  # fmt: skip
        figures |= {"high_p99_wait": jct, "eviction_rate": 0.01 * p,
                    "wasted_gpu_s": 7200.0 * p, "wasted_share": 0.1}  # fmt: skip
    return {
        "policy": f"policy-{p}",
        "knows": KNOWS[p % 4],
        "suspends": p % 3 == 0,
        "learned": p % 4 == 3 and p % 2 == 1,
        "figures": figures,
        "avg_jct": {"estimate": jct, "level": 0.95, **ends},
        "over_reference": {"estimate": ratio / 1.1, "level": 0.95, **over},
        "jct_ratio": ratio,
        "own_ratio": ratio * 0.95,
        "seconds": None,
    }
