"""Policies that were saved before a kind of network was renamed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.sched2.learn import PositionQNetwork
from jaxsched.runs import checkpoints, saved_policies
from jaxsched.systems import functions, registry

SYSTEM = registry.get("sched2")
ENV = functions.environment(SYSTEM, num_servers=2, gpus_per_server=2, window=2)
# Widths of the inputs and outputs of each layer on this cluster, as policies have them on disk.
LAYERS = {
    "server_0": (2, 32),
    "server_1": (32, 16),
    "slot_0": (6, 64),
    "slot_1": (64, 32),
    "queue_0": (68, 128),
    "queue_1": (128, 64),
    "head_0": (96, 256),
    "value": (256, 2),
    "context": (256, 64),
    "score_0": (96, 64),
    "score_1": (64, 1),
}


@pytest.fixture
def saved(tmp_path):
    """Weights, and the folder that holds them as it was written before."""
    rng = np.random.default_rng(0)
    layers = {
        name: {"kernel": rng.normal(size=size), "bias": rng.normal(size=size[-1])}
        for name, size in LAYERS.items()
    }
    weights = {"params": jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), layers)}
    facts = {
        "system": "sched2",
        "behaviour_version": SYSTEM.environment.behaviour_version,
        "environment": functions.environment_options(SYSTEM, ENV),
        "network": "slots",
        "play": "greedy",
        "seed": 0,
    }
    checkpoints.save(tmp_path / "policies" / "seed0", 1, weights, facts)
    return weights, tmp_path


def test_a_policy_saved_with_the_network_slots_loads(saved):
    weights, folder = saved
    learned, _ = saved_policies.load(folder, SYSTEM)
    assert (learned.env, learned.network) == (ENV, "positions")
    assert isinstance(functions.network(SYSTEM, learned.env, learned.network), PositionQNetwork)
    (found,) = learned.weights
    assert jax.tree.structure(found) == jax.tree.structure(weights)
    jax.tree.map(np.testing.assert_array_equal, found, weights)
