"""Times in results of cases: what never happened is null in every system."""

from types import SimpleNamespace

import numpy as np

from jaxsched.envs.chic.show import log as chic
from jaxsched.envs.mlfs.show import cases as mlfs
from jaxsched.envs.mlfs.show import log as mlfs_records
from jaxsched.envs.sched2.show import log as sched2
from jaxsched.systems.cases import moment, whole_moment


def test_moments():
    assert [moment(-1.0), moment(0.0), moment(2.5)] == [None, 0.0, 2.5]
    assert [whole_moment(np.int32(-60)), whole_moment(np.int32(60))] == [None, 60]


def test_chic():
    records = SimpleNamespace(start=np.array([-1.0, 3.0]), finish=np.array([-1.0, -1.0]))
    found = chic._times(records, 2)
    assert found == [{"start": None, "finish": None}, {"start": 3.0, "finish": None}]


def test_mlfs():
    nothing = {name: np.zeros(1, int) for name in mlfs_records.Records._fields[2:6]}
    records = SimpleNamespace(start=np.array([-1]), finish=np.array([-1]), **nothing)
    (job,) = mlfs._jobs(records)
    assert job["start"] is None and job["finish"] is None


def test_sched2():
    records = SimpleNamespace(
        start=np.array([-1]),
        finish=np.array([-1]),
        level=np.array([0]),
        gpus=np.zeros((1, 2), np.uint32),
        reused=np.array([False]),
    )
    job = sched2._job(records, 0)
    assert (job["start"], job["finish"], job["level"], job["servers"]) == (None, None, None, [])
