"""Hand-overs of policies with memory and real-valued actions: programs of named arrays."""

import json
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.policies import View
from jaxsched.envs.das.learn import Trunk, policies, read_kind
from jaxsched.envs.das.learn.policies import array_policy
from jaxsched.errors import JaxschedError
from jaxsched.exports import operations
from jaxsched.exports.hand_over import load_export
from jaxsched.exports.manifest import ExportFacts
from jaxsched.exports.programs import export_program, follow_golden, golden_decisions
from jaxsched.exports.tracing import trace
from jaxsched.exports.weights import named_weights, unnamed
from jaxsched.runs import saved_policies
from jaxsched.systems import functions
from jaxsched.types import action_names
from tests.exports.recorded import read_alone, record
from tests.instances import das

KIND = "das:width=8,heads=2,history=3,walk_length=4,extra_features=True"
OPTIONS = {
    "das:width=8,heads=2,history=2,product=kronecker,kernel=graph,basis=walk,follows=job": (
        {"numbers": True}
    ),
    "das:variant=DA,width=8,heads=2": {},
    "linear": {},
    "scored": {"estimates": True},
    "dl2": {},
    "rifling": {},
}


class Ready(NamedTuple):
    """A policy and where it plays."""

    system: Any
    env: Any
    params: Any
    kind: str
    weights: Any
    policy: Any


@cache
def ready(kind=KIND, **options):
    """A policy of weights that were drawn, so that everything matters."""
    instance = das(**options)
    env, params = instance.env, instance.params
    key, specs = jax.random.key(3), env.specs(params)
    shapes, structure = jax.tree.flatten(
        jax.eval_shape(lambda: policies.init_weights(env, kind, key, specs))
    )
    random = np.random.default_rng(0)
    drawn = [0.5 * random.normal(size=x.shape).astype("f4") for x in shapes]
    weights = jax.tree.unflatten(structure, drawn)
    return Ready(instance.system, env, params, kind, weights, array_policy(env, kind))


@cache
def golden(kind=KIND, **options):
    given = ready(kind, **options)
    key = jax.random.key(4)
    return golden_decisions(given.env, given.params, given.policy, given.weights, key)


def arguments(given, rows):
    return {
        "facts": ExportFacts(
            system="das",
            behaviour_version=given.env.behaviour_version,
            environment=functions.environment_options(given.system, given.env),
            seed=3,
            trace_digests={},
            metrics={},
            network_kind=given.kind,
        ),
        "policy": given.policy,
        "features": given.env.features(),
        "actions": action_names(given.env.action_spec(None)),
        "weights": given.weights,
        "golden": rows,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "policy"
    return export_program(path, **arguments(ready(), golden()), format="onnx,stablehlo")


@pytest.fixture(scope="module")
def episode(tmp_path_factory):
    """All greedy decisions of an episode, as the library's own player takes them."""
    given, file = ready(), tmp_path_factory.mktemp("episode") / "episode.npz"
    player = functions.network_policy(given.system, given.env, given.kind, "das", "greedy")
    assert record(file, given.env, player, given.weights, given.params) >= 5
    return file


@pytest.mark.parametrize("script", ["read_program.py", "read_onnx.py"])
def test_readers_without_jax_decide_the_same_over_an_episode(folder, episode, script):
    done = read_alone(script, folder, episode)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "choices: all agree" in done.stdout
    num = len(np.load(episode)["priority"])
    assert done.stdout.startswith(f"{16 + num} decisions")


@pytest.mark.parametrize("script", ["read_program.py", "read_onnx.py"])
def test_readers_fail_where_an_action_differs(folder, episode, script, tmp_path):
    values = dict(np.load(episode))
    values["priority"] = -values["priority"]
    np.savez(tmp_path / "other.npz", **values)
    done = read_alone(script, folder, tmp_path / "other.npz")
    assert done.returncode == 1 and "DIFFER" in done.stdout, done.stdout + done.stderr


def test_memory_and_noise_matter_in_the_golden_decisions():
    """Otherwise a reader that leaves them out would pass."""
    rows, given = golden(), ready()
    assert rows.inputs["real"].any(axis=-1).all()
    program = traced()
    tensors = {**named_weights(given.weights), **program.constants}
    # Without the outputs that carry it, memory is taken as the golden inputs have it.
    outputs = {name: program.outputs[name] for name in given.policy.action}
    rows = rows._replace(outputs={name: rows.outputs[name] for name in outputs})
    for name in ("gram", "moment", "priority_noise", "walk_noise", "affinity_noise"):
        assert rows.inputs[name].any()
        changed = {**rows.inputs, name: np.zeros_like(rows.inputs[name])}
        with pytest.raises(JaxschedError, match="misses the golden"):
            follow_golden(program.steps, tensors, outputs, rows._replace(inputs=changed))
    quiet = rows.inputs["priority_noise"][::2]
    assert not quiet.any()  # half of the sequences are greedy


@cache
def traced():
    given = ready()

    def function(flat, inputs):
        return given.policy.decide(unnamed(given.weights, flat), inputs)

    return trace(function, named_weights(given.weights), given.policy.inputs)


def test_draws_are_those_of_the_sampling_player():
    given = ready()
    _, network = read_kind(KIND)
    player = policies.das_policy(given.env, network, play="sampled")
    state, _ = given.env.reset(jax.random.key(0), given.params, jnp.int32(0))
    observation, mask = given.env.observe(state, given.params)
    key, memory = jax.random.key(8), player.init(given.params)
    view = View(observation, mask, None, None)
    action, after = jax.jit(player.act)(given.weights, memory, view, key)
    noise = policies.normals(Trunk(given.env, network), key)
    inputs = {
        **{name: x for name, x in observation._asdict().items() if x is not None},
        **memory._asdict(),
        "priority_noise": noise.priority,
        "walk_noise": noise.weights,
        "affinity_noise": noise.affinity,
    }
    program = traced()
    inputs = {name: np.asarray(x) for name, x in inputs.items()}
    values = operations.run(
        program.steps, {**named_weights(given.weights), **program.constants, **inputs}
    )
    found = {name: values[value] for name, value in program.outputs.items()}
    np.testing.assert_allclose(found["priority"], action["priority"], atol=1e-5)
    np.testing.assert_allclose(found["affinity"], action["affinity"], atol=1e-4)
    np.testing.assert_allclose(found["next_gram"], after.gram, atol=1e-4)


def test_the_folder_loads_as_a_policy(folder):
    given = ready()
    learned, (saved,) = saved_policies.load(folder, given.system)
    assert learned.env == given.env and learned.network == KIND and learned.play == "greedy"
    assert jax.tree.structure(saved.weights) == jax.tree.structure(given.weights)
    for ours, theirs in zip(*map(jax.tree.leaves, (saved.weights, given.weights)), strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_the_manifest_tells_inputs_and_outputs(folder):
    manifest = load_export(folder).manifest
    roles = {entry["name"]: entry["role"] for entry in manifest["inputs"]}
    assert roles == {
        "jobs": "observation", "machines": "observation", "real": "observation",
        "gram": "memory", "moment": "memory",
        "priority_noise": "noise", "affinity_noise": "noise", "walk_noise": "noise",
    }  # fmt: skip
    names = [entry["name"] for entry in manifest["outputs"]]
    assert names == ["priority", "affinity", "next_gram", "next_moment"]
    jobs = manifest["inputs"][0]
    ages = next(group for group in jobs["groups"] if group["pattern"] == "position*.age")
    assert (ages["unit"], ages["divisor"]) == ("s", 86400.0)
    assert (ages["first"], ages["shape"], ages["strides"]) == (4, [4], [5])
    onnx = manifest["files"]["policy.onnx"]
    assert onnx["opset"] == 17 and onnx["inputs"]["jobs"]["shape"] == ["batch", 4, 5]
    assert manifest["files"]["policy.stablehlo"]["platforms"] == ["cpu", "cuda"]
    assert set(manifest["program"]["operations"]) <= set(operations.OPERATIONS)
    assert manifest["format_version"] == 2


def test_batches_of_any_size(folder):
    from jaxsched.exports.onnx_graph import onnx_runner

    rows = golden()
    run = onnx_runner((folder / "policy.onnx").read_bytes())
    three = {name: x.reshape(-1, *x.shape[2:])[:3] for name, x in rows.inputs.items()}
    wanted = rows.outputs["affinity"].reshape(-1, 4, 2)[:3]
    np.testing.assert_allclose(run(three)["affinity"], wanted, atol=1e-4)
    one = run({name: x[:1] for name, x in three.items()})
    np.testing.assert_allclose(one["affinity"], wanted[:1], atol=1e-4)


def test_a_program_that_decides_otherwise_is_refused(tmp_path):
    rows = golden()
    other = {**rows.outputs, "priority": rows.outputs["priority"] + 0.01}
    with pytest.raises(JaxschedError, match="misses the golden priority by 0.01"):
        export_program(tmp_path / "p", **arguments(ready(), rows._replace(outputs=other)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bits", [lambda x: x & 1, lambda x: x | 1, lambda x: ~x])
def test_bits_are_not_taken_for_truth_values(bits):
    with pytest.raises(JaxschedError, match="of truth values only"):
        trace(lambda weights, inputs: {"y": bits(inputs["x"])}, {}, {"x": np.zeros(3, np.int32)})


def test_what_has_no_operation_is_refused():
    with pytest.raises(JaxschedError, match="computes 'sort', which the vocabulary"):
        trace(lambda weights, inputs: {"y": jnp.sort(inputs["x"])}, {}, {"x": jnp.zeros(3)})
    with pytest.raises(JaxschedError, match="unknown operation 'sort'"):
        operations.run([{"op": "sort", "inputs": [], "output": "y"}], {})
    with pytest.raises(JaxschedError, match="program step 0 needs 'x', which is absent"):
        operations.run([{"op": "exp", "inputs": ["x"], "output": "y"}], {})


@pytest.mark.parametrize("kind", OPTIONS)
def test_every_kind_of_policy_is_handed_over(kind, tmp_path):
    """The default tests do this for the paper's; the others differ in operations only."""
    given, rows = ready(kind, **OPTIONS[kind]), golden(kind, **OPTIONS[kind])
    folder = export_program(tmp_path / "p", **arguments(given, rows), format="onnx,stablehlo")
    for script in ("read_program.py", "read_onnx.py"):
        done = read_alone(script, folder)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_shipped_policy_is_the_rule_by_name():
    """Its program gives the golden decisions, and its weights are those of ``scored``."""
    system = ready().system
    folder = saved_policies.pretrained_folder(system)
    learned, (saved,) = saved_policies.load("pretrained", system)
    rule = functions.shipped_rule(system, "scored", functions.environment(system))
    assert rule.env == learned.env and rule.kind == learned.network == "scored"
    for ours, theirs in zip(*map(jax.tree.leaves, (saved.weights, rule.weights)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    done = read_alone("read_program.py", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((folder / "manifest.json").read_text())["play"] == "greedy"
