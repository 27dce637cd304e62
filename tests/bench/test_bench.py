"""The benchmarks, at sizes of seconds: fields, signs, and that the loops do what they say."""

import io
import json
import math
import sys
from datetime import date
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from jaxsched import traces
from jaxsched.bench import timing
from jaxsched.bench.loops import at_random, by_policy, environment_loop, start_many
from jaxsched.bench.peers import Known, MissingPeer, Peer, known_peers
from jaxsched.bench.scaling import counts, scaling_speed
from jaxsched.bench.tables import print_table
from jaxsched.bench.throughput import MOST_STEPS, throughput
from jaxsched.bench.training import training_speed
from jaxsched.cli import main
from jaxsched.errors import JaxschedError
from jaxsched.systems import functions, registry
from tests.command_line import refused

SMALL = {"num_servers": 4, "gpus_per_server": 4, "window": 3}
TABLES = dict(seed=0, num_traces=2, num_jobs=40)


def printed(result):
    text = io.StringIO()
    print_table(result, Console(width=160, file=text))
    return text.getvalue()


@pytest.fixture(scope="module")
def said():
    return []


@pytest.fixture(scope="module")
def measured(said, tmp_path_factory):
    """Two batch sizes, beside peers that are not installed."""
    return throughput(
        "sched2",
        batches=(4, 8),
        repeats=2,
        steps_per_repeat=64,
        peers=True,
        peer_python=python_without_anything(tmp_path_factory.mktemp("peers")),
        progress=said.append,
    )


def test_rigid_jobs_have_rows_too():
    found = throughput("cluster", batches=(4,), repeats=1, steps_per_repeat=16)
    assert [(row["figure"], row["batch"]) for row in found["rows"]] == [
        ("environment", 4), ("policy", 4),
    ]  # fmt: skip
    assert all(row["steps_per_s"]["median"] > 0 for row in found["rows"])


def test_throughput_reports_every_row(measured):
    rows = measured["rows"]
    assert [(row["figure"], row["batch"]) for row in rows] == [
        ("environment", 4),
        ("policy", 4),
        ("environment", 8),
        ("policy", 8),
    ]
    for row in rows:
        rate = row["steps_per_s"]
        assert 0 < rate["min"] <= rate["median"] <= rate["max"]
        assert row["cpu_ns_per_step"] > 0 and row["compile_s"] > 0
        assert row["repeats"] == 2 and row["steps_per_repeat"] * row["batch"] == 64
        assert row["bytes_per_step"] == 2 * row["state_bytes_per_env"] + row["observation_bytes"]
        assert 0 < row["bandwidth_fraction"] < math.inf
    assert rows[0]["observation_bytes"] == 184 * 4
    assert 0 < rows[0]["state_bytes_per_env"] <= 1024
    assert measured["best"]["policy"]["figure"] == "policy"


def test_an_interrupted_sweep_keeps_its_rows():
    lines = []

    def say(line):
        lines.append(line)
        if "batch 8" in line:
            raise KeyboardInterrupt

    sizes = {"batches": (4, 8), "repeats": 1, "steps_per_repeat": 16, "figures": ("environment",)}
    found = throughput("sched2", progress=say, **sizes)
    assert [row["batch"] for row in found["rows"]] == [4] and found["interrupted"]
    assert lines[-1] == "interrupted; the rows so far are kept"
    with pytest.raises(KeyboardInterrupt):
        throughput("sched2", progress=say, **{**sizes, "batches": (8,)})


def test_every_row_is_announced_with_what_is_expected(measured, said):
    before, after = said[::2], said[1::2]
    labels = [f"sched2 {row['figure']}, batch {row['batch']}: " for row in measured["rows"]]
    assert [line.startswith(label) for label, line in zip(labels, before, strict=True)] == [1] * 4
    assert all("compiling, then 4 times" in line for line in before)
    assert before[0].endswith("expected: not known yet")
    assert all(line.endswith(" s") and "expected: about" in line for line in before[1:])
    assert all(
        line.startswith(label) and line.endswith(" steps/s")
        for label, line in zip(labels, after, strict=True)
    )


def test_throughput_says_on_what(measured):
    assert set(measured["versions"]) == {"python", "jax", "jaxlib", "numpy", "jaxsched"}
    assert measured["device"] and measured["cores"] > 0 and measured["bandwidth_bytes_per_s"] > 0
    assert json.loads(json.dumps(measured, allow_nan=False)) == measured


def test_throughput_prints(measured):
    text = printed(measured)
    for part in ("sched2: steps per second", "environment", "policy", "best environment", "GB/s"):
        assert part in text


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batches": ()}, "batch"),
        ({"batches": (0,)}, "batch"),
        ({"repeats": 0}, "repeats"),
        ({"figures": ("speed",)}, "speed"),
    ],
)
def test_throughput_refuses(wrong, message):
    with pytest.raises(JaxschedError, match=message):
        throughput("sched2", **wrong)


def test_loop_steps_resets_and_uses_what_it_sees():
    system = registry.get("sched2")
    env = functions.environment(system, **SMALL)
    params = env.params(traces.get("sched2-68", **TABLES))
    chooser = at_random(env.action_spec(params))
    loop = environment_loop(env, params, chooser, batch=6, num_steps=400)
    current = start_many(env, params, 6)
    after, (used, decided) = jax.jit(loop)(jax.random.key(0), current)
    assert decided == 1.0 and np.isfinite(used)
    assert (after.steps < 400).all()  # an episode of 40 jobs takes at most 120 steps
    _, (same, _) = jax.jit(loop)(jax.random.key(0), current)
    np.testing.assert_array_equal(used, same)
    other, (differs, _) = jax.jit(loop)(jax.random.key(1), current)
    assert differs != used
    assert not np.array_equal(after.state.time, other.state.time)
    assert set(np.asarray(after.state.episode).tolist()) <= {0, 1}


def test_hashed_uniform_covers_its_range_and_varies():
    draws = jax.random.bits(jax.random.key(0), (500,), jnp.uint32)
    drawn = np.asarray(jax.vmap(lambda word: timing.hashed_uniform(word, (4, 5)))(draws))
    assert drawn.shape == (500, 4, 5) and drawn.min() >= -1 and drawn.max() < 1
    assert abs(drawn.mean()) < 0.03 and abs(drawn.std() - 3**-0.5) < 0.02
    flat = drawn.reshape(500, -1)
    correlation = np.corrcoef(flat.T) - np.eye(20)
    assert np.abs(correlation).max() < 0.2


@pytest.mark.parametrize("num_actions", [3, 32, 40])
def test_pick_uniform_is_legal_and_uniform(num_actions):
    mask = jnp.arange(num_actions) % 3 == 1
    draws = jax.random.bits(jax.random.key(0), (20_000,), jnp.uint32)
    picked = np.asarray(jax.jit(jax.vmap(timing.pick_uniform, (0, None)))(draws, mask))
    counts = np.bincount(picked, minlength=num_actions)
    legal = np.flatnonzero(mask)
    assert counts[np.asarray(~mask)].sum() == 0
    np.testing.assert_allclose(counts[legal], 20_000 / len(legal), rtol=0.12)


def test_consume_depends_on_each_entry():
    tree = {"a": jnp.zeros((2, 3)), "b": jnp.zeros(4, bool)}
    before = timing.consume(tree)
    assert timing.consume({**tree, "a": tree["a"].at[1, 2].set(1.0)}) != before
    assert timing.consume({**tree, "b": tree["b"].at[3].set(True)}) != before


@pytest.mark.slow
def test_scaling_speed_of_one_device():
    settings = ("loop.num_envs=8", "loop.rollout_length=8", "value_network=mlp-8")
    result = scaling_speed("chic", overrides=settings, batch=16, repeats=2, updates_per_repeat=1)
    assert [(row["figure"], row["devices"], row["num_envs"]) for row in result["rows"]] == [
        ("environment", 1, 16),
        ("training", 1, 8),
    ]
    for row in result["rows"]:
        assert row["efficiency"] == 1 and row["env_steps_per_s"]["min"] > 0
    assert "100%" in printed(result)


def test_scaling_counts_devices_in_powers_of_two():
    assert counts(None) == [1]
    for size, expected in ((2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])):
        assert counts(SimpleNamespace(size=size)) == expected


def test_training_speed():
    said = []
    result = training_speed(
        "sched2",
        overrides=(
            "loop.num_envs=4",
            "loop.rollout_length=4",
            "learner.batch_size=8",
            "learner.capacity=256",
            "learner.learning_starts=16",
        ),
        repeats=2,
        updates_per_repeat=2,
        warm_up_updates=4,
        progress=said.append,
    )
    assert "compiling, then 2 + 2 times 2 updates" in said[0] and "expected to take" in said[1]
    assert result["warm_up_updates"] == 4 and result["repeats"] == 2
    for name in ("updates_per_s", "env_steps_per_s", "gradient_steps_per_s"):
        assert 0 < result[name]["min"] <= result[name]["median"] <= result[name]["max"]
    assert result["env_steps_per_s"]["median"] == pytest.approx(
        16 * result["updates_per_s"]["median"]
    )
    assert "gradient steps/s" in printed(result)


def python_without_anything(folder):
    found = folder / "python"
    found.write_text(f"#!/bin/sh\nexec {sys.executable} -c pass\n")
    found.chmod(0o755)
    return str(found)


def test_missing_peers_say_what_to_do(tmp_path):
    known = known_peers("sched2")[0]
    with pytest.raises(JaxschedError, match="bench"):
        Peer(known, str(tmp_path / "nowhere"))
    with pytest.raises(MissingPeer, match="jumanji is not installed.*bench"):
        Peer(known, python_without_anything(tmp_path))


def test_missing_peers_are_named(measured):
    names = [known.name for known in known_peers("sched2")]
    assert [peer["name"] for peer in measured["peers"]] == names
    text = printed(measured)
    assert all(f"{name} is not installed" in text for name in names)


def test_plain_python_is_timed_beside_ours(monkeypatch):
    plain = known_peers("sched2")[-1]
    monkeypatch.setattr("jaxsched.bench.throughput.known_peers", lambda system: (plain,))
    sizes = {"batches": (1, 2), "repeats": 1, "steps_per_repeat": 8, "figures": ("environment",)}
    (peer,) = throughput("sched2", **sizes, options=SMALL, peers=True)["peers"]
    assert peer["name"] == "plain Python sched2" and len(peer["rows"]) == 1
    assert peer["ratio"] > 0 and peer["best"]["cpu_ns_per_step"] > 0


def test_a_worker_that_stops_ends_only_its_own_rows(monkeypatch, tmp_path):
    about = {"name": "brief", "versions": {}, "batched": True}
    (tmp_path / "brief.py").write_text(f"print({json.dumps(json.dumps(about))})\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(
        "jaxsched.bench.throughput.known_peers", lambda system: (Known("brief", "brief"),)
    )
    sizes = {"batches": (1, 2), "repeats": 1, "steps_per_repeat": 8, "figures": ("environment",)}
    lines = []
    measured = throughput("sched2", **sizes, options=SMALL, peers=True, progress=lines.append)
    assert [row["batch"] for row in measured["rows"]] == [1, 2]
    assert measured["peers"] == [{"name": "brief", "missing": "the worker of brief stopped"}]
    assert sum("left out (the worker of brief stopped)" in line for line in lines) == 2
    assert "the worker of brief stopped" in printed(measured)


@pytest.mark.parametrize("index", range(3))
def test_peer_is_timed(index):
    known = known_peers("sched2")[index]
    pytest.importorskip(known.name.replace("-", "_"))
    with Peer(known) as peer:
        row = peer.time(batch=4, num_steps=4, repeats=2)
    assert peer.about["name"].startswith(known.name) and row["steps_per_s"]["median"] > 0


def test_loop_holds_no_constant_per_environment():
    """Memory of a policy (history of observations) is laid out inside the program."""
    system = registry.get("das")
    env = functions.environment(system, window=2)
    params = env.params(traces.get("das-test", num_traces=1))
    weights = functions.init_weights(system, env, "paper", params)
    policy = functions.network_policy(system, env, "paper", "policy", "greedy")
    chooser, batch = by_policy(policy, weights, params), 64
    per_env = timing.bytes_of(chooser.memory)
    assert per_env > 0
    loop = environment_loop(env, params, chooser, batch=batch, num_steps=1)
    start = start_many(env, params, batch)
    known = timing.bytes_of((weights, params, chooser.memory))
    held = timing.bytes_of(jax.jit(loop).trace(jax.random.key(0), start).jaxpr.consts)
    assert timing.bytes_of(weights) <= held <= known
    assert batch * per_env > known  # else the bound above says nothing


def test_the_command_writes_what_it_measures(tmp_path, capsys):
    file = tmp_path / "result.json"
    sizes = ["--batch", "1", "--figure", "environment", "--repeats", "1"]
    small = [f"--set=env.{name}={value}" for name, value in SMALL.items()]
    arguments = ["bench", "throughput", *sizes, *small, "--budget", "20", "--json", str(file)]
    assert main(arguments) == 0
    result = json.loads(file.read_text())
    assert result["kind"] == "throughput" and result["system"] == "sched2"
    assert result["peers"] == []
    date.fromisoformat(result["date"])
    assert result["environment"]["window"] == 3
    assert 0 < result["rows"][0]["steps_per_repeat"] <= MOST_STEPS
    assert result["peak_memory_bytes"] > 2**20
    assert "4 steps first, to know what to expect" in capsys.readouterr().err


def test_the_command_refuses_in_one_line(capsys):
    for arguments, says in (
        (("throughput", "--set", "env.windo=3"), "no field 'windo'"),
        (("throughput", "--figure", "speed"), "unknown figure 'speed'"),
        (("training", "--updates", "0"), "--updates"),
        (("training", "--set", "loop.speed=1"), "no field 'speed'"),
        (("training", "--score", "1", "--repeats", "3"), "--repeats is for bench throughput"),
        (("training", "--score", "1", "--updates", "3"), "not for bench training --score"),
        (("training", "--score", "1", "--warm-up", "0"), "--warm-up is for bench training, not"),
        (("training", "--num-seeds", "1"), "--num-seeds is for bench training --score, not for"),
        (("throughput", "--set", "seed=1"), "no field 'seed'; known are env"),
        (("training", "--quick"), "--quick is for bench throughput, not for bench training"),
        (("scaling", "--batch", "1", "--batch", "2"), "bench scaling measures one --batch"),
    ):
        assert says in refused(capsys, "bench", *arguments)
