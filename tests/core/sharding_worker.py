"""Trainings of probes on many devices beside one, for ``test_sharding.py``; a process of its own.

    python -m tests.core.sharding_worker FOLDER PART ...

prints one JSON object: of each learner how far the carry of eight devices is from that of one, and
what its program sends; the same of evaluations, seeds and checkpoints, where they are asked for.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.algorithms.actor_critic import actor_critic
from jaxsched.algorithms.actor_critic_settings import ActorCriticConfig
from jaxsched.algorithms.branching import branching
from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.cross_entropy import CrossEntropyConfig, cross_entropy
from jaxsched.algorithms.dqn import DQNConfig, dqn
from jaxsched.algorithms.evolution import EvolutionConfig, search_of
from jaxsched.algorithms.imitation import ImitationConfig, imitation
from jaxsched.algorithms.ppo import ppo
from jaxsched.algorithms.ppo_settings import PPOConfig
from jaxsched.core import sharding, training
from jaxsched.core.evaluation import Recorder, run_episodes
from jaxsched.core.policies import Policy, no_memory
from jaxsched.networks.mlp import MLP, ValueMLP
from jaxsched.runs import checkpoints
from jaxsched.wrappers.fixed_length import FixedLength
from jaxsched.wrappers.teacher import TaughtEnvironment
from tests import probes
from tests.collectives import collectives

UPDATES, ENVS, STEPS = 3, 16, 4
NET, VALUE = MLP(probes.NUM_ACTIONS, (16,)), ValueMLP((16,))


def actor_critic_of(**settings):
    return actor_critic(NET, VALUE, ActorCriticConfig(UPDATES, **settings))


def learners():
    """Learner by name, and the environment and steps of a rollout where they are not the usual."""
    probe = probes.Probe()
    whole = FixedLength(probe, 3), 3
    replay = {"batch_size": 8, "gradient_steps": 2}
    dqn_sizes = {"gradient_steps": 2, "batch_size": 16, "capacity": 128, "learning_starts": 20}
    first = Policy("first", no_memory, lambda weights, memory, view, key: (jnp.int32(0), memory))
    usual = probe, STEPS
    return {
        "ppo": (ppo(NET, VALUE, PPOConfig(UPDATES, epochs=2, num_minibatches=2)), *usual),
        "dqn": (dqn(NET, DQNConfig(UPDATES, n_step=3, **dqn_sizes)), *usual),
        "actor_critic": (actor_critic_of(batch_size=None, capacity=0), *usual),
        "actor_critic_replay": (actor_critic_of(capacity=128, **replay), *usual),
        "actor_critic_clusters": (actor_critic_of(capacity=64, num_clusters=8, **replay), *usual),
        "cross_entropy": (cross_entropy(NET, CrossEntropyConfig(15, 1, inner_steps=2)), *whole),
        "search": (search_of(NET, EvolutionConfig(8, 2)), *whole),
        "imitation": (
            imitation(NET, ImitationConfig(UPDATES, gradient_steps=2, batch_size=16)),
            TaughtEnvironment(probe, first),
            STEPS,
        ),
        "branching": (branching(NET, BranchingConfig(UPDATES, capacity=64, batch_size=16)), *usual),
    }


def loop_of(name, steps):
    streams = 2 if name == "search" else None
    ahead = 6 if name == "ppo" else None
    return training.LoopConfig(ENVS, steps, UPDATES, num_random_streams=streams, head_start=ahead)


def trained(name, mesh, *, seeds=None, lengths=(UPDATES,), carry=None):
    """Carry and program of a training; ``seeds`` side by side."""
    learner, env, steps = learners()[name]
    loop, params = loop_of(name, steps), probes.ending()
    key = jax.random.key(0) if seeds is None else jax.random.split(jax.random.key(0), seeds)
    with sharding.on(mesh):
        if carry is None:
            carry = training.init(env, learner, loop, key, params)
        text = ""
        for updates in lengths:
            lowered = training.chunk.lower(env, learner, loop, carry, params, num_updates=updates)
            compiled = lowered.compile()
            text = compiled.as_text()
            carry, metrics = compiled(carry, params)
            jax.block_until_ready(metrics)
    return carry, text


def apart(one, other):
    """Largest difference of two trees, by leaf; typed keys by their data."""
    found = 0.0
    for a, b in zip(*map(jax.tree.leaves, map(sharding.on_host, (one, other))), strict=True):
        same = np.array_equal(a, b, equal_nan=np.issubdtype(a.dtype, np.floating))
        if not same:
            found = max(found, float(np.max(np.abs(a.astype(float) - b.astype(float)))))
    return found


def divided(carry):
    """Bytes of the carry on one device, as a share of all of them."""
    leaves = [sharding.key_data(x) for x in jax.tree.leaves(carry)]
    here = sum(leaf.addressable_shards[0].data.nbytes for leaf in leaves)
    return here / sum(leaf.nbytes for leaf in leaves)


def of_learner(name, mesh):
    (one, _), (many, text) = trained(name, None), trained(name, mesh)
    sent = {f"{kind} {depth}": count for (kind, depth), count in collectives(text).items()}
    return {"apart": apart(one, many), "sent": sent, "share": divided(many)}


def of_evaluation(mesh):
    """Whether five episodes on eight devices are the same bits as on one."""
    env, params = probes.Probe(), probes.process(reward=[0, 1, 2], first=(0, 1, 2, 0, 1))
    draws = Policy(
        "draws",
        no_memory,
        lambda weights, memory, view, key: (jax.random.randint(key, (), 0, 3), memory),
    )
    recorder = Recorder(
        lambda params: jnp.float32(0), lambda total, step, on: total + on * step.reward
    )
    found = []
    for where in (None, mesh):
        with sharding.on(where):
            found.append(
                run_episodes(env, draws, recorder, params, np.arange(5), jax.random.key(1))
            )
    return apart(*found)


def of_seeds(mesh):
    """Eight seeds, one on each device, beside eight on one; what devices send."""
    (one, _), (many, text) = trained("search", None, seeds=8), trained("search", mesh, seeds=8)
    return {"apart": apart(one, many), "sent": len(collectives(text)), "share": divided(many)}


def of_checkpoints(folder, mesh):
    """From eight devices to two and to one: how far each is from going on without a break."""
    name = "search"
    begun, _ = trained(name, mesh, lengths=(1,))
    checkpoints.save(folder, 1, begun, {})
    straight, _ = trained(name, mesh, lengths=(2,), carry=begun)
    found = {}
    for number in (1, 2):
        fewer = sharding.make_mesh(number)
        target, _ = trained(name, fewer, lengths=())
        carry, _ = checkpoints.restore(folder, target)
        found[f"apart {number}"] = apart(
            straight, trained(name, fewer, lengths=(2,), carry=carry)[0]
        )
    return found


def main():
    folder, *parts = sys.argv[1:]
    mesh = sharding.make_mesh(8)
    others = {
        "evaluation": lambda: of_evaluation(mesh),
        "seeds": lambda: of_seeds(sharding.make_mesh(8, "seeds")),
        "checkpoints": lambda: of_checkpoints(folder, mesh),
    }
    found = {part: others[part]() if part in others else of_learner(part, mesh) for part in parts}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
