"""PPO in the style of purejaxrl, on any environment in gymnax's form (1.x, six results).

    python examples/purejaxrl_ppo.py [--updates 100] [--seed 0]

Everything, environment included, is one compiled program. Beside what such a learner always does,
illegal actions are masked, and values are bootstrapped where an episode was cut.
"""

import argparse
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState

from jaxsched.adapters import gymnax


class Config(NamedTuple):
    """Settings; numbers of environments, steps, epochs and minibatches shape the program."""

    num_envs: int = 64
    num_steps: int = 32
    num_updates: int = 100
    num_epochs: int = 4
    num_minibatches: int = 4
    learning_rate: float = 1e-3
    gamma: float = 0.97
    gae_lambda: float = 0.9
    clip: float = 0.2
    value_weight: float = 0.5
    entropy_weight: float = 0.003


class ActorCritic(nn.Module):
    """Scores of the actions, illegal ones lowest, and the value."""

    num_actions: int

    @nn.compact
    def __call__(self, observation, mask):
        """Two hidden layers each."""
        layer = lambda x: nn.tanh(nn.Dense(64)(x))  # noqa: E731
        scores = nn.Dense(self.num_actions)(layer(layer(observation)))
        value = nn.Dense(1)(layer(layer(observation)))
        return jnp.where(mask, scores, -1e9), value[..., 0]


class Transition(NamedTuple):
    """One step of each environment."""

    observation: jax.Array
    mask: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array
    next_value: jax.Array  # of where the step led, 0 at the end of an episode


def log_prob_of(scores, action):
    """Log probability of the actions taken."""
    return jnp.take_along_axis(nn.log_softmax(scores), action[..., None], -1)[..., 0]


def advantages_of(batch, config):
    """Generalised advantage estimation, backwards over time."""

    def back(advantage, step):
        delta = step.reward + config.gamma * step.next_value - step.value
        advantage = delta + config.gamma * config.gae_lambda * (1 - step.done) * advantage
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros(config.num_envs), batch, reverse=True)[1]


def loss_of(weights, apply, batch, advantage, target, config):
    """Clipped surrogate, squared error of the value, entropy."""
    scores, value = apply(weights, batch.observation, batch.mask)
    ratio = jnp.exp(log_prob_of(scores, batch.action) - batch.log_prob)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
    policy = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
    log_probs = nn.log_softmax(scores)
    entropy = -jnp.sum(jnp.where(batch.mask, jnp.exp(log_probs) * log_probs, 0.0), -1).mean()
    error = jnp.square(value - target).mean()
    return policy + config.value_weight * error - config.entropy_weight * entropy


def train(env, env_params, config, key):
    """Train; returns the weights and the mean reward per step of each update."""
    network = ActorCritic(env.num_actions)
    init_key, reset_key, key = jax.random.split(key, 3)
    reset_keys = jax.random.split(reset_key, config.num_envs)
    observation, env_state = jax.vmap(env.reset, (0, None))(reset_keys, env_params)
    masks_of = jax.vmap(env.action_mask, (0, None))
    weights = network.init(init_key, observation, masks_of(env_state, env_params))
    optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(config.learning_rate))
    learner = TrainState.create(apply_fn=network.apply, params=weights, tx=optimiser)

    def env_step(carry, key):
        learner, env_state, observation, mask = carry
        act_key, step_key = jax.random.split(key)
        scores, value = network.apply(learner.params, observation, mask)
        action = jax.random.categorical(act_key, scores)
        step_keys = jax.random.split(step_key, config.num_envs)
        following, env_state, reward, terminated, truncated, info = jax.vmap(
            env.step, (0, 0, 0, None)
        )(step_keys, env_state, action, env_params)
        _, after = network.apply(learner.params, info["final_observation"], mask)
        taken = Transition(
            observation=observation,
            mask=mask,
            action=action,
            log_prob=log_prob_of(scores, action),
            value=value,
            reward=reward,
            done=terminated | truncated,
            next_value=jnp.where(terminated, 0.0, after),
        )
        return (learner, env_state, following, info["action_mask"]), taken

    def update(carry, key):
        collect_key, shuffle_key = jax.random.split(key)
        carry, batch = jax.lax.scan(
            env_step, carry, jax.random.split(collect_key, config.num_steps)
        )
        advantage = advantages_of(batch, config)
        whole = batch, advantage, advantage + batch.value
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), whole)

        def minibatch(learner, part):
            gradient = jax.grad(loss_of)(learner.params, network.apply, *part, config)
            return learner.apply_gradients(grads=gradient), None

        def epoch(learner, key):
            order = jax.random.permutation(key, config.num_envs * config.num_steps)
            parts = jax.tree.map(
                lambda x: x[order].reshape(config.num_minibatches, -1, *x.shape[1:]), rows
            )
            return jax.lax.scan(minibatch, learner, parts)

        keys = jax.random.split(shuffle_key, config.num_epochs)
        learner, _ = jax.lax.scan(epoch, carry[0], keys)
        return (learner, *carry[1:]), batch.reward.mean()

    mask = masks_of(env_state, env_params)
    keys = jax.random.split(key, config.num_updates)
    carry, rewards = jax.lax.scan(update, (learner, env_state, observation, mask), keys)
    return carry[0].params, rewards


def main():
    """Train on SCHED2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    env, env_params = gymnax.make(
        "sched2",
        trace="sched2-mixed",
        num_traces=256,
        num_jobs=100,
        auto_advance=True,
        extras=True,
        reward="dense",
    )
    config = Config(num_updates=options.updates)
    run = jax.jit(lambda key: train(env, env_params, config, key))
    _, rewards = run(jax.random.key(options.seed))
    tenth = max(1, options.updates // 10)
    for first in range(0, options.updates, tenth):
        steps = first * config.num_envs * config.num_steps
        print(f"{steps:>9,} steps  reward per step {rewards[first : first + tenth].mean():.4f}")


if __name__ == "__main__":
    main()
