"""Clusters as front ends describe them: any clock, unknown fields, one line for what is wrong."""

import copy
from dataclasses import replace

import jax
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.envs.chic.show.front_end import ESTIMATES as CHIC
from jaxsched.envs.dl2.show.front_end import ESTIMATES as DL2
from jaxsched.envs.sched2.rules import MODELS
from jaxsched.envs.sched2.show.front_end import ESTIMATES as SCHED2
from jaxsched.errors import JaxschedError
from jaxsched.systems import functions, presets, registry

LENGTH = 32
UNIX = 1764193600  # a day in November 2025


@pytest.fixture(scope="module", params=["sched2", "dl2", "chic"])
def system(request):
    return registry.get(request.param)


@pytest.fixture(scope="module")
def sched2():
    return registry.get("sched2")


def read(system, cluster):
    reader = functions.cluster_reader(system)
    env = reader.environment(functions.environment(system))
    return jax.device_get(reader.read(env, [cluster], LENGTH))


def same(one, other):
    equal = jax.tree.map(lambda a, b: bool(np.array_equal(a, b)), one, other)
    return all(jax.tree.leaves(equal))


def moved(cluster, origin):
    """The same cluster by a clock that shows ``origin`` where the other shows 0."""
    cluster = copy.deepcopy(dict(cluster))
    for name in ("waiting", "jobs"):
        for job in cluster.get(name, []):
            job["submit_time"] += origin
    if "busy_until" in cluster:
        cluster["busy_until"] = [
            None if gpus is None else [until and until + origin for until in gpus]
            for gpus in cluster["busy_until"]
        ]
    if "time" in cluster:
        cluster["time"] += origin
    return cluster


@pytest.mark.parametrize("origin", [UNIX, UNIX + 0.5, UNIX + 0.1, -90_000, 0.3, 1000 * UNIX])
@pytest.mark.parametrize("name", ["sched2", "dl2"])
def test_only_differences_of_times_count(name, origin):
    system = registry.get(name)
    cluster = dict(functions.cluster_reader(system).example)
    if name == "dl2":
        slot = cluster.pop("slot")
        cluster["time"] = slot * functions.environment(system).slot_seconds
        assert same(read(system, cluster), read(system, functions.cluster_reader(system).example))
    assert same(read(system, moved(cluster, origin)), read(system, cluster))


def test_slots_of_unix_time_are_slots(sched2):
    system = registry.get("dl2")
    seconds = functions.environment(system).slot_seconds
    example = functions.cluster_reader(system).example
    later = moved(example, (UNIX // seconds) * seconds) | {"slot": 12 + UNIX // seconds}
    assert same(read(system, later), read(system, example))


def test_fractions_of_seconds_are_rounded_to_the_safe_side(sched2):
    """A wait in full seconds, a GPU that is free when its job has ended; clocks may be 1 s off."""
    cluster = {
        "time": UNIX + 0.25,
        "busy_until": [[UNIX + 10.5, UNIX + 0.2, *[None] * 6], *[None] * 14],
        "waiting": [
            {"submit_time": UNIX - 9.5, "num_gpus": 1, "duration": 59.2, "model": "AlexNet"},
            {"submit_time": UNIX + 1, "num_gpus": 1, "duration": 60, "model": "AlexNet"},
        ],
        "more_to_come": False,
    }
    params, told = read(sched2, cluster)
    assert params.jobs.submit_time[0, :2].tolist() == [0, 9]
    assert told.time.tolist() == [9]
    assert told.last_job[0, 0, :3].tolist() == [2 * (9 + 11), 0, 0]
    assert functions.cluster_reader(sched2).estimated(cluster) == []


def test_a_submission_in_the_future_is_refused(sched2):
    waiting = [{"submit_time": 7201, "num_gpus": 1}]
    with pytest.raises(JaxschedError, match="submit_time is 7201 at time 7200; accepted: up to"):
        read(sched2, functions.cluster_reader(sched2).example | {"waiting": waiting})


def test_estimates_are_those_of_the_training_traces(sched2):
    tables = traces.get(presets.recipe_traces(sched2, presets.preset(sched2, "paper")).train)
    durations = np.concatenate([table["duration"] for table in tables])
    assert SCHED2["duration"].default == np.median(durations)
    models = np.bincount(np.concatenate([table["model"] for table in tables]))
    assert SCHED2["model"].default == MODELS[models.argmax()].name
    epochs = np.concatenate([t["epochs"] for t in traces.get("dl2-testbed", num_traces=100)])
    assert DL2["epochs"].default == pytest.approx(np.median(epochs), rel=0.05)
    tables = traces.get("chic-1.80", num_traces=100)
    left = np.median(np.concatenate([table["iterations"] for table in tables]))
    assert CHIC["iterations_left"].default == pytest.approx(left, abs=2)


def test_unknown_fields_are_filled_and_told(system):
    """Left out, null, or a model that nobody measured: as if the estimate had been sent."""
    reader = functions.cluster_reader(system)
    estimates = {name: estimate.default for name, estimate in reader.estimates.items()}
    known = copy.deepcopy(dict(reader.example))
    for job in known[reader.jobs]:
        job.pop("progress", None)
    known[reader.jobs] = [job | estimates for job in known[reader.jobs]]
    for unknown in (dict.fromkeys(estimates), estimates | {"model": "Llama-8B"}):
        cluster = known | {reader.jobs: [job | unknown for job in known[reader.jobs]]}
        assert same(read(system, cluster), read(system, known))
        (first, _) = reader.estimated(cluster)
        told = {n: v for n, v in estimates.items() if unknown[n] != v}
        assert first == {reader.job_word: "a", **told}
    assert reader.estimated(known) == []


def test_the_request_may_say_what_to_assume(sched2):
    reader = functions.cluster_reader(sched2)
    waiting = [{"submit_time": 7000, "num_gpus": 8}]
    busy = [["unknown"] * 8, *[None] * 14]
    cluster = reader.example | {"waiting": waiting, "busy_until": busy}
    cluster["assume"] = {"duration": 99.5, "model": "vgg-16"}
    known = cluster | {
        "waiting": [waiting[0] | {"duration": 100, "model": "VGG16"}],
        "busy_until": [[7300] * 8, *[None] * 14],
    }
    assert same(read(sched2, cluster), read(sched2, known))
    assert reader.estimated(cluster) == [
        {"job": 0, "model": "VGG16", "duration": 99.5},
        {"gpus": [[0, gpu] for gpu in range(8)], "duration": 99.5},
    ]


def test_a_job_that_outlived_the_estimate_trains_as_long_again():
    job = {"id": "a", "submit_time": 0, "progress": 80}
    assert functions.cluster_reader(registry.get("dl2")).estimated({"slot": 9, "jobs": [job]}) == [
        {"job": "a", "model": "ResNet50", "epochs": 160}
    ]


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("sched2", {"time": None}, "time is None; accepted: a number of seconds"),
        ("sched2", {"time": True}, "time is True"),
        ("sched2", {"time": 10**30}, "time is 10000"),
        ("sched2", {"waiting": [{"submit_time": UNIX, "num_gpus": 1}]}, "by the same clock"),
        (
            "sched2",
            {"waiting": [{"submit_time": 9, "num_gpus": 121}]},
            "waiting[0].num_gpus is 121",
        ),
        ("sched2", {"waiting": [{"submit_time": 9}]}, "waiting[0].num_gpus is missing"),
        ("sched2", {"waiting": [{"num_gpus": 1}]}, "waiting[0].submit_time is None"),
        (
            "sched2",
            {"waiting": [{"submit_time": 9, "num_gpus": 1, "duration": 0}]},
            "waiting[0].duration is 0; accepted: seconds above 0",
        ),
        (
            "sched2",
            {"waiting": [{"submit_time": 9, "num_gpus": 1, "model": []}]},
            "waiting[0].model is []; accepted: AlexNet",
        ),
        ("sched2", {"busy_until": [[UNIX] * 8] * 15}, "busy_until[0][0] is 1764193600 at time"),
        ("sched2", {"busy_until": [["soon"] * 8] * 15}, "busy_until[0][0] is 'soon'"),
        ("sched2", {"assume": []}, "assume is []; accepted: an object with model, duration"),
        ("sched2", {"assume": {"epochs": 3}}, "assume.epochs is unknown"),
        ("sched2", {"assume": {"model": "GPT-2"}}, "assume.model is 'GPT-2'; accepted: AlexNet"),
        ("sched2", {"assume": {"duration": "1 h"}}, "assume.duration is '1 h'"),
        ("dl2", {"time": 9}, "slot or time is missing, or both are there"),
        ("dl2", {"jobs": [{"submit_time": 99999}]}, "jobs[0].submit_time is 99999"),
        ("dl2", {"jobs": [{"submit_time": 0, "progress": -1}]}, "jobs[0].progress is -1"),
        ("dl2", {"jobs": [{"submit_time": 0, "epochs": 0}]}, "jobs[0].epochs is 0"),
        ("dl2", {"jobs": [{"submit_time": -(10**9)}]}, "a job waits for"),
        ("chic", {"workloads": [{"iterations_left": 0.5}]}, "workloads[0].iterations_left is 0.5"),
        ("chic", {"workloads": []}, "workloads is empty"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(name, change, words):
    system = registry.get(name)
    with pytest.raises(JaxschedError) as error:
        read(system, dict(functions.cluster_reader(system).example) | change)
    assert words in str(error.value)


def test_places_are_those_of_the_request_not_of_the_order(sched2):
    waiting = [{"submit_time": 90, "num_gpus": 1}, {"submit_time": 80, "num_gpus": 0}]
    with pytest.raises(JaxschedError, match=r"waiting\[1\].num_gpus is 0"):
        read(sched2, functions.cluster_reader(sched2).example | {"waiting": waiting})


@pytest.mark.parametrize("size", [(1, 1), (2, 4), (40, 8)])
@pytest.mark.parametrize("name", ["sched2", "dl2", "das", "mlfs", "cluster"])
def test_every_cluster_has_an_example(name, size):
    """With which a service compiles its programs."""
    system = registry.get(name)
    reader = functions.cluster_reader(system)
    env = functions.environment(system, **system.environment.of_servers(*size))
    env = reader.environment(env)
    reader.read(env, [reader.example_for(env)], LENGTH)


def test_clusters_of_other_sizes(sched2):
    """The reader takes the size from the environment."""
    reader = functions.cluster_reader(sched2)
    env = reader.environment(replace(functions.environment(sched2), num_servers=2))
    cluster = reader.example | {"busy_until": [None, [None] * 8]}
    _, told = reader.read(env, [cluster], LENGTH)
    assert told.last_job.shape == (1, 2, 8)
