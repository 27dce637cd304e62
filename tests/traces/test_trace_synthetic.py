from dataclasses import replace

import numpy as np
import pytest

from jaxsched.envs.sched2.jobs import SCHED2_WORKLOAD
from jaxsched.errors import JaxschedError
from jaxsched.jobs import digest_tables, rescale_arrivals, validate
from jaxsched.jobs.draws import generator, pick
from jaxsched.traces import describe_tables, generate

FIRST_JOBS = {
    "submit_time": [0, 11, 166, 214],
    "num_gpus": [1, 1, 1, 2],
    "duration": [1890, 1830, 11740, 3380],
    "model": [5, 0, 5, 5],
}


def test_first_jobs_of_seed_0():
    (jobs,) = generate(0, config=replace(SCHED2_WORKLOAD, num_jobs=4))
    assert jobs.name == "synthetic[0]"
    assert {key: values.tolist() for key, values in jobs.columns.items()} == FIRST_JOBS


def test_ten_thousand_jobs_have_the_paper_figures():
    """SCHED2 Fig. 3: p1 0.68 +- 0.02, mean run time 5000-5600 s, gap variation > 2."""
    statistics = describe_tables(generate(7, config=replace(SCHED2_WORKLOAD, num_jobs=10_000)))
    assert statistics["one_gpu_share"] == pytest.approx(0.68, abs=0.02)
    assert 5000 < statistics["duration_s"]["mean"] < 5600
    assert statistics["duration_s"]["min"] >= 180
    assert statistics["duration_s"]["max"] <= 36000
    demand, jobs = statistics["demand"], statistics["jobs"]
    for gpus, weight in {"2": 6, "4": 10, "8": 12, "16": 4}.items():
        assert demand[gpus] / jobs == pytest.approx(0.32 * weight / 32, abs=0.012)
    for model, share in {"0": 0.025, "3": 0.025, "4": 0.3, "5": 0.6}.items():
        assert statistics["model_shares"][model] == pytest.approx(share, abs=0.015)


def test_thirty_traces_have_the_paper_figures():
    statistics = describe_tables(generate(7, 30, config=SCHED2_WORKLOAD), num_gpus=120)
    assert statistics["gap_s"]["cv"] > 2
    assert statistics["gap_s"]["mean"] == pytest.approx(172, rel=0.1)
    assert statistics["load"] == pytest.approx(0.72, abs=0.06)


def test_traces_are_valid_and_follow_from_seed_and_number():
    tables = generate(3, 3, config=replace(SCHED2_WORKLOAD, num_jobs=50))
    for jobs in tables:
        validate(jobs, max_gpus=120, num_models=6)
        assert not np.any(jobs["duration"] % 10)
    assert len({jobs.digest() for jobs in tables}) == 3
    again = generate(3, 2, config=replace(SCHED2_WORKLOAD, num_jobs=50))
    assert digest_tables(again) == digest_tables(tables[:2])
    assert digest_tables(
        generate(4, 2, config=replace(SCHED2_WORKLOAD, num_jobs=50))
    ) != digest_tables(again)


def test_variants_share_their_random_numbers():
    (base,) = generate(1, config=SCHED2_WORKLOAD)
    (scaled,) = generate(1, config=replace(SCHED2_WORKLOAD, interval_scale=1.25))
    assert scaled.digest() == rescale_arrivals(base, 1.25).digest()
    (rarer,) = generate(1, config=replace(SCHED2_WORKLOAD, one_gpu_share=0.60))
    for column in ("submit_time", "duration", "model"):
        np.testing.assert_array_equal(rarer[column], base[column])
    assert np.all(rarer["num_gpus"] >= base["num_gpus"])


def test_day_and_night():
    config = replace(SCHED2_WORKLOAD, num_jobs=20_000, gap_sigma=0.5, diurnal_amplitude=0.8)
    (jobs,) = generate(0, config=config)
    phase = jobs["submit_time"] % 86400
    assert np.all(np.diff(jobs["submit_time"]) >= 0)
    # Integrals of 1 + 0.8 sin over the halves of a period: 0.5 +- 0.8 / pi.
    assert np.mean(phase < 43200) == pytest.approx(0.5 + 0.8 / np.pi, abs=0.02)
    assert np.mean(np.diff(jobs["submit_time"])) == pytest.approx(172, rel=0.03)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_jobs": 0},
        {"mean_gap_s": 0.0},
        {"gap_sigma": float("nan")},
        {"interval_scale": -1.0},
        {"one_gpu_share": 1.5},
        {"multi_gpu_weights": (1.0,)},
        {"duration_min_s": 50_000.0},
        {"duration_step_s": 0},
        {"diurnal_amplitude": 1.0},
    ],
)
def test_unusable_settings_are_refused(changes):
    (name,) = changes
    with pytest.raises(JaxschedError, match=f"{name} is .*; accepted: "):
        replace(SCHED2_WORKLOAD, **changes)


def test_unusable_arguments_are_refused():
    for seed in (-1, 1.5, "x", True):
        with pytest.raises(JaxschedError, match="seed is"):
            generate(seed, config=SCHED2_WORKLOAD)
    with pytest.raises(JaxschedError, match="num_traces is 0"):
        generate(0, 0, config=SCHED2_WORKLOAD)
    for shares in ((), (0.0, 0.0), (1.0, -1.0), (float("nan"),)):
        with pytest.raises(JaxschedError, match="shares are"):
            pick(np.zeros(1), shares)


def test_pick_follows_the_shares():
    picked = pick(np.array([0.0, 0.24, 0.25, 0.74, 0.75, 0.999]), (1, 2, 1, 0))
    assert picked.tolist() == [0, 0, 1, 1, 2, 2]
    assert generator(5, 1).random() == generator(5, 1).random()
    assert generator(5, 1).random() != generator(5, 2).random()
