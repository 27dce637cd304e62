"""The networks of MLFS: symmetric in servers, of any number of them, and described as they are."""

import json
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.mlfs.learn import HIDDEN_FROM_RL, ServerPolicy, ServerValue
from jaxsched.envs.mlfs.rules.observation import (
    NUM_GLOBAL,
    NUM_SERVER,
    NUM_TASK,
    TASK_NAMES,
)
from jaxsched.errors import JaxschedError
from jaxsched.networks import description as nd

S = 3
HIDDEN = (6, 5)
COMMON = NUM_GLOBAL + NUM_TASK
NETWORKS = {"policy": ServerPolicy, "value": ServerValue}


@cache
def network_of(name, servers=S, hidden_inputs=()):
    """A small network, and what computes it."""
    network = NETWORKS[name](servers, HIDDEN, hidden_inputs)
    return network, jax.jit(network.apply)


@cache
def weights_of(name, hidden_inputs=()):
    """Weights far from the small heads of a new network, so that differences show."""
    shapes = shapes_of(network_of(name, hidden_inputs=hidden_inputs)[0])
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda x: rng.normal(0, 0.5, x.shape).astype(np.float32), shapes)


def shapes_of(network):
    """Shapes of its weights."""
    size = jax.ShapeDtypeStruct((COMMON + NUM_SERVER * network.num_servers,), jnp.float32)
    return jax.eval_shape(network.init, jax.random.key(0), size)


def observations(*lead, servers=S, seed=0):
    """Any numbers."""
    size = COMMON + NUM_SERVER * servers
    return np.random.default_rng(seed).normal(size=(*lead, size)).astype(np.float32)


def permuted(observation, order):
    """The observation with the servers in another order."""
    blocks = observation[..., COMMON:].reshape(*observation.shape[:-1], len(order), NUM_SERVER)
    flat = blocks[..., order, :].reshape(*observation.shape[:-1], -1)
    return np.concatenate([observation[..., :COMMON], flat], axis=-1)


def relu_layers(x, weights, name):
    """The layers ``name_0``, ``name_1`` in NumPy."""
    for i in range(len(HIDDEN)):
        layer = weights["params"][f"{name}_{i}"]
        x = np.maximum(x @ np.asarray(layer["kernel"]) + np.asarray(layer["bias"]), 0)
    return x


def test_the_networks_are_what_the_specification_says():
    observation = observations()
    common, blocks = observation[:COMMON], observation[COMMON:].reshape(S, NUM_SERVER)
    for name, head in (("policy", "queue_logit"), ("value", "value")):
        weights = weights_of(name)
        rows = [relu_layers(np.concatenate([common, b]), weights, "server") for b in blocks]
        summary = relu_layers(np.concatenate([common, np.mean(rows, axis=0)]), weights, "queue")
        last = weights["params"][head]
        expected = summary @ last["kernel"] + last["bias"]
        if name == "policy":
            scored = weights["params"]["server_logit"]
            logits = [(row @ scored["kernel"] + scored["bias"])[0] for row in rows]
            expected = np.array([*logits, expected[0]])
            assert network_of(name)[1](weights, observation).shape == (S + 1,)
        else:
            expected = expected[0]
            assert network_of(name)[1](weights, observation).shape == ()
        found = network_of(name)[1](weights, observation)
        assert found.dtype == jnp.float32
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lead", [(4,), (2, 2)])
def test_any_leading_axes(lead):
    rows = observations(4)
    batched = rows.reshape(*lead, -1)
    for name in NETWORKS:
        _, apply = network_of(name)
        weights = weights_of(name)
        single = np.stack([apply(weights, row) for row in rows])
        found = np.asarray(apply(weights, batched))
        assert found.shape[: len(lead)] == lead
        np.testing.assert_allclose(found.reshape(single.shape), single, rtol=1e-4, atol=1e-4)


def test_permuting_servers_permutes_their_logits_and_changes_nothing_else():
    observation, order = observations(5), [2, 0, 1]
    other = permuted(observation, order)
    assert np.abs(other - observation).max() > 1
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4)
    logits, moved = (network_of("policy")[1](weights_of("policy"), x) for x in (observation, other))
    close(moved, np.asarray(logits)[:, [*order, S]])
    assert np.abs(np.asarray(logits)[:, :S] - np.asarray(moved)[:, :S]).max() > 0.1
    values = [network_of("value")[1](weights_of("value"), x) for x in (observation, other)]
    close(*values)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_weights_serve_any_number_of_servers(name):
    shapes = [shapes_of(network_of(name, servers)[0]) for servers in (1, S, 7)]
    assert shapes[0] == shapes[1] == shapes[2]
    # Twice the same servers are the same logits twice, and the same mean.
    observation = observations()
    doubled = np.concatenate([observation, observation[COMMON:]])
    found = np.asarray(network_of(name)[1](weights_of(name), observation))
    twice = np.asarray(network_of(name, 2 * S)[1](weights_of(name), doubled))
    expected = found if name == "value" else found[[*range(S), *range(S), S]]
    np.testing.assert_allclose(twice, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_hidden_entries_have_no_effect_and_all_others_have(name):
    weights = weights_of(name, HIDDEN_FROM_RL)
    _, apply = network_of(name, hidden_inputs=HIDDEN_FROM_RL)
    slope = jax.jit(jax.grad(lambda x: jnp.sum(apply(weights, x))))
    slopes = sum(np.abs(np.asarray(slope(x))) for x in observations(4))
    hidden = np.array([NUM_GLOBAL + TASK_NAMES.index(entry) for entry in HIDDEN_FROM_RL])
    assert len(hidden) == 5
    np.testing.assert_array_equal(slopes[hidden], 0)
    assert np.all(np.delete(slopes, hidden) > 0)
    kernel = weights["params"]["server_0"]["kernel"]
    assert kernel.shape == (COMMON + NUM_SERVER - len(hidden), HIDDEN[0])


@pytest.mark.parametrize("name", NETWORKS)
def test_a_new_policy_is_nearly_uniform_and_a_new_value_nearly_nothing(name):
    network, apply = network_of(name)
    observation = observations(20)
    weights = jax.jit(network.init)(jax.random.key(0), observation)
    assert 0 < np.abs(np.asarray(apply(weights, observation))).max() < 0.2


@pytest.mark.parametrize("name", NETWORKS)
def test_sizes_of_the_specification(name):
    kernels = shapes_of(NETWORKS[name](S))["params"]
    assert kernels["server_0"]["kernel"].shape == (8 + 26 + 10, 64)
    assert kernels["queue_0"]["kernel"].shape == (8 + 26 + 64, 64)
    assert kernels["server_1"]["kernel"].shape == kernels["queue_1"]["kernel"].shape == (64, 64)


@pytest.mark.parametrize("hidden_inputs", [(), HIDDEN_FROM_RL, (TASK_NAMES[0], TASK_NAMES[-1])])
def test_the_description_follows_the_network(hidden_inputs):
    network, apply = network_of("policy", hidden_inputs=hidden_inputs)
    variables = weights_of("policy", hidden_inputs)
    weights = {
        f"{layer}.{part}": np.asarray(value)
        for layer, parts in variables["params"].items()
        for part, value in parts.items()
    }
    steps = json.loads(json.dumps(network.describe()))
    assert set(nd.weight_names(steps)) == set(weights)
    for observation in observations(3):
        found = nd.evaluate(steps, weights, observation)
        np.testing.assert_allclose(found, apply(variables, observation), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "num_servers is 0; it must be at least 1"),
        ((S, ()), r"hidden is \(\); accepted: one or more widths"),
        ((S, (64, 0)), r"hidden is \(64, 0\); accepted: one or more widths"),
        ((S, (4,), ("size", "colour")), "hidden_inputs has colour; accepted: is_alexnet, "),
    ],
)
@pytest.mark.parametrize("name", NETWORKS)
def test_impossible_networks_are_refused(name, arguments, message):
    with pytest.raises(JaxschedError, match=message):
        NETWORKS[name](*arguments)


def test_an_observation_of_other_servers_is_refused():
    with pytest.raises(JaxschedError, match="of 74 entries; that of 3 servers has 64"):
        network_of("policy")[1](weights_of("policy"), observations(servers=4))
