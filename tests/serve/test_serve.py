"""The service: decisions equal the environments' own, errors are one line, nothing is left open."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import uvicorn

from jaxsched import traces
from jaxsched.core.policies import View
from jaxsched.elastic.models import NAMES
from jaxsched.envs.dl2.rules import dynamics as dl2_dynamics
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
from jaxsched.serve import decisions
from jaxsched.serve.application import Service
from jaxsched.serve.openapi import document
from jaxsched.systems import functions
from tests.command_line import refused
from tests.example_system import registered

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCES = (
    *("sched2/pretrained", "sif=sched2/strict_sif", "dl2/pretrained", "chic/pretrained"),
    "cluster/pretrained",
)
SMALL = 1024 * 64


@pytest.fixture(scope="module")
def service():
    return Service(SOURCES, most_bytes=SMALL)


class Answered(NamedTuple):
    """A response."""

    status: int
    text: str

    @property
    def json(self):
        """As JSON."""
        return json.loads(self.text)


class Client:
    """Requests to a service."""

    def __init__(self, url):
        self.url = url

    def get(self, path, data=None, **headers):
        """A response of any status; POST where there are data."""
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return Answered(response.status, response.read().decode())
        except urllib.error.HTTPError as error:
            return Answered(error.code, error.read().decode())

    def post(self, path, body):
        """The answer to bytes, or to an object as JSON."""
        return self.get(path, body if isinstance(body, bytes) else json.dumps(body).encode())


@pytest.fixture(scope="module")
def client(service):
    config = uvicorn.Config(service.app(), port=0, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()
    yield Client(f"http://{host}:{port}")
    server.should_exit = True
    thread.join()


def test_every_policy_decides_for_its_example(client, service):
    for name, decider in service.policies.items():
        body = {"policy": name, "cluster": dict(decider.reader.example)}
        found = client.post("/decide", body)
        assert found.status == 200, found.text
        properties = decider.reader.answer_schema["properties"]
        assert set(found.json["decision"]) <= {*properties, "scores"}


def test_several_clusters_at_once_are_decided_alike(client, service):
    cluster = dict(service.policies["chic"].reader.example)
    one = client.post("/decide", {"policy": "chic", "cluster": cluster}).json["decision"]
    body = {"policy": "chic", "clusters": [cluster] * 3}
    for decision in client.post("/decide", body).json["decisions"]:
        assert decision["allocation"] == one["allocation"]
        assert decision["scores"] == pytest.approx(one["scores"], rel=1e-4)


BUSY = [[None] * 8] * 15
JOB = {"id": "a", "submit_time": 1764190000, "num_gpus": 8, "duration": 3600}


@pytest.mark.parametrize("model", ["VGG16", "VGG-16", "vgg16", "Llama-8B", None])
@pytest.mark.parametrize("time", [1764193600, 1764193600.5])
def test_unix_time_and_any_spelling_of_a_model_are_decided_for(client, model, time):
    cluster = {"time": time, "busy_until": BUSY, "waiting": [JOB | {"model": model}]}
    found = client.post("/decide", {"policy": "sched2", "cluster": cluster})
    assert found.status == 200, found.text
    decision = found.json["decision"]
    assert (decision["start"], decision["run_time"]) == ("a", 3600)
    known = model is not None and "gg" in model.lower()
    assert decision["estimated"] == ([] if known else [{"job": "a", "model": "Transformer"}])


def test_what_a_service_tells_of_itself(client, service):
    assert client.get("/healthz").json == {"status": "ok", "policies": 5}
    assert set(client.get("/policies").json) == {"sched2", "sif", "dl2", "chic", "cluster"}
    assert 'jaxsched_requests_total{path="/healthz",status="200"}' in client.get("/metrics").text
    described = client.get("/openapi.json").json
    assert described == document(service.policies)
    assert set(described["paths"]) == {
        *("/decide", "/policies", "/healthz", "/metrics", "/reload", "/openapi.json")
    }
    page = client.get("/").text
    assert "POST /decide" in page and "http://" not in page.replace("http://127", "")


def test_dl2_allocates_as_its_environment_does():
    """A slot in the middle of an episode, job by job and server by server."""
    (decider,) = decisions.load(["dl2/pretrained"]).values()
    env = decider.env
    (table,) = traces.get("dl2-testbed", num_traces=1, seed=3)
    params = env.params([table])
    step, observe = jax.jit(env.step), jax.jit(env.observe)
    state, _ = jax.jit(env.reset)(jax.random.key(0), params, jnp.int32(0))
    act = jax.jit(partial(decider.policy.act, decider.weights))
    played, slots, cluster, given = {}, 0, None, {}
    while slots < 6:
        if cluster is None:
            cluster, given = described_slot(env, table, state), {}
        observation, mask = observe(state, params)
        action, _ = act((), View(observation, mask, state, params), jax.random.key(0))
        state, timestep = step(jax.random.key(0), state, action, params)
        metrics = timestep.metrics
        if bool(metrics.increment.placed):
            job = int(metrics.increment.job)
            servers = given.setdefault(job, ([], []))
            for kind, server in enumerate(np.asarray(metrics.increment.servers)):
                if server < env.num_servers:
                    servers[kind].append(int(server))
        if bool(metrics.slot_ended):
            (answer,) = decider.decide([cluster])
            rows = {row["job"]: row for row in answer["allocation"]}
            for job in rows:
                workers, servers = given.get(job, ([], []))
                assert rows[job]["workers"] == len(workers)
                assert rows[job]["parameter_servers"] == len(servers)
                counts = {str(s): workers.count(s) for s in sorted(set(workers))}
                assert rows[job]["workers_on"] == counts
            played[slots] = len(rows)
            cluster, slots = None, slots + 1
    assert max(played.values()) >= 2


def described_slot(env, table, state):
    """What a front end would tell of the slot that a state begins."""
    active = np.flatnonzero(np.asarray(dl2_dynamics.is_active(state)))
    progress = np.asarray(state.progress)
    return {
        "slot": int(state.slot),
        "jobs": [
            {
                "id": int(job),
                "submit_time": int(table["submit_time"][job]),
                "model": int(table["model"][job]),
                "epochs": float(table["epochs"][job]),
                "progress": float(progress[job]),
            }
            for job in active
        ],
    }


def test_chic_allocates_as_its_environment_does():
    (decider,) = decisions.load(["chic/pretrained"]).values()
    env = decider.env
    (table,) = traces.get("chic-1.80", num_traces=1, seed=3)
    params = env.params([table])
    step, observe = jax.jit(env.step), jax.jit(env.observe)
    state, _ = jax.jit(env.reset)(jax.random.key(0), params, jnp.int32(0))
    act = jax.jit(partial(decider.policy.act, decider.weights))
    phases, cluster = 0, None
    while phases < 12:
        if cluster is None:
            rows = [row for row in state.rows if int(row.job) < params.jobs.empty_row]
            behind = range(int(state.entered), int(state.submitted))
            cluster = {
                "workloads": [
                    {"model": NAMES[int(row.model)], "iterations_left": int(row.left)}
                    for row in rows
                ]
                + [
                    {
                        "model": NAMES[int(table["model"][job])],
                        "iterations_left": int(table["iterations"][job]),
                    }
                    for job in behind
                ]
            }
        held = [(int(row.workers), int(row.servers)) for row in state.rows]
        observation, mask = observe(state, params)
        action, _ = act((), View(observation, mask, state, params), jax.random.key(0))
        state, timestep = step(jax.random.key(0), state, action, params)
        if not bool(timestep.metrics.decides):
            if cluster["workloads"]:
                (answer,) = decider.decide([cluster])
                got = [(r["workers"], r["parameter_servers"]) for r in answer["allocation"]]
                assert got == held[: len(got)]
            cluster, phases = None, phases + 1


JOBS = 40


@pytest.fixture(scope="module")
def running():
    """A service in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "jaxsched", "serve", "sched2/pretrained", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "JAXSCHED_TOKEN": "secret"},
    )
    line = process.stdout.readline()
    yield process, line.split(" at ")[1].split()[0]
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_cluster_manager_outside_jaxsched_plays_the_environments_episode(running, tmp_path):
    """Then the service is reloaded under load and ends cleanly."""
    process, url = running
    sys.path.insert(0, str(EXAMPLES))
    try:
        import cluster_manager
    finally:
        sys.path.remove(str(EXAMPLES))
    jobs = cluster_manager.drawn_jobs(JOBS, 5)
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    command = [sys.executable, "-I", str(EXAMPLES / "cluster_manager.py"), "--url", url]
    played = subprocess.run(
        [*command, "--jobs", str(tmp_path / "jobs.json")],
        capture_output=True,
        text=True,
        env=os.environ | {"JAXSCHED_TOKEN": "secret"},
        check=True,
    )
    found = json.loads(played.stdout)
    expected = own_episode(jobs)
    for name in ("avg_jct", "avg_wait", "makespan"):
        assert found[name] == pytest.approx(expected[name], rel=1e-6)
    assert found["jobs"] == JOBS

    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{url}/policies")
    assert json.load(urllib.request.urlopen(f"{url}/healthz"))["status"] == "ok"
    statuses = []

    def ask():
        request = urllib.request.Request(f"{url}/policies", headers={"Authorization": AUTH})
        for _ in range(20):
            statuses.append(urllib.request.urlopen(request).status)

    thread = threading.Thread(target=ask)
    thread.start()
    process.send_signal(signal.SIGHUP)
    thread.join()
    assert statuses == [200] * 20
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) in (0, 128 + signal.SIGTERM)


AUTH = "Bearer secret"


def own_episode(jobs):
    (decider,) = decisions.load(["sched2/pretrained"]).values()
    system, env = decider.system, decider.env
    params = env.params([from_records(jobs)])
    played = functions.play(system, env, decider.policy, params, decider.weights).metrics
    return {name: float(played[name][0]) for name in ("avg_jct", "avg_wait", "makespan")}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 422, "not JSON"),
        (b"[]", 422, "no object"),
        (b'{"cluster": NaN}', 422, "NaN is no number"),
        (b'{"cluster": {}, "clusters": []}', 422, "either cluster"),
        (b'{"policy": "none", "cluster": {}}', 422, "there is no policy 'none'"),
        (b'{"cluster": {}}', 422, "policy is missing"),
        (b'{"policy": "sched2", "cluster": {}}', 422, "missing"),
        (b'{"policy": "sched2", "clusters": []}', 422, "no list of 1 to"),
        (b'{"policy": 3, "cluster": {}}', 422, "policy is no text"),
        (b'{"polcy": "sched2", "cluster": {}}', 422, "'polcy' is unknown"),
        (b"[" * 50_000, 422, "not JSON"),
        (b" " * (SMALL + 1), 413, "accepted: at most"),
    ],
)
def test_bad_bodies_are_one_line(client, body, status, words):
    found = client.post("/decide", body)
    assert found.status == status
    assert words in found.json["error"]
    assert "\n" not in found.json["error"]


def mutated(value, draw):
    """A cluster with something in it replaced."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(sorted(value))
        if draw.random() < 0.15:
            return {k: v for k, v in value.items() if k != key}
        return value | {key: mutated(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.85:
        place = draw.randrange(len(value))
        return [*value[:place], mutated(value[place], draw), *value[place + 1 :]]
    return draw.choice(
        [None, -1, 0, 2**70, -(2**40), 1.5, 1e308, "x" * 50, True, [], {}, [[]], "ResNet-50", 2**31]
    )


def test_two_hundred_mutated_clusters(client, service):
    draw = random.Random(1)
    names = sorted(service.policies)
    refused = 0
    for _ in range(200):
        name = draw.choice(names)
        cluster = dict(service.policies[name].reader.example)
        for _ in range(draw.randint(1, 3)):
            cluster = mutated(cluster, draw)
        found = client.post("/decide", {"policy": name, "cluster": cluster})
        assert found.status in (200, 422), (name, cluster, found.text)
        if found.status == 422:
            refused += 1
            assert len(found.json["error"]) < 400 and "\n" not in found.json["error"]
    assert refused > 120


def test_methods_and_paths_that_are_not_there(client):
    assert client.get("/decide").status == 405
    found = client.get("/nothing")
    assert found.status == 404 and "GET /nothing" in found.json["error"]


def test_a_reload_that_fails_keeps_the_policies(service, client, monkeypatch):
    def broken(sources):
        raise JaxschedError("gone")

    before = service.policies
    monkeypatch.setattr("jaxsched.serve.application.load", broken)
    found = client.post("/reload", b"")
    assert (found.status, found.json) == (409, {"error": "gone"})
    assert service.policies is before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sched2/nothing"], "nothing"),
        (["dl2/optimus"], "does not act step by step"),
        (["cluster/las"], "accepted: env.suspends=true"),
        (["sched2/sif", "--servers", "16x2,20x8"], "no servers of different sizes"),
        (["nowhere"], "nowhere"),
        (["a=sched2/sif", "a=sched2/dsif"], "two policies are called 'a'"),
        (["sched2/sif", "--host", "0.0.0.0"], "can be reached from elsewhere"),
        (["sched2/sif", "--token-file", "nowhere"], "cannot be read"),
    ],
)
def test_commands_that_cannot_be_served(words, message, capsys, monkeypatch):
    def served(*_):
        pytest.fail("this is served")

    monkeypatch.setattr("jaxsched.serve.run._run", served)
    assert message in refused(capsys, "serve", *words)


def test_systems_without_a_description_of_clusters_are_refused(capsys):
    with registered():
        assert "its policies cannot be served" in refused(capsys, "serve", "weighted/fifo")
