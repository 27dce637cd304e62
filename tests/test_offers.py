"""Reading and naming traces knows what is offered, and works where nothing is."""

import pytest

from jaxsched import offers, traces
from jaxsched.errors import JaxschedError
from jaxsched.jobs.kinds import RIGID
from jaxsched.systems import registry
from jaxsched.systems.workload import Workload
from jaxsched.traces.job_kinds import job_kinds, kind_of
from jaxsched.traces.named import NamedTrace

RIGID_TABLE = "trace,submit_time,num_gpus,duration,model\n0,0,1,60,0\n0,5,2,60,0\n"


def test_the_systems_offer_theirs():
    expected = [trace.name for workload in registry.workloads() for trace in workload.traces]
    assert list(traces.names()) == expected


def test_traces_work_without_any_system(tmp_path, monkeypatch):
    monkeypatch.setattr(offers, "_sources", {})
    assert traces.names() == ()
    assert job_kinds() == (RIGID,)
    file = tmp_path / "jobs.csv"
    file.write_text(RIGID_TABLE)
    (table,) = traces.load(file)
    assert kind_of(table) is RIGID
    with pytest.raises(JaxschedError, match="unknown trace 'nosuch'"):
        traces.get("nosuch")


def test_a_later_offer_of_a_name_takes_the_place_of_the_earlier_one(monkeypatch):
    monkeypatch.setattr(offers, "_sources", {})
    for name in ("first", "second"):
        trace = NamedTrace(name, "", seeded=False, make=lambda *_: [])
        offers.offer_workloads("mine", lambda trace=trace: [Workload(traces=(trace,))])
    assert traces.names() == ("second",)
