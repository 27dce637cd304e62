"""Kueue's workloads and Volcano's jobs as a log; objects after the documented schema."""

import gzip
import json

import numpy as np
import pytest

import jaxsched
from jaxsched.errors import JaxschedError
from jaxsched.traces import load_trace, recognise
from tests.kueue import objects

NAN = float("nan")
T = 1_790_000_000


def volcano(number, created, *, phase="Pending", at=None, ran=(), replicas=1, gpus=1, **spec):
    conditions = [{"status": "Pending", "lastTransitionTime": objects.date(created)}]
    conditions += [{"status": "Running", "lastTransitionTime": objects.date(t)} for t in ran]
    state = {"phase": phase}
    if at is not None:
        state["lastTransitionTime"] = objects.date(at)
    tasks = [{"name": "worker", "replicas": replicas, "template": objects.template(gpus)}]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": f"vc-{number}", "namespace": "team", "uid": objects.uid(number),
            "creationTimestamp": objects.date(created),
        },
        "spec": {"schedulerName": "volcano", "tasks": tasks, **spec},
        "status": {"state": state, "conditions": conditions},
    }  # fmt: skip


def write(path, *items):
    path.write_text(json.dumps(objects.reply(*items), indent=1))
    return path


def test_workloads(tmp_path):
    items = [
        objects.workload(1, T, gpus=4, pods=2, admitted=T + 60, ended=T + 660, limit=3600),
        objects.workload(2, T + 5, gpus=0, admitted=T + 60, ended=T + 90, reason="Failed"),
        objects.workload(3, T + 9, admitted=T + 61, namespace="nlp", queue="big", priority=-3),
        objects.workload(4, T + 20),
        objects.workload(5, T + 30, ended=T + 40, reason="OutOfSync"),
        objects.local_queue(),
    ]
    path = write(tmp_path / "workloads.json", *items)
    assert recognise(path).name == "kubernetes"
    trace = load_trace(path)
    assert (trace.source, trace.clock, len(trace), trace.rows_read) == ("kubernetes", "utc", 5, 6)
    expected = {
        "submit_time": [T, T + 5, T + 9, T + 20, T + 30],
        "start_time": [T + 60, T + 60, T + 61, NAN, NAN],
        "end_time": [T + 660, T + 90, NAN, NAN, T + 40],
        "duration": [600, 30, NAN, NAN, NAN],
        "num_gpus": [8, 0, 1, 1, 1],
        "num_instances": [2, 1, 1, 1, 1],
        "cpus": [1, 0.5, 0.5, 0.5, 0.5],
        "memory_gb": [2 * 1.073741824] + 4 * [1.073741824],
        "priority": [0, 0, -3, 0, 0],
        "requested_time": [3600, NAN, NAN, NAN, NAN],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(trace[name], values, err_msg=name)
    assert trace["job_id"].tolist() == [objects.uid(k) for k in range(1, 6)]
    assert trace["user"].tolist() == ["lab", "lab", "nlp", "lab", "lab"]
    assert trace["group"].tolist() == ["main", "main", "big", "main", "main"]
    assert trace["status"].tolist() == ["completed", "failed", "running", "pending", ""]
    assert "1 objects of other kinds passed over" in trace.notes
    assert any(note.startswith("1 jobs that ended without a start") for note in trace.notes)


def test_of_lists_of_several_days_the_last_counts(tmp_path):
    pending, other = objects.workload(1, T), objects.workload(2, T + 5, admitted=T + 7, ended=T + 9)
    ended = objects.workload(1, T, admitted=T + 60, ended=T + 660)
    trace = load_trace(write(tmp_path / "both.json", pending, other, other, ended))
    assert trace["job_id"].tolist() == [objects.uid(1), objects.uid(2)]
    assert trace["duration"].tolist() == [600, 2]
    assert any(note.startswith("2 objects told again") for note in trace.notes)


def test_volcano_jobs(tmp_path):
    path = tmp_path / "jobs.json.gz"
    items = [
        volcano(1, T, phase="Completed", at=T + 500, ran=(T + 20,), replicas=3, gpus=2, queue="q"),
        volcano(2, T + 1, phase="Aborted", at=T + 90, ran=(T + 30, T + 60)),
        volcano(3, T + 2, phase="Restarting", at=T + 40, ran=(T + 30,)),
        volcano(4, T + 3),
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": {}},
    ]
    path.write_bytes(gzip.compress(json.dumps(items).encode()))
    assert recognise(path).name == "kubernetes"
    trace = load_trace(path)
    np.testing.assert_array_equal(trace["num_gpus"], [6, 1, 1, 1])
    np.testing.assert_array_equal(trace["start_time"], [T + 20, T + 30, T + 30, NAN])
    np.testing.assert_array_equal(trace["duration"], [480, 60, NAN, NAN])
    assert trace["group"].tolist() == ["q", "default", "default", "default"]
    assert trace["status"].tolist() == ["completed", "killed", "running", "pending"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: objects.workload(1, T, admitted=T + 1, ended=T + 9),
        lambda: volcano(1, T, phase="Completed", at=T + 9, ran=(T + 1,)),
    ],
    ids=["Kueue", "Volcano"],
)
def test_lists_of_the_api_do_not_say_kinds(tmp_path, make):
    item = make()
    version, kind = item.pop("apiVersion"), item.pop("kind")
    path = tmp_path / "list.json"
    path.write_text(json.dumps({"kind": f"{kind}List", "apiVersion": version, "items": [item]}))
    assert load_trace(path)["duration"].tolist() == [8]


def test_parts_of_gpus_are_said(tmp_path):
    item = objects.workload(1, T, gpus=0)
    resources = item["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]
    resources["limits"] = {"nvidia.com/mig-1g.5gb": 1, "cpu": "2", "memory": "1Ti"}
    trace = load_trace(write(tmp_path / "w.json", item))
    assert any("parts of GPUs" in note for note in trace.notes)
    assert (trace["num_gpus"][0], trace["cpus"][0]) == (0, 0.5)  # requests before limits


@pytest.mark.parametrize(
    ("amount", "number"),
    [("500m", 0.5), ("1Ti", 2.0**40), ("2", 2.0), (3, 3.0), (1.5, 1.5), ("1e3", 1e3),
     ("12E2", 1200), ("1.5Gi", 1.5 * 2**30), ("100k", 1e5), (".5", 0.5),
     ("5.", 5.0), ("250u", 2.5e-4), (None, 0.0),
     ("1E3", 1e3), ("+4", 4.0), ("9262144k", 9262144e3)],
)  # fmt: skip
def test_amounts(amount, number):
    from jaxsched.traces.readers.kubernetes.fields import quantity

    assert quantity(amount, "cpu", pytest.fail) == pytest.approx(number)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"items": [{"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload"}]}',
         "record 1, line 1: metadata has no uid"),
        ('{"apiVersion": "kueue.x-k8s.io/v1beta1"}', "has no items; accepted: a list of Kueue's"),
        ('{"apiVersion": "kueue.x-k8s.io/v1beta1", "items": []}', "has no jobs; accepted: a list"),
        ('{"apiVersion": "kueue.x-k8s.io/v1beta1", "items": [{"kind": "Workload", ', "is not JSON"),
        ('[{"apiVersion": "kueue.x-k8s.io/v1", "kind": "Workload", "spec": 3}]', "spec is 3.0"),
        ('[{"apiVersion": "kueue.x-k8s.io/v1", "kind": "Node"}]', "has no jobs; accepted: a list"),
    ],
)  # fmt: skip
def test_files_that_are_none(tmp_path, text, words):
    path = tmp_path / "w.json"
    path.write_text(text)
    with pytest.raises(JaxschedError) as caught:
        load_trace(path)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_more_than_can_be_is_refused(tmp_path):
    path = write(tmp_path / "w.json", objects.workload(1, T, gpus=10**15, pods=2**31 - 1))
    with pytest.raises(JaxschedError, match="its pods ask for"):
        load_trace(path)


def test_advice_on_such_a_log(tmp_path):
    draw = np.random.default_rng(0)
    submit = T + np.cumsum(draw.integers(1, 60, 80))
    items = [
        objects.workload(k, int(at), gpus=int(draw.choice([1, 2, 4])), admitted=int(at) + 30,
                         ended=int(at) + 30 + int(draw.integers(60, 900)))
        for k, at in enumerate(submit)
    ]  # fmt: skip
    advice = jaxsched.advise(
        load_trace(write(tmp_path / "w.json", *items)), "2x8", policies=["fifo", "sjf"],
        capacity=False, iterations=0,
    )  # fmt: skip
    rows = {row["policy"] for row in advice.document["rows"]}
    assert {"fifo", "sjf"} <= rows
