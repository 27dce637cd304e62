"""Measurements of elastic jobs: what is read, interpolated, chosen and refused."""

from pathlib import Path

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay.goodput import Application, Batch, fewest_nodes, read_applications
from tests.trace_replay.elastic_tables import write

RUNS = {8: [(10.0, 1.0, 3.0), (20.0, 0.0, 2.0)], 16: [(9.0, 1.0, 5.0), (30.0, 0.0, 2.0)]}
STEPS = {"1": (1.0, 1.8), "2": (1.0, 2.0), "4": (1.0, 2.0), "12": (3.0, 4.0), "44": (5.0, 6.0)}


@pytest.fixture
def toy(tmp_path: Path) -> Application:
    write(tmp_path, "toy", steps=STEPS, runs=RUNS)
    return read_applications(tmp_path)["toy"]


def test_what_is_read(toy: Application) -> None:
    assert toy.batch_sizes.tolist() == [8, 16]
    assert toy.parts == (4, 8)
    assert toy.done.tolist() == [9.0, 20.0]  # of runs at several batch sizes the earliest
    assert toy.most_gpus == 4
    assert toy.variance.tolist() == [[3.0, 2.0], [5.0, 2.0]]


def test_steps_are_interpolated_and_placements_turned(toy: Application) -> None:
    assert toy.step_times((2,), 6) == pytest.approx((1.5, 0.15))
    assert toy.step_times((2, 1), 4) == toy.step_times((1, 2), 4) == pytest.approx((3.0, 0.3))
    many = toy.step_times((4,) * 6, 6)
    assert many == pytest.approx((9.0, 1.0))  # measured on six nodes and 24 GPUs
    with pytest.raises(JaxschedError, match=r"toy: 9 samples on 2 GPUs were not measured"):
        toy.step_times((2,), 9)
    with pytest.raises(JaxschedError, match=r"toy: 4 samples on 1\+1 GPUs were not measured"):
        read = toy.step_times((1, 1), 4)
        assert np.isnan(read[0])


def test_batches_are_made_in_as_few_parts_as_fit(toy: Application) -> None:
    assert toy.split(8, 1) == Batch(8, 0)
    assert toy.split(16, 1) == Batch(8, 1)
    assert toy.split(9, 1) == Batch(5, 1)  # above m0 on one GPU: two parts at least
    assert toy.split(16, 2) == Batch(8, 0)
    assert toy.split(10, 4) == Batch(3, 0)
    assert toy.split(16, 3) == Batch(5, 0)  # six each would be more than the largest batch


def test_progress_by_the_noise_of_the_gradient(toy: Application) -> None:
    assert toy.gain(8, 0) == pytest.approx(1.0)
    assert toy.gain(16, 0) == pytest.approx((5 + 1) / (5 / 2 + 1))
    assert toy.gain(12, 0) == pytest.approx((4 + 1) / (4 / 1.5 + 1))  # noise in between
    assert toy.gain(16, 1) == pytest.approx(2.0)  # noise alone: twice the batch, half the steps
    with pytest.raises(JaxschedError, match="toy: a batch of 17; accepted: 8 to 16"):
        toy.gain(17, 0)
    # two parts of 8: two steps of 1.8 s but for one synchronisation of 0.18 s
    assert toy.rate((1,), Batch(8, 1), 1) == pytest.approx(2.0 / (1.8 + 1.62))


def test_the_best_batch_is_that_of_most_progress_a_second(toy: Application) -> None:
    for gpus in (1, 2, 4):
        for epoch in (0, 1):
            batch, rate = toy.best(gpus, epoch)
            batches = [toy.split(size, gpus) for size in range(max(8, 4 * gpus), 17)]
            every = [toy.rate(fewest_nodes(gpus), each, epoch) for each in batches]
            assert rate == pytest.approx(toy.rate(fewest_nodes(gpus), batch, epoch))
            assert rate == pytest.approx(max(every))
    left = 6 / toy.best(2, 0)[1] + 11 / toy.best(2, 1)[1]
    assert toy.seconds_left(2, 0, 3.0) == pytest.approx(left)
    assert toy.seconds_left(2, 1, 20.0) == pytest.approx(0.0)


def test_fewest_nodes() -> None:
    assert fewest_nodes(4) == (4,)
    assert fewest_nodes(11) == (4, 4, 3)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("placements.csv", "placement,local_bsz\n1,4\n", "row 1: step_time is None"),
        ("placements.csv", "placement,local_bsz,step_time,sync_time\n", "0 rows"),
        ("scalability.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time\n6,24,4,-1,0\n",
         "row 1: step_time is '-1'; accepted: a number above 0"),
        ("validation-8.csv", "progress,iteration,metric,grad_sqr,grad_var\n9,1,1,nan,0\n",
         "row 1: grad_sqr is 'nan'; accepted: a number from 0 on"),
        ("validation-x.csv", "progress\n1\n", "is no run at a batch size"),
    ],
)  # fmt: skip
def test_bad_files_are_one_line(tmp_path: Path, file: str, text: str, message: str) -> None:
    write(tmp_path, "toy", steps=STEPS, runs=RUNS)
    (tmp_path / "toy" / file).write_text(text)
    with pytest.raises(JaxschedError, match=message) as found:
        read_applications(tmp_path)
    assert "\n" not in str(found.value)


def test_folders_without_measurements_are_refused(tmp_path: Path) -> None:
    with pytest.raises(JaxschedError, match="has no applications"):
        read_applications(tmp_path)
    write(tmp_path, "toy", steps=STEPS, runs={})
    with pytest.raises(JaxschedError, match="has no validation"):
        read_applications(tmp_path)
