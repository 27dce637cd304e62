"""The speed model's tables, as the papers' figures and the calibration imply them."""

import numpy as np
import pytest

from jaxsched.elastic.models import CHIC_COEFFICIENTS, DL2_COEFFICIENTS, NAMES
from jaxsched.elastic.speed import measured_table, seconds, speed_table

# tau(1, 1), tau(4, 4), fastest (w, p), its tau, peak of p = w, speed-up, tau(16, 16) / best,
# tau at PS:worker 4:8, 6:6, 8:4.
DL2 = {
    "ResNet50": (190, 61.05, (8, 3), 44.3, 8, 3.75, 1.46, 45.1, 52.0, 66.7),
    "VGG16": (177, 61.5, (5, 5), 58.3, 5, 3.03, 1.62, 82.9, 60.4, 68.7),
    "ResNeXt110": (170, 63.0, (6, 3), 54.4, 6, 2.89, 1.64, 59.7, 58.7, 69.0),
    "InceptionBN": (200, 62.8, (8, 5), 46.2, 8, 3.97, 1.39, 48.5, 52.5, 68.3),
    "Seq2Seq": (186, 63.8, (7, 3), 47.5, 7, 3.26, 1.69, 48.5, 57.2, 73.4),
    "CTC": (144, 66.5, (4, 1), 60.5, 4, 2.17, 1.99, 68.2, 68.7, 74.5),
    "DSSM": (181, 68.5, (8, 1), 53.2, 6, 2.81, 1.81, 59.2, 64.3, 76.5),
    "WLM": (149, 59.0, (5, 5), 57.0, 5, 2.61, 1.84, 79.8, 59.8, 65.0),
}


def tolerance(printed):
    """Half a unit of the printed number's last digit."""
    return 0.51 if printed > 100 else 0.051 if printed > 10 else 0.0051


@pytest.mark.parametrize("model", range(8), ids=NAMES)
def test_dl2_coefficients_imply_the_published_shapes(model):
    tau = speed_table(DL2_COEFFICIENTS, 16, 16, overlap=1.0)[model]
    one, four, fastest, best, peak, speedup, over, wide, even, narrow = DL2[NAMES[model]]
    assert np.unravel_index(np.argmin(tau), tau.shape) == fastest
    equal = np.diagonal(tau)
    assert np.argmin(equal) == peak
    values = (tau[1, 1], tau[4, 4], tau.min(), equal[1] / equal.min(), equal[16] / tau.min())
    for value, expected in zip(values, (one, four, best, speedup, over), strict=True):
        assert value == pytest.approx(expected, abs=tolerance(expected))
    splits = tau[8, 4], tau[6, 6], tau[4, 8]
    assert splits == pytest.approx((wide, even, narrow), abs=0.051)


def test_chic_coefficients():
    tau = speed_table(CHIC_COEFFICIENTS, 16, 16)
    assert tau[:, 1, 1] == pytest.approx([26.82, 37.76, 19.86], abs=0.005)
    assert tau[:, 3, 3] == pytest.approx([12.73, 20.08, 10.35], abs=0.005)
    fastest = [np.unravel_index(np.argmin(t), t.shape) for t in tau]
    assert fastest == [(7, 5), (5, 3), (5, 2)]
    assert tau.min(axis=(1, 2)) == pytest.approx([10.51, 18.67, 9.20], abs=0.005)
    equal = np.diagonal(tau, axis1=1, axis2=2)
    assert np.argmin(equal, axis=1).tolist() == [6, 4, 4]
    assert equal[:, 1] / equal.min(axis=1) == pytest.approx([2.49, 1.98, 2.02], abs=0.0051)


def test_without_overlap_it_is_the_additive_form():
    a, b, k, d, f = DL2_COEFFICIENTS[1]
    assert seconds(DL2_COEFFICIENTS[1], 5, 2) == pytest.approx(
        a / 5 + b + k * 5 / 2 + d * 5 + f * 2
    )


def test_a_job_without_worker_or_server_makes_no_progress():
    tau = speed_table(DL2_COEFFICIENTS, 3, 2, overlap=1.0)
    assert tau.shape == (8, 4, 3)
    assert np.isinf(tau[:, 0]).all() and np.isinf(tau[:, :, 0]).all()
    assert np.isfinite(tau[:, 1:, 1:]).all()


def test_all_reduce_ignores_servers():
    tau = speed_table(DL2_COEFFICIENTS, 4, 2, overlap=0.0, comm="allreduce")
    a, b, k, d, _ = DL2_COEFFICIENTS[0]
    assert tau[0, 4] == pytest.approx([a / 4 + 2 * k * 3 / 4 + b + 4 * d] * 3)
    assert np.isinf(tau[:, 0]).all()


def test_measured_speeds_are_scaled_to_a_minute_at_four_and_four():
    tau = measured_table(18, 18)
    assert tau[:, 4, 4] == pytest.approx(60.0)
    assert (tau[:, 17, 18] == tau[:, 16, 16]).all()
    fastest = [np.unravel_index(np.argmin(t[:17, :17]), (17, 17)) for t in tau]
    assert fastest == [(2, 15), (1, 14), (1, 5), (5, 16), (3, 11), (5, 5), (5, 7), (1, 5)]
    assert (measured_table(16, 16, comm="allreduce")[:, 7, 0] == tau[:, 7, 7]).all()
