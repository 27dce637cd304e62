"""A learner of your own: REINFORCE with a value baseline, in the library's training loop.

    python examples/new_learner.py [--updates 200] [--seed 0]

trains on a small SCHED2 cluster and prints how the return of the episodes rises. A learner is a
record of pure functions (``jaxsched.core.learner``); the loop knows nothing else of it.

Williams, Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning,
1992. Axes: ``T`` time, ``B`` batch of environments.
"""

import argparse
from dataclasses import dataclass
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

import jaxsched
from jaxsched import Learner
from jaxsched.types import Rollout, Specs

ILLEGAL = -1e9  # score of an action that the mask forbids


@dataclass(frozen=True)
class ReinforceConfig:
    """Settings.

    Attributes:
      learning_rate: of Adam.
      discount: per step.
      entropy_weight: of the policy's entropy in nats.
      hidden: width of the two hidden layers.
    """

    learning_rate: float = 3e-3
    discount: float = 0.99
    entropy_weight: float = 0.003
    hidden: int = 64


class State(NamedTuple):
    """What the learner keeps between updates."""

    params: Any
    optimiser: Any


class PolicyAndValue(nn.Module):
    """Scores of the actions, and the value of the observation."""

    num_actions: int
    hidden: int

    @nn.compact
    def __call__(self, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        """``[..., num_actions]`` and ``[...]``."""
        x = nn.tanh(nn.Dense(self.hidden)(observation))
        x = nn.tanh(nn.Dense(self.hidden)(x))
        return nn.Dense(self.num_actions)(x), nn.Dense(1)(x)[..., 0]


def reinforce(specs: Specs, config: ReinforceConfig = ReinforceConfig()) -> Learner:  # noqa: B008
    """The learner for a flat observation and one choice of several actions."""
    network = PolicyAndValue(specs.action.num_actions, config.hidden)
    optimiser = optax.adam(config.learning_rate)

    def init(key: Any, specs: Specs, params: Any = None) -> State:
        if params is None:
            params = network.init(key, specs.observation.zeros())
        return State(params, optimiser.init(params))

    def act(state: State, observation: Any, mask: Any, key: Any, greedy: bool) -> tuple[Any, Any]:
        scores, _ = network.apply(state.params, observation)
        scores = jnp.where(mask, scores, ILLEGAL)
        best = jnp.argmax(scores, -1) if greedy else jax.random.categorical(key, scores)
        return best.astype(jnp.int32), ()

    def update(state: State, rollout: Rollout, key: Any) -> tuple[State, dict[str, jax.Array]]:
        del key
        loss = jax.value_and_grad(_loss, has_aux=True)
        (_, metrics), gradients = loss(state.params, network.apply, rollout, config)
        changes, kept = optimiser.update(gradients, state.optimiser)
        return State(optax.apply_updates(state.params, changes), kept), metrics

    return Learner(init, act, update, policy_params=lambda state: state.params)


def _loss(params: Any, apply: Any, rollout: Rollout, config: ReinforceConfig) -> tuple[Any, Any]:
    scores, values = apply(params, rollout.observation)
    _, after = apply(params, rollout.next_observation)
    returns = jax.lax.stop_gradient(_returns(rollout, after, config.discount))
    logs = jax.nn.log_softmax(jnp.where(rollout.mask, scores, ILLEGAL))
    taken = jnp.take_along_axis(logs, rollout.action[..., None], -1)[..., 0]
    advantage = jax.lax.stop_gradient(returns - values)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    entropy = -jnp.sum(jnp.exp(logs) * jnp.maximum(logs, ILLEGAL / 10), -1).mean()
    policy_loss = -(taken * advantage).mean() - config.entropy_weight * entropy
    value_loss = jnp.square(values - returns).mean()
    return policy_loss + value_loss, {"entropy": entropy, "value_loss": value_loss}


def _returns(rollout: Rollout, after: jax.Array, discount: float) -> jax.Array:
    """Discounted returns ``[T, B]``: cut where an episode ended, bootstrapped where it goes on."""

    def step(following: jax.Array, row: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        reward, terminated, truncated, value = row
        onwards = jnp.where(truncated, value, following)
        found = reward + discount * jnp.where(terminated, 0.0, onwards)
        return found, found

    rows = (rollout.reward, rollout.terminated, rollout.truncated, after)
    return jax.lax.scan(step, after[-1], rows, reverse=True)[1]


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    every = max(1, arguments.updates // 10)
    training = jaxsched.training(
        "sched2",
        preset="plain-ppo",
        learner=reinforce,
        seed=arguments.seed,
        num_traces=8,
        num_jobs=40,
        set={
            "env.num_servers": 3,
            "loop.num_envs": 32,
            "loop.rollout_length": 64,
            "loop.num_updates": arguments.updates,
            "evaluate_every": every,
        },
    )
    for progress in training:
        mean = progress.metrics.get("episode_return", float("nan"))
        print(f"update {progress.update:>5}  mean return {mean:8.2f}")


if __name__ == "__main__":
    main()
