"""Statistics and reproducibility of DL2's generator (specification, section 11)."""

import math

import numpy as np
import pytest

from jaxsched.envs.dl2.jobs import GOOGLE_ARRIVALS, SLOT_S, arrival_shape, dl2_tables
from jaxsched.errors import JaxschedError
from jaxsched.jobs import digest_tables


def column(tables, name):
    return np.concatenate([table[name] for table in tables])


def test_tables_do_not_depend_on_how_many_are_asked_for():
    many = dl2_tables(3, 5, num_jobs=20, variation=0.2, epoch_error=0.1)
    assert digest_tables(many[:2]) == digest_tables(
        dl2_tables(3, 2, num_jobs=20, variation=0.2, epoch_error=0.1)
    )
    assert len({table.digest() for table in many}) == 5
    assert digest_tables(dl2_tables(4, 1)) != digest_tables(dl2_tables(3, 1))


def test_settings_are_paired():
    plain = dl2_tables(1, 1, num_jobs=50)[0]
    noisy = dl2_tables(1, 1, num_jobs=50, variation=0.3, epoch_error=0.2, arrival="uniform")[0]
    np.testing.assert_array_equal(plain["epochs"], noisy["epochs"])
    np.testing.assert_array_equal(plain["model"], noisy["model"])
    np.testing.assert_array_equal(plain["true_epochs"], plain["epochs"])
    assert (plain["speed_factor"] == 1).all()


def test_epochs_and_types():
    tables = dl2_tables(0, 100, num_jobs=100)
    epochs = column(tables, "epochs")
    assert np.median(epochs) == pytest.approx(60, abs=2)
    sigma = math.sqrt(2 * math.log(100 / 60))
    normals = np.random.default_rng(1).standard_normal(10**6)
    clipped = np.clip(np.rint(60 * np.exp(sigma * normals)), 5, 720).mean()
    assert epochs.mean() == pytest.approx(clipped, rel=0.04)
    assert epochs.min() == 5 and epochs.max() == 720
    assert (epochs == np.rint(epochs)).all()
    counts = np.bincount(column(tables, "model"), minlength=8)
    assert (np.abs(counts - 1250) < 5 * math.sqrt(1250)).all()
    four = column(dl2_tables(0, 10, num_types=4), "model")
    assert set(four.tolist()) == {0, 1, 2, 3}


def test_arrivals_start_at_zero_in_slots():
    for arrival in ("trace", "poisson", "uniform", "google"):
        for table in dl2_tables(2, 4, arrival=arrival):
            times = table["submit_time"]
            assert times[0] == 0 and len(table) == 60
            assert (times % SLOT_S == 0).all() and (np.diff(times) >= 0).all()


@pytest.mark.parametrize(("arrival", "mean"), [("poisson", 1.2), ("uniform", 1.0)])
def test_rates(arrival, mean):
    """Uniform draws whole numbers on 0 .. round(2.4) = 2."""
    tables = dl2_tables(0, 60, num_jobs=200, peak=1.2, arrival=arrival)
    slots = sum(table["submit_time"][-1] // SLOT_S + 1 for table in tables)
    assert 60 * 200 / slots == pytest.approx(mean, rel=0.05)


def test_trace_pattern():
    hours = arrival_shape(np.arange(72 * 7))
    assert hours.max() == pytest.approx(1.0)
    assert np.argmax(hours[:72]) == 21  # 15 h, seven hours after the start
    weekend = arrival_shape(np.arange(72) + 5 * 72 - 24)
    np.testing.assert_allclose(weekend, arrival_shape(np.arange(72) - 24) / 2)
    assert hours.min() > 0.125 - 1e-9
    tables = dl2_tables(0, 30, num_jobs=400, peak=20.0)  # so busy that the first slot has jobs
    early = np.mean([(table["submit_time"] < 12 * SLOT_S).sum() for table in tables])
    assert early == pytest.approx(20.0 * arrival_shape(np.arange(12)).sum(), rel=0.05)


def test_google_pattern():
    assert len(GOOGLE_ARRIVALS) == 75 and GOOGLE_ARRIVALS[1] == 134
    counts = np.minimum(1.0, GOOGLE_ARRIVALS / 10)
    for table in dl2_tables(1, 6, num_jobs=100, peak=5.0, arrival="google"):
        per_slot = np.bincount(table["submit_time"] // SLOT_S)
        starts = [
            [round(5.0 * counts[(s + off) % 75]) for s in range(len(per_slot) - 1)]
            for off in range(5)
        ]
        assert per_slot[:-1].tolist() in starts


def test_noise():
    slot = dl2_tables(0, 20, variation=0.3)
    factors = column(slot, "speed_factor")
    assert factors.shape[1] == 64
    assert factors.min() == pytest.approx(0.7, abs=0.01)
    assert factors.max() == pytest.approx(1.3, abs=0.01)
    assert factors.std() == pytest.approx(0.3 / math.sqrt(3), rel=0.02)
    assert column(dl2_tables(0, 2, variation=0.3, variation_level="job"), "speed_factor").shape == (
        120,
        1,
    )
    assert column(dl2_tables(0, 5, variation=2.0), "speed_factor").min() == 0.05
    ratio = column(dl2_tables(0, 20, epoch_error=0.2), "true_epochs")
    ratio = ratio / column(dl2_tables(0, 20), "epochs")
    assert 0.8 <= ratio.min() < 0.81 and 1.19 < ratio.max() <= 1.2


@pytest.mark.parametrize(
    "options",
    [
        {"num_jobs": 0},
        {"peak": 0.0},
        {"peak": 0.2, "arrival": "uniform"},
        {"arrival": "bursts"},
        {"num_types": 9},
        {"variation": -0.1},
        {"variation_level": "day"},
        {"epoch_error": 1.0},
    ],
    ids=str,
)
def test_bad_settings_are_refused(options):
    with pytest.raises(JaxschedError, match="accepted"):
        dl2_tables(0, 1, **options)
