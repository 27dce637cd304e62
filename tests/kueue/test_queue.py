"""Lists of workloads of all versions, and what is none."""

import json
from copy import deepcopy

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.queues.kueue import Kueue, read_queues
from tests.kueue import objects

USUAL = objects.workload(1, 100, gpus=2, pods=3, limit=600, priority=7)


def changed(*path, value, item=USUAL):
    """The workload with one member changed; ``...``: without it."""
    found = deepcopy(item)
    owner = found
    for name in path[:-1]:
        owner = owner[name]
    if value is ...:
        del owner[path[-1]]
    else:
        owner[path[-1]] = value
    return found


def job_of(item):
    (job,) = read_queues(objects.reply(item, objects.local_queue())).jobs({})
    return job


def test_a_workload_that_waits():
    job = job_of(USUAL)
    assert (job.job_id, job.num_gpus, job.limit_s, job.submit) == (objects.uid(1), 6, 600, 100)
    assert (job.priority, job.owner, job.queue) == (7, "lab/main", "gpu")
    assert job.waits and not job.runs and not job.has_ended


def test_a_workload_that_runs_and_one_that_ended():
    job = job_of(objects.workload(1, 100, admitted=150))
    assert (job.waits, job.runs, job.has_ended, job.start) == (False, True, False, 150)
    job = job_of(objects.workload(1, 100, admitted=150, ended=400))
    assert (job.waits, job.runs, job.has_ended, job.end) == (False, False, True, 400)


def test_evicted_workloads_wait_again():
    item = objects.workload(1, 100, admitted=150)
    for each in item["status"]["conditions"]:
        each["status"] = "False"
    item["status"]["conditions"].append(objects.condition("PodsReady", 170))
    assert job_of(item).waits
    assert job_of(item).start == 0


def test_quota_is_held_before_checks_are_passed():
    item = objects.workload(1, 100)
    item["status"]["conditions"] = [objects.condition("QuotaReserved", 150)]
    assert job_of(item).runs


@pytest.mark.parametrize("forgotten", [False, True])
def test_where_the_admission_is_taken_back_pods_tell_the_start(forgotten):
    item = objects.workload(1, 100, admitted=150, ended=400)
    for each in item["status"]["conditions"][:2]:
        each |= {"status": "False", "lastTransitionTime": objects.date(400)}
    if not forgotten:
        item["status"]["conditions"].append(objects.condition("PodsReady", 160))
    job = job_of(item)
    assert (job.has_ended, job.start) == ((False, 0) if forgotten else (True, 160))


@pytest.mark.parametrize(
    ("containers", "gpus"),
    [
        ([{"requests": {objects.GPU: "2"}}], 2),
        ([{"limits": {objects.GPU: 2}}], 2),
        ([{"requests": {objects.GPU: "1"}, "limits": {objects.GPU: "1"}}], 1),
        ([{"requests": {"amd.com/gpu": "4"}}, {"requests": {objects.GPU: "1"}}], 5),
        ([{"requests": {"gpu": "2e0"}}], 2),
        ([{"requests": {"nvidia.com/mig-1g.5gb": "1", "nvidia.com/gpumem": "9"}}], 0),
        ([{"requests": None}, {}], 0),
    ],
)
def test_gpus_of_a_pod(containers, gpus):
    pods = [{"name": str(k), "resources": each} for k, each in enumerate(containers)]
    item = changed("spec", "podSets", 0, "template", "spec", "containers", value=pods)
    assert job_of(item).num_gpus == 3 * gpus


def test_containers_that_run_before_the_others():
    one = {"resources": {"limits": {objects.GPU: "1"}}}
    four = {"resources": {"limits": {objects.GPU: "4"}}}
    template = objects.template(2, initContainers=[four])
    sets = ("spec", "podSets", 0, "template")
    assert job_of(changed(*sets, value=template)).num_gpus == 3 * 4
    template = objects.template(2, initContainers=[one | {"restartPolicy": "Always"}])
    assert job_of(changed(*sets, value=template)).num_gpus == 3 * (2 + 1)
    template = objects.template(2, initContainers=[one | {"restartPolicy": "Always"}, four])
    assert job_of(changed(*sets, value=template)).num_gpus == 3 * (4 + 1)


def test_fewer_pods_may_be_admitted():
    item = objects.workload(1, 100, gpus=2, pods=8, admitted=150)
    item["status"]["admission"] = {
        "clusterQueue": "gpu",
        "podSetAssignments": [{"name": "main", "count": 5, "flavors": {objects.GPU: "a100"}}],
    }
    assert job_of(item).num_gpus == 10


def test_lists_of_the_api_do_not_say_kinds():
    item = changed("kind", value=...)
    document = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "WorkloadList", "items": [item]}
    assert len(read_queues(document).jobs({})) == 1
    assert read_queues(objects.reply(item)).jobs({}) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "priority"), None),
        (("spec", "priority"), ...),
        (("spec", "podSets"), None),
        (("spec", "podSets", 0, "count"), ...),
        (("spec", "podSets", 0, "template", "spec"), None),
        (("spec", "active"), None),
        (("status",), ...),
        (("status", "conditions"), None),
    ],
)
def test_what_may_be_missing(path, value):
    assert job_of(changed(*path, value=value)).waits


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "the reply is []; accepted: a list of objects"),
        ({"items": None}, "accepted: a list of objects"),
        (objects.reply(3), "item 0 is 3; accepted: an object"),
        (objects.reply({"kind": "Workload"}), "item 0 (None): metadata has no uid"),
    ],
)
def test_replies_that_are_none(document, words):
    with pytest.raises(JaxschedError) as caught:
        read_queues(document)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("metadata",), [], "metadata is []; accepted: an object"),
        (("metadata", "uid"), 7, "uid is 7"),
        (("metadata", "name"), "--server=there", "is no name of Kubernetes"),
        (("metadata", "namespace"), "a b", "'a b' is no name of Kubernetes"),
        (("metadata", "creationTimestamp"), ..., "no creationTimestamp"),
        (("metadata", "creationTimestamp"), "yesterday", "accepted: a date such as"),
        (("metadata", "creationTimestamp"), "2026-10-01T00:00:00", "accepted: a date such as"),
        (("metadata", "creationTimestamp"), 5, "accepted: a date such as"),
        (("spec", "priority"), "high", "priority is 'high'; accepted: a whole number"),
        (("spec", "priority"), 2**31, "accepted: a whole number of 32 bits"),
        (("spec", "priority"), True, "priority is True"),
        (("spec", "priority"), float("nan"), "priority is nan"),
        (("spec", "active"), "no", "active is 'no'"),
        (("spec", "maximumExecutionTimeSeconds"), -1, "maximumExecutionTimeSeconds is -1"),
        (("spec", "queueName"), ["a"], "queueName is ['a']"),
        (("spec", "podSets"), {}, "podSets is {}; accepted: a list of objects"),
        (("spec", "podSets", 0, "count"), 1.5, "count is 1.5"),
        (("status", "conditions"), [None], "conditions is [None]"),
    ],
)
def test_members_that_are_none_are_one_line(path, value, words):
    with pytest.raises(JaxschedError) as caught:
        read_queues(objects.reply(objects.local_queue(), changed(*path, value=value)))
    said = str(caught.value)
    assert said.startswith("kubectl: item 1 (") and words in said and "\n" not in said


JUNK = (None, True, -1, 1.5, 2**70, 10**400, float("nan"), float("inf"), "", "a", "\ud800",
        "x" * 500,
        [], {}, [1], [None], [{}], {"a": 1}, "9999-12-31T23:59:59-23:59")  # fmt: skip


def places(value, before=()):
    """Of all members, at any depth."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for name, member in members:
        yield (*before, name)
        if isinstance(member, dict | list):
            yield from places(member, (*before, name))


def test_whatever_stands_anywhere_is_read_or_one_line():
    item = objects.workload(1, 100, admitted=150, limit=7)
    item["status"]["admission"] = {"podSetAssignments": [{"name": "main", "count": 1}]}
    whole = objects.reply(item, objects.local_queue(), objects.cluster_queue())
    refused = 0
    for place in places(whole):
        for value in JUNK:
            try:
                read_queues(changed(*place, value=value, item=whole)).jobs({})
            except JaxschedError as error:
                refused += 1
                assert "\n" not in str(error) and len(str(error)) < 400
    assert refused > 100


@pytest.mark.parametrize(
    "amount",
    ["many", "1Gb", "-1", -1, "1e999", "9" * 400, "1 1", "", [], True, float("inf"), float("nan"),
     10**400, "2Ei"],
)  # fmt: skip
def test_amounts_that_are_none(amount):
    item = changed("spec", "podSets", 0, "template", "spec", "containers", 0, "resources",
                   "limits", objects.GPU, value=amount)  # fmt: skip
    with pytest.raises(JaxschedError, match="nvidia.com/gpu is .*; accepted: an amount"):
        read_queues(objects.reply(item))


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ((1, "", "The connection to the server was refused\n"), "exit status 1: The connection"),
        ((0, "", ""), "no JSON"),
        ((0, "[" * 100_000, ""), "no JSON"),
        ((0, '{"items": [' + "9" * 5000 + "]}", ""), "no JSON"),
        ((0, json.dumps(objects.reply())[:-1], ""), "no JSON"),
    ],
)
def test_what_kubectl_may_say(reply, words):
    with pytest.raises(JaxschedError) as caught:
        Kueue(lambda words, text: reply).jobs()
    assert words in str(caught.value) and "\n" not in str(caught.value)
