"""Environments as StableHLO: played without the library, with the same result."""

import json

import jax
import numpy as np
import pytest

from jaxsched.core.policies import greedy_scores
from jaxsched.errors import JaxschedError
from jaxsched.exports import environments
from jaxsched.exports.golden import golden_rows
from jaxsched.exports.hand_over import export_policy
from jaxsched.exports.manifest import ExportFacts
from jaxsched.networks.mlp import MLP
from jaxsched.systems import functions, registry
from jaxsched.traces import registry as traces
from jaxsched.types import action_names
from tests.exports.recorded import read_alone, record
from tests.instances import INSTANCES, sched2


@pytest.fixture(scope="module")
def instance():
    return sched2(auto_advance=True, extras=True)


@pytest.fixture(scope="module")
def folder(instance, tmp_path_factory):
    path = tmp_path_factory.mktemp("environment") / "sched2"
    return environments.export_environment(instance.system, instance.env, instance.params, path)


@pytest.fixture(scope="module")
def policy(instance, tmp_path_factory):
    """A network of drawn weights, its folder, and an episode that it played."""
    env, params = instance.env, instance.params
    spec = env.observation_spec(params)
    network = MLP(env.window + 1, (8,))
    weights = jax.jit(network.init)(jax.random.key(2), spec.zeros())
    path = tmp_path_factory.mktemp("policy")
    export_policy(
        path / "policy",
        facts=ExportFacts("sched2", 1, {}, 0, {}, {}),
        observation_spec=spec,
        features=env.features(),
        actions=action_names(env.action_spec(None)),
        network=network.describe(),
        params=weights,
        golden=golden_rows(env, params, network.apply, weights, jax.random.key(1)),
        format="stablehlo",
    )
    record(path / "episode.npz", env, greedy_scores("p", network.apply), weights, params)
    return path


def test_a_program_without_the_library_plays_the_same_episode(folder, policy):
    done = read_alone("play_environment.py", folder, policy / "policy", without=())
    assert done.returncode == 0, done.stdout + done.stderr
    episode = np.load(policy / "episode.npz")
    assert "golden steps: all agree" in done.stdout
    num, total = len(episode["action"]), episode["reward"].sum()
    assert num > 5 and f"episode 0: {num} steps, reward {total:.6g}" in done.stdout


def test_the_functions_take_any_batch(folder):
    manifest, calls = environments.load_environment(folder)
    assert manifest["num_episodes"] == 3
    key = np.zeros((5, 2), np.uint32)
    episode = np.array([0, 1, 2, 0, 1], np.int32)
    found = calls["reset"]({"key": key, "episode": episode})
    assert {name for name in found} == set(manifest["functions"]["reset"]["outputs"])
    golden = environments.from_bytes((folder / "golden.safetensors").read_bytes(), folder)
    np.testing.assert_array_equal(golden["first.episode"], [0, 1, 2])
    for name in ("observation", "mask"):
        np.testing.assert_allclose(found[name], golden[f"first.{name}"][episode], atol=1e-6)


def test_what_differs_from_the_environment_is_refused(folder):
    _, calls = environments.load_environment(folder)
    golden = environments.from_bytes((folder / "golden.safetensors").read_bytes(), folder)
    golden["reward"] = golden["reward"] + 0.01
    with pytest.raises(JaxschedError, match="step.stablehlo: misses the golden reward by 0.01"):
        environments.check_steps(calls, golden)


def test_damaged_folders_are_refused(folder, tmp_path):
    with pytest.raises(JaxschedError, match="no such file"):
        environments.read_environment(tmp_path)
    for name in ("step.stablehlo", "params.safetensors"):
        for file in folder.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(JaxschedError, match=f"{name}: damaged: its SHA-256"):
            environments.load_environment(tmp_path)
        (tmp_path / name).write_bytes(data + b"more")
        with pytest.raises(JaxschedError, match="bytes; accepted: "):
            environments.load_environment(tmp_path)
    manifest = json.loads((folder / "environment.json").read_text())
    manifest["functions"]["step"]["file"] = "../step.stablehlo"
    (tmp_path / "environment.json").write_text(json.dumps(manifest))
    with pytest.raises(JaxschedError, match="functions.step.file is '../step.stablehlo'"):
        environments.load_environment(tmp_path)


def test_only_an_environment_is_overwritten(folder, instance, tmp_path):
    with pytest.raises(JaxschedError, match="exists already"):
        environments.export_environment(instance.system, instance.env, instance.params, folder)
    (tmp_path / "mine").touch()
    with pytest.raises(JaxschedError, match="not an export, so it is not overwritten"):
        environments.export_environment(
            instance.system, instance.env, instance.params, tmp_path, overwrite=True
        )


@pytest.mark.parametrize(
    "name",
    [name if name == "das" else pytest.param(name, marks=pytest.mark.slow) for name in INSTANCES],
)
def test_environments_of_the_usual_size_are_exported(name):
    """Where batches are taken apart by their size; tiny windows leave that out."""
    system = registry.get(name)
    env = functions.environment(system)
    params = env.params(traces.get(functions.traces(system).test, num_traces=2)[:2])
    steps = environments.functions_of(env, params)
    arrays = {k: np.asarray(x) for k, x in environments.named_leaves("params", params).items()}
    exported = environments.exported_function(steps, "step", arrays)
    assert exported.platforms == ("cpu", "cuda")
    assert str(exported.in_avals[-1].shape[0]) == "batch"


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTANCES)
def test_every_system_is_exported_and_plays(name, tmp_path):
    """The default tests do this for SCHED2; writing plays the golden steps again."""
    for variant, make in INSTANCES[name].items():
        given = make()
        path = tmp_path / variant
        environments.export_environment(given.system, given.env, given.params, path)
        done = read_alone("play_environment.py", path, without=())
        assert done.returncode == 0, done.stdout + done.stderr
