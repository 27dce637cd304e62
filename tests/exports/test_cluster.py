"""Policies that take a cluster in arrays: what they see is what the environment shows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.chic.rules.dynamics import exists
from jaxsched.envs.dl2.rules import dynamics as dl2_dynamics
from jaxsched.envs.dl2.rules import tables as dl2_tables
from jaxsched.exports.hand_over import export_policy, load_export
from jaxsched.exports.manifest import ExportFacts
from jaxsched.exports.onnx_graph import onnx_runner
from jaxsched.networks import description as nd
from jaxsched.runs import saved_policies
from jaxsched.systems import functions, registry
from jaxsched.types import action_names
from tests.instances import chic, dl2, sched2, sched2_tables

STEPS, SEED = 25, 3


def states_of(instance):
    """States met in random legal play of a few episodes, with what the environment shows."""
    env, params, random = instance.env, instance.params, np.random.default_rng(SEED)
    step = jax.jit(lambda state, action: env.step(jax.random.key(0), state, action, params))
    reset = jax.jit(lambda episode: env.reset(jax.random.key(0), params, episode))
    for episode in range(2):
        state, timestep = reset(jnp.int32(episode))
        for _ in range(STEPS):
            if timestep.done:
                break
            yield jax.tree.map(np.asarray, (state, timestep.observation, timestep.action_mask))
            legal = np.asarray(timestep.action_mask).nonzero()[0]
            state, timestep = step(state, jnp.int32(random.choice(legal)))


def sched2_arrays(told, params, state, mask):
    jobs = jax.tree.map(lambda column: np.asarray(column)[state.episode], params.jobs)
    rows = [*state.window[: state.in_window], *range(state.head, state.arrived)]
    size = told.inputs["job_gpus"].spec.shape[0]

    def padded(values):
        return np.pad(values, (0, size - len(rows))).astype(np.int32)

    until = state.last_job >> 1
    return {
        "busy_s": np.maximum(until - state.time, 0).astype(np.int32),
        "job_gpus": padded(jobs.num_gpus[rows]),
        "job_duration_s": padded(jobs.run_time[rows, 0]),
        "job_wait_s": padded(state.time - jobs.submit_time[rows]),
        "job_model": padded(jobs.model[rows]),
        "more_to_come": np.array(state.arrived < jobs.num_jobs),
    }


def dl2_arrays(told, params, state, mask):
    jobs = jax.tree.map(lambda column: np.asarray(column)[state.episode], params.jobs)
    rows = state.rows
    tasks = state.tasks[rows]
    return {
        "present": jobs.model[rows] != dl2_tables.NO_MODEL,
        "model": np.minimum(jobs.model[rows], dl2_tables.NO_MODEL - 1),
        "slots": state.slot - np.asarray(dl2_tables.arrival(jobs.info[rows])),
        "epochs_left": (jobs.epochs[rows] - state.progress[rows]).astype(np.float32),
        "workers": np.asarray(dl2_dynamics.workers(tasks)).astype(np.int32),
        "ps": np.asarray(dl2_dynamics.parameter_servers(tasks)).astype(np.int32),
        "mask": mask,
    }


def chic_arrays(told, params, state, mask):
    def column(read):
        return np.array([read(row) for row in state.rows])

    return {
        "present": column(lambda row: bool(exists(row))),
        "model": column(lambda row: row.model).astype(np.int32),
        "iterations_left": column(lambda row: row.left).astype(np.int32),
        "workers": column(lambda row: row.workers).astype(np.int32),
        "servers": column(lambda row: row.servers).astype(np.int32),
        "backlog": np.int32(state.submitted - state.entered),
        "mask": mask,
    }


@pytest.mark.parametrize(
    ("make", "arrays_of"),
    [
        pytest.param(lambda: sched2(extras=True, outlook=True), sched2_arrays, id="sched2"),
        pytest.param(dl2, dl2_arrays, id="dl2", marks=pytest.mark.slow),
        pytest.param(chic, chic_arrays, id="chic", marks=pytest.mark.slow),
        pytest.param(lambda: chic(pair=True), chic_arrays, id="pair", marks=pytest.mark.slow),
    ],
)
def test_what_is_seen_of_the_arrays_is_what_the_environment_shows(make, arrays_of):
    instance = make()
    cluster = functions.cluster_arrays(instance.system, instance.env)
    observe = jax.jit(cluster.observe)
    count = 0
    for state, observation, mask in states_of(instance):
        arrays = arrays_of(cluster, instance.params, state, mask)
        for name, entry in cluster.inputs.items():
            assert arrays[name].shape == entry.spec.shape, name
        found, legal = observe(arrays)
        np.testing.assert_allclose(found, observation, atol=2e-6)
        np.testing.assert_array_equal(legal, mask)
        count += 1
    assert count >= 15


def handed_over(folder):
    """The shipped policy once more, with the golden rows that it has."""
    system = registry.get("sched2")
    learned, (policy,) = saved_policies.load("pretrained", system)
    rows, kinds = policy.meta["golden"]["rows"], ("f4", "?", "f4", "i4")
    golden = nd.GoldenRows(
        *(
            np.array([row[name] for row in rows], kind)
            for name, kind in zip(nd.GoldenRows._fields, kinds, strict=True)
        )
    )
    env = learned.env
    export_policy(
        folder,
        facts=ExportFacts("sched2", env.behaviour_version, {}, 0, {}, {}),
        observation_spec=env.observation_spec(env.params(sched2_tables(0))),
        features=env.features(),
        actions=action_names(env.action_spec(None)),
        network=functions.network(system, env, learned.network).describe(),
        params=policy.weights,
        golden=golden,
        format="onnx",
        cluster=functions.cluster_arrays(system, env),
    )
    return functions.cluster_arrays(system, env)


def test_a_handed_over_policy_takes_a_cluster(tmp_path):
    """Scores and actions are those of the observation that comes out beside them."""
    cluster = handed_over(tmp_path / "p")
    manifest = load_export(tmp_path / "p").manifest
    assert manifest["cluster"]["busy_s"]["unit"] == "s"
    assert set(manifest["files"]["observe.onnx"]["inputs"]) == set(manifest["cluster"])
    random = np.random.default_rng(7)
    rows = [cluster.example(random) for _ in range(5)]
    given = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    found = onnx_runner((tmp_path / "p" / "observe.onnx").read_bytes())(given)
    again = onnx_runner((tmp_path / "p" / "policy.onnx").read_bytes())(
        {"observation": found["observation"], "mask": found["legal"]}
    )
    np.testing.assert_allclose(found["scores"], again["scores"], atol=1e-5)
    np.testing.assert_array_equal(found["action"], again["action"])
    assert len(np.unique(found["action"])) > 1
