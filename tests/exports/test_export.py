"""Exports: readable without JAX, the same numbers, clear refusals."""

import hashlib
import json
import sys
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import onnx
import pytest

from jaxsched.core.policies import greedy_scores
from jaxsched.envs.sched2.environment import Sched2
from jaxsched.envs.sched2.jobs import SCHED2_WORKLOAD
from jaxsched.envs.sched2.learn import PositionQNetwork, QNetwork
from jaxsched.errors import JaxschedError
from jaxsched.exports.golden import golden_rows
from jaxsched.exports.hand_over import export_policy, load_export
from jaxsched.exports.layout import feature_groups
from jaxsched.exports.manifest import ExportFacts
from jaxsched.exports.onnx_graph import onnx_runner
from jaxsched.networks import description as nd
from jaxsched.traces import generate
from jaxsched.types import ArraySpec, Feature
from tests.exports.recorded import read_alone, record

TINY = Sched2(num_servers=2, gpus_per_server=4, window=3, auto_advance=True)
PAPER = Sched2(extras=True)
WORKLOAD = replace(SCHED2_WORKLOAD, num_jobs=60, mean_gap_s=60.0, multi_gpu_sizes=(2, 4, 6, 8))
METRICS = {"avg_effectiveness": np.float32(0.5), "avg_jct": float("nan")}


class Ready(NamedTuple):
    """All that an export takes."""

    env: Sched2
    network: QNetwork
    variables: Any
    arguments: dict[str, Any]


def features(env: Sched2, time_scale: float = 3600.0) -> dict[str, Feature]:
    profile = Feature("run time at each locality level", "s", time_scale)
    return {
        "server*.gpu*.remaining": Feature("time until the GPU is free", "s", time_scale),
        "position*.profile*": profile,
        "position*.demand": Feature("GPUs the job needs", "GPUs", float(env.gpus_per_server)),
        "position*.wait": Feature("time since submission", "s", time_scale),
        "beyond.count": Feature("jobs beyond the window", "jobs", float(env.window)),
        "beyond.demand": Feature("their mean demand", "GPUs", float(env.gpus_per_server)),
        "beyond.duration": Feature("their mean ideal run time", "s", time_scale),
        "beyond.wait": Feature("their mean wait", "s", time_scale),
        "position*.level_now": Feature("locality level if started now", "level", 3.0),
        "position*.effectiveness_now": Feature("effectiveness if started now", "1"),
    }


@cache
def ready(env: Sched2) -> Ready:
    params = env.params(generate(5, 2, config=WORKLOAD))
    spec = env.observation_spec(params)
    network = QNetwork(env.num_servers, env.gpus_per_server, env.window + 1)
    variables = jax.jit(network.init)(jax.random.key(3), spec.zeros())
    golden = golden_rows(env, params, network.apply, variables, jax.random.key(4), 10)
    arguments = {
        "facts": ExportFacts(
            system=env.name,
            behaviour_version=env.behaviour_version,
            environment={"num_servers": env.num_servers, "window": env.window},
            seed=3,
            trace_digests={"synthetic": "sha256:00"},
            metrics=METRICS,
            preset="quick",
            variants=("extra [features]",),
        ),
        "observation_spec": spec,
        "features": features(env),
        "actions": [*(f"position{q}" for q in range(env.window)), "void"],
        "network": network.describe(),
        "params": variables,
        "golden": golden,
    }
    return Ready(env, network, variables, arguments)


@pytest.fixture
def folder(tmp_path):
    return export_policy(tmp_path / "policy", **ready(TINY).arguments)


def edit_manifest(folder: Path, change) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("env", [TINY, PAPER], ids=["tiny", "paper"])
def test_the_example_reads_it_with_numpy_alone(tmp_path, env):
    folder = export_policy(tmp_path / "policy", **ready(env).arguments)
    done = read_alone("read_policy.py", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "greedy actions: all agree" in done.stdout
    assert float(done.stdout.split("score: ")[1].split(";")[0]) <= 1e-5


def test_the_example_fails_where_scores_or_actions_differ(folder):
    def shift(manifest):
        manifest["golden"]["rows"][0]["scores"][0] += 0.01

    edit_manifest(folder, shift)
    assert read_alone("read_policy.py", folder).returncode == 1

    def lie(manifest):
        shift(manifest)
        manifest["golden"]["tolerance"] = 1.0
        row = manifest["golden"]["rows"][0]
        row["action"] = (row["action"] + 1) % len(row["mask"])

    edit_manifest(folder, lie)
    done = read_alone("read_policy.py", folder)
    assert done.returncode == 1
    assert "1 DIFFER" in done.stdout


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    path = tmp_path_factory.mktemp("forms") / "policy"
    return export_policy(path, **ready(TINY).arguments, format=["onnx", "stablehlo"])


@pytest.mark.parametrize("script", ["read_policy.py", "read_onnx.py"])
def test_readers_without_jax_decide_the_same_over_an_episode(forms, script, tmp_path):
    parts, file = ready(TINY), tmp_path / "episode.npz"
    player = greedy_scores("policy", parts.network.apply)
    tables = generate(5, 2, config=WORKLOAD)
    assert record(file, TINY, player, parts.variables, TINY.params(tables)) >= 60
    done = read_alone(script, forms, file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all agree" in done.stdout
    values = dict(np.load(file))
    legal = values["mask"][30].nonzero()[0]
    values["action"][30] = next(a for a in [*legal, 99] if a != values["action"][30])
    np.savez(file, **values)
    done = read_alone(script, forms, file)
    assert done.returncode == 1 and "DIFFER" in done.stdout


def test_forms_take_any_batch_and_say_what_they_are(forms):
    """Mask and choice are inside: scores and action come out."""
    golden = ready(TINY).arguments["golden"]
    model = onnx.load(forms / "policy.onnx")
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 17)]
    assert {p.key: p.value for p in model.metadata_props}["system"] == "sched2"
    batch = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    assert batch == "batch"
    for rows in (slice(0, 1), slice(2, 9)):
        given = {"observation": golden.observation[rows], "mask": golden.mask[rows]}
        found = onnx_runner(model.SerializeToString())(given)
        np.testing.assert_allclose(found["scores"], golden.scores[rows], atol=1e-5)
        np.testing.assert_array_equal(found["action"], golden.action[rows])
    exported = jax.export.deserialize(bytearray((forms / "policy.stablehlo").read_bytes()))
    assert exported.platforms == ("cpu", "cuda")
    found = exported.call({"observation": golden.observation, "mask": golden.mask})
    np.testing.assert_array_equal(found["action"], golden.action)
    facts = load_export(forms).manifest["files"]
    for name, form in facts.items():
        assert form["sha256"] == hashlib.sha256((forms / name).read_bytes()).hexdigest()


def test_a_form_without_its_package_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        JaxschedError, match=r"needs the package onnx.*pip install 'jaxsched\[onnx\]'"
    ):
        export_policy(tmp_path / "policy", **ready(TINY).arguments, format="onnx")
    assert not list(tmp_path.iterdir())


def test_onnx_itself_checks_where_onnxruntime_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    export_policy(tmp_path / "policy", **ready(TINY).arguments, format="onnx")


def test_a_form_that_decides_otherwise_is_not_kept(tmp_path, monkeypatch):
    """The rectifiers of the model are made to keep the smaller number."""
    from jaxsched.exports import onnx_graph

    monkeypatch.setitem(onnx_graph._NODES, "maximum", "Min")
    with pytest.raises(JaxschedError, match="policy.onnx: misses the golden scores by"):
        export_policy(tmp_path / "policy", **ready(TINY).arguments, format="onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("env", [TINY, PAPER], ids=["tiny", "paper"])
def test_golden_rows_are_what_the_network_says_of_varied_states(env):
    parts = ready(env)
    golden = parts.arguments["golden"]
    scores = jax.jit(parts.network.apply)(parts.variables, golden.observation)
    np.testing.assert_allclose(golden.scores, scores, atol=1e-6)
    legal = np.where(golden.mask, golden.scores, -np.inf)
    np.testing.assert_array_equal(golden.action, legal.argmax(axis=1))
    assert len(np.unique(golden.mask, axis=0)) >= 5
    assert len(np.unique(golden.observation, axis=0)) == len(golden.action) == 10
    assert (golden.scores.argmax(axis=1) != golden.action).any()  # the mask matters


def test_load_gives_the_same_bits_and_facts(folder):
    manifest, params = load_export(folder, expected={"system": "sched2", "behaviour_version": 1})
    parts = ready(TINY)
    assert jax.tree.structure(params) == jax.tree.structure(parts.variables)
    for ours, theirs in zip(jax.tree.leaves(params), jax.tree.leaves(parts.variables), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == np.asarray(theirs).tobytes()
    golden = parts.arguments["golden"]
    row = manifest["golden"]["rows"][0]
    assert np.array_equal(np.array(row["observation"], np.float32), golden.observation[0])
    assert manifest["format"] == "jaxsched-policy" and manifest["format_version"] == 1
    assert manifest["seed"] == 3 and manifest["preset"] == "quick"
    assert manifest["variants"] == ["extra [features]"]
    assert manifest["metrics"] == {"avg_effectiveness": 0.5, "avg_jct": None}
    assert manifest["actions"]["names"] == ["position0", "position1", "position2", "void"]
    assert set(manifest["provenance"]) == {"date", "code", "python", "versions", "device"}
    assert manifest["weights"]["tensors"]["server_0.kernel"] == {
        "shape": [4, 32],
        "dtype": "float32",
    }
    data = (folder / "policy.safetensors").read_bytes()
    assert manifest["weights"]["sha256"] == hashlib.sha256(data).hexdigest()
    assert sorted(path.name for path in folder.parent.iterdir()) == ["policy"]  # nothing left over


def test_the_layout_names_every_entry_once(folder):
    observation = load_export(folder).manifest["observation"]
    names, groups = observation["names"], observation["groups"]
    found = {}
    for group in groups:
        for index in np.ndindex(*group["shape"]):
            name = group["pattern"]
            for number in index:
                name = name.replace("*", str(number), 1)
            found[group["first"] + int(np.dot(index, group["strides"]))] = name
    assert [found[position] for position in range(len(names))] == list(names)
    gpus = groups[0]
    assert (gpus["first"], gpus["shape"], gpus["strides"]) == (0, [2, 4], [4, 1])
    assert (gpus["unit"], gpus["divisor"]) == ("s", 3600.0)
    profile = groups[1]
    assert (profile["first"], profile["shape"], profile["strides"]) == (8, [3, 4], [6, 1])


def test_an_irregular_layout_lists_positions():
    groups = feature_groups(["a0", "b", "a1", "a2"], {"a*": Feature("", "s"), "b": Feature("", "")})
    np.testing.assert_array_equal(groups[0]["positions"], [0, 2, 3])
    assert groups[1]["first"] == 1


@pytest.mark.parametrize(
    ("network", "size"),
    [
        (QNetwork(3, 2, 4, head_size=8, server_sizes=(), queue_sizes=()), 20),
        (QNetwork(3, 2, 4, head_size=8, server_sizes=(5,), queue_sizes=(7, 6, 5)), 20),
        (
            PositionQNetwork(3, 2, 2, (4,), (6, 5), (7,), head_size=8, context_size=3),
            3 * 2 + 2 * 6 + 4,
        ),
        (
            PositionQNetwork(3, 2, 2, (4,), (6,), (7, 5), head_size=8, context_size=3),
            3 * 2 + 2 * 8 + 4,
        ),
    ],
)
def test_the_description_follows_the_network(network, size):
    observation = jax.random.uniform(jax.random.key(0), (size,), maxval=30.0)
    variables = jax.jit(network.init)(jax.random.key(1), observation)
    weights = {
        f"{layer}.{part}": np.asarray(value)
        for layer, parts in variables["params"].items()
        for part, value in parts.items()
    }
    steps = json.loads(json.dumps(network.describe()))
    assert set(nd.weight_names(steps)) == set(weights)
    scores = jax.jit(network.apply)(variables, observation)
    np.testing.assert_allclose(nd.evaluate(steps, weights, observation), scores, atol=1e-5)


def test_what_is_no_number_comes_out_as_such_without_a_warning():
    # Some builds of BLAS raise the same flag for what lies beyond small arrays.
    steps = [nd.dense("observation", "only", 1, output=nd.SCORES)]
    weights = {"only.kernel": np.full((2, 1), np.inf, np.float32), "only.bias": np.ones(1)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = nd.evaluate(steps, weights, np.array([1, -1], np.float32))
    assert np.isnan(scores).all()


def test_damaged_weights_are_refused(folder):
    file = folder / "policy.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(JaxschedError, match="policy.safetensors: damaged: its SHA-256"):
        load_export(folder)
    file.unlink()
    with pytest.raises(JaxschedError, match="policy.safetensors: cannot be read"):
        load_export(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "not an exported policy"),
        ({"format_version": 3}, "export format version 3, this version of jaxsched reads 1 and 2"),
        ({"format_version": 2}, "not a complete export: the document lacks 'inputs'"),
        ({"weights": None}, "not a complete export"),
    ],
)
def test_other_manifests_are_refused(folder, change, message):
    edit_manifest(folder, lambda manifest: manifest.update(change))
    with pytest.raises(JaxschedError, match=message):
        load_export(folder)


def test_what_is_no_export_is_refused(tmp_path):
    with pytest.raises(JaxschedError, match="no such export folder"):
        load_export(tmp_path / "absent")
    with pytest.raises(JaxschedError, match="not an exported policy"):
        load_export(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(JaxschedError, match="manifest.json: cannot be read"):
        load_export(tmp_path)


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"system": "dl2"}, "the policy has system 'sched2', expected 'dl2'"),
        ({"behaviour_version": 2}, "the policy has behaviour version 1, expected 2"),
        ({"environment": {"window": 9}}, "the policy has environment"),
    ],
)
def test_another_system_is_refused(folder, expected, message):
    with pytest.raises(JaxschedError, match=message):
        load_export(folder, expected=expected)


def test_only_an_export_is_overwritten_and_only_when_asked(folder, tmp_path):
    arguments = ready(TINY).arguments
    with pytest.raises(JaxschedError, match="exists already"):
        export_policy(folder, **arguments)
    (folder / "left_over").touch()
    export_policy(folder, **arguments, overwrite=True)
    assert sorted(p.name for p in folder.iterdir()) == ["manifest.json", "policy.safetensors"]
    (tmp_path / "other").mkdir()
    export_policy(tmp_path / "other", **arguments, overwrite=True)  # empty
    for path in (tmp_path / "thesis", tmp_path / "file" / "manifest.json"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    for path in (tmp_path / "thesis", tmp_path / "file"):
        with pytest.raises(JaxschedError, match="not an export, so it is not overwritten"):
            export_policy(path, **arguments, overwrite=True)
    assert (tmp_path / "thesis").read_text() == "mine"
    with pytest.raises(JaxschedError, match="cannot be written"):
        export_policy(tmp_path / "thesis" / "policy", **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "pickle"}, "unknown export format 'pickle'; accepted: safetensors, onnx, stab"),
        ({"format": "onnx,"}, "unknown export format ''"),
        ({"actions": ["position0", "void"]}, r"mask is \[10, 4\], expected \[10, 2\]"),
        ({"features": {}}, r"'server\*.gpu\*.remaining' are not described"),
        ({"observation_spec": ArraySpec((30,))}, "a different name per entry"),
        ({"params": {}}, "one collection 'params'"),
    ],
)
def test_parts_that_do_not_fit_are_refused(tmp_path, change, message):
    with pytest.raises(JaxschedError, match=message):
        export_policy(tmp_path / "policy", **{**ready(TINY).arguments, **change})
    assert not list(tmp_path.iterdir())


def test_an_export_that_its_description_does_not_give_is_refused(tmp_path):
    parts = ready(TINY)
    golden, path = parts.arguments["golden"], tmp_path / "policy"

    def refuse(message: str, **change: Any) -> None:
        with pytest.raises(JaxschedError, match=message):
            export_policy(path, **{**parts.arguments, **change})

    refuse("misses the golden scores by", golden=golden._replace(scores=golden.scores + 0.1))
    refuse("misses the golden scores by nan", golden=golden._replace(scores=golden.scores * np.nan))
    refuse("gives other actions", golden=golden._replace(action=(golden.action + 1) % 4))
    refuse("a mask without a legal action", golden=golden._replace(mask=golden.mask & False))
    refuse("7 golden rows", golden=type(golden)(*(part[:7] for part in golden)))
    refuse("differ in head_1.bias, head_1.kernel", network=parts.network.describe()[:-1])
    refuse("is int32; an export takes float32", params=jax.tree.map(np.int32, parts.variables))
    nan = jax.tree.map(lambda leaf: leaf * np.nan, parts.variables)
    refuse("is not finite", params=nan)


def test_random_play_that_meets_too_few_states_is_refused():
    parts, params = ready(TINY), TINY.params(generate(5, 2, config=WORKLOAD))
    with pytest.raises(JaxschedError, match="different states, too few for 5000 golden rows"):
        golden_rows(
            TINY, params, parts.network.apply, parts.variables, jax.random.key(4), count=5000
        )
