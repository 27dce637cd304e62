"""Passes order Kueue's pending workloads, and leave all else as it is."""

import json
import shlex

import pytest

from jaxsched.cli import main
from jaxsched.errors import JaxschedError
from jaxsched.queues.control import Control, Settings
from jaxsched.queues.kueue import Kueue, from_file
from tests.kueue import objects
from tests.kueue.fake import Fake

USUAL = {"policy": "sjf-est", "every_s": 60.0, "longest_wait_s": 86_400.0, "most_changes": 200}


@pytest.fixture
def fake():
    """Four workloads that wait: 3 is the shortest by its limit, then 4, 2, 1."""
    return waiting(Fake())


def waiting(cluster):
    for number, limit in ((1, 4000), (2, 3000), (3, 50), (4, 600)):
        cluster.submit(number, limit=limit)
        cluster.now += 10
    return cluster


def control(fake, folder, **settings):
    return Control(
        Kueue(fake.runner), Settings(**USUAL | settings), folder,
        clock=lambda: fake.now,
    )  # fmt: skip


def test_a_pass_gives_the_order_and_what_was_found_comes_back(fake, tmp_path):
    ours = control(fake, tmp_path)
    done = ours.step()
    assert fake.line() == [3, 4, 2, 1]
    assert (done.waiting, done.running, done.changed, done.failure) == (4, 0, 3, "")
    assert ours.step().changed == 0
    assert ours.restore() == 3
    assert set(fake.priorities().values()) == {0}


def test_each_change_is_a_patch_of_one_workload(fake, tmp_path):
    control(fake, tmp_path).step()
    get, *patches = fake.calls
    assert shlex.join(get) == (
        "kubectl get workloads.kueue.x-k8s.io,localqueues.kueue.x-k8s.io,"
        "clusterqueues.kueue.x-k8s.io --all-namespaces --output=json"
    )
    assert len(patches) == 3
    (of_3,) = (words for words in patches if words[3] == "job-3")
    assert of_3[:3] == ("kubectl", "patch", "workloads.kueue.x-k8s.io")
    assert of_3[4:6] == ("--namespace=lab", "--type=merge")
    assert json.loads(of_3[6].removeprefix("--patch=")) == {
        "metadata": {"uid": objects.uid(3)},
        "spec": {"priority": fake.priorities()[3]},
    }


def test_higher_priorities_go_first_whatever_the_policy_says(fake, tmp_path):
    """Those of classes: the policy orders equal ones, also after it has changed them."""
    fake.submit(5, priority=100, limit=9000)
    fake.submit(6, priority=100, limit=8000)
    fake.submit(7, priority=-5, limit=1)
    ours = control(fake, tmp_path)
    ours.step()
    assert fake.line() == [6, 5, 3, 4, 2, 1, 7]
    fake.now += 10
    fake.submit(8, priority=100, limit=10)
    fake.submit(9, priority=0, limit=1)
    ours.step()
    assert fake.line() == [8, 6, 5, 9, 3, 4, 2, 1, 7]
    ours.restore()
    assert fake.priorities() == {1: 0, 2: 0, 3: 0, 4: 0, 5: 100, 6: 100, 7: -5, 8: 100, 9: 0}


def test_workloads_that_are_not_in_line_are_left_alone(fake, tmp_path):
    fake.submit(5, limit=1, active=False)
    fake.submit(6, limit=1, queue="")
    fake.submit(7, limit=1)
    fake.start(7)
    done = control(fake, tmp_path).step()
    assert (done.waiting, done.running) == (4, 1)
    assert {n: fake.priorities()[n] for n in (5, 6, 7)} == {5: 0, 6: 0, 7: 0}


def test_one_cluster_queue_alone(fake, tmp_path):
    fake.queues += [objects.local_queue("other", "cpu"), objects.cluster_queue("cpu")]
    fake.submit(5, queue="other")
    assert control(fake, tmp_path / "a", queue="cpu", dry_run=True).step().waiting == 1
    assert control(fake, tmp_path / "b", queue="gpu", dry_run=True).step().waiting == 4
    assert control(fake, tmp_path / "c", dry_run=True).step().waiting == 5


@pytest.mark.parametrize(
    "preemption",
    [
        {"withinClusterQueue": "LowerPriority"},
        {"withinClusterQueue": "LowerOrNewerEqualPriority"},
        {"reclaimWithinCohort": "LowerPriority"},
        {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}},
    ],
)
def test_where_priorities_evict_nothing_is_set(tmp_path, preemption):
    fake = waiting(Fake(**preemption))
    failure = control(fake, tmp_path).step().failure
    assert "ClusterQueue gpu: preempts by priority" in failure
    assert set(fake.priorities().values()) == {0}
    assert control(fake, tmp_path, dry_run=True).step().changed == 3


def test_a_list_without_cluster_queues_does_not_tell_whether_they_preempt(fake, tmp_path):
    fake.queues = [objects.local_queue()]
    failure = control(fake, tmp_path).step().failure
    assert failure.startswith("kubectl: the list has no ClusterQueue, which tells whether")
    assert set(fake.priorities().values()) == {0}
    assert control(fake, tmp_path, dry_run=True).step().changed == 3
    fake.workloads = {}
    assert control(fake, tmp_path).step().failure == ""


def test_what_somebody_else_has_set_and_what_kueue_puts_back(fake, tmp_path):
    """Kueue writes the value of a class anew when it starts; the next pass orders again."""
    ours = control(fake, tmp_path)
    ours.step()
    fake.workloads[2]["spec"]["priority"] = 5000
    fake.workloads[3]["spec"]["priority"] = 0
    ours.step()
    assert fake.line() == [2, 3, 4, 1]
    ours.restore()
    assert fake.priorities() == {1: 0, 2: 5000, 3: 0, 4: 0}


def test_a_workload_that_is_gone_or_another_is_refused(fake, tmp_path):
    ours = control(fake, tmp_path)
    runner = fake.runner

    def late(words, text=None):
        if words[1] == "patch":
            fake.workloads.pop(2, None)
            fake.workloads[3]["metadata"]["uid"] = objects.uid(33)
        return runner(words, text)

    ours.adapter = Kueue(late)
    done = ours.step()
    assert (done.changed, done.failure) == (1, "")
    assert fake.priorities()[3] == 0


def test_patches_that_are_all_refused_are_a_failure(fake, tmp_path):
    ours = control(fake, tmp_path)
    runner = fake.runner
    ours.adapter = Kueue(
        lambda words, text=None: (
            runner(words) if words[1] == "get" else (1, "", "Error from server (Forbidden): no\n")
        )
    )
    assert ours.step().failure == "kubectl: Error from server (Forbidden): no"


def test_forecasts_come_from_finished_workloads(tmp_path):
    """Who has run short jobs so far goes before who has run long ones, whatever the version."""
    fake = Fake()
    ours = control(fake, tmp_path, policy="qssf")
    for k in range(12):
        number, namespace = k + 1, "short" if k % 2 else "long"
        fake.submit(number, namespace=namespace)
        fake.start(number)
        if k < 6:
            ours.step()  # saw it run
        fake.now += 30 if namespace == "short" else 30_000
        fake.end(number, forgets=k < 6)
    fake.submit(21, namespace="long")
    fake.submit(22, namespace="short")
    assert ours.step().failure == ""
    assert fake.line() == [22, 21]
    lines = (tmp_path / "ended.jsonl").read_text().splitlines()
    assert len(lines) == 12
    assert all(end - start in (30, 30_000) for _, _, start, end, *_ in map(json.loads, lines))


def test_a_file_gives_the_commands(fake, tmp_path):
    path, said = tmp_path / "queues.json", []
    path.write_text(fake.runner(("kubectl", "get"))[1])
    adapter = Kueue(from_file(path, said.append))
    ours = Control(adapter, Settings(**USUAL), tmp_path / "kept", clock=lambda: fake.now)
    assert ours.step().changed == 3
    assert set(fake.priorities().values()) == {0}
    for line in said:
        assert fake.runner(shlex.split(line))[0] == 0
    assert fake.line() == [3, 4, 2, 1]


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(JaxschedError, match=r"none\.json: .*accepted: what 'kubectl get"):
        Kueue(from_file(tmp_path / "none.json", print)).jobs()


def test_an_empty_file(tmp_path):
    path = tmp_path / "queues.json"
    path.write_text("\n")
    with pytest.raises(JaxschedError, match=r"queues\.json: empty; accepted: what 'kubectl get"):
        Kueue(from_file(path, print)).jobs()


@pytest.mark.parametrize("text", [None, "", "[]", '{"items": [{"kind": "Workload"}]}'])
def test_a_pass_alone_that_fails_is_an_error(text, tmp_path, capsys):
    path = tmp_path / "queues.json"
    if text is not None:
        path.write_text(text)
    words = ["kueue", "--read", str(path), "--policy", "fifo", "--out", str(tmp_path / "kept")]
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("jaxsched: ")


def test_ten_thousand_workloads(tmp_path):
    fake = Fake()
    for number in range(10_000):
        fake.submit(number, limit=20_000 - number)
        fake.now += 1
    ours = control(fake, tmp_path, dry_run=True, every_s=600.0)
    done = ours.step()
    assert (done.waiting, done.changed, done.left, done.failure) == (10_000, 200, 9_799, "")
