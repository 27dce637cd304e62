"""Settings say once which of their numbers are traced, and what stands for an absent one."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.actor_critic_settings import ActorCriticConfig
from jaxsched.algorithms.ppo_settings import PPOConfig
from jaxsched.algorithms.settings import linear, traced, traced_values


@dataclass(frozen=True)
class Settings:
    """Three traced numbers beside a static one."""

    steps: int = 3
    rate: float = traced(0.1)
    final: float | None = traced(None, absent="rate")
    horizon: float | None = traced(None, absent=float("inf"))


def test_only_marked_numbers_are_traced():
    values = traced_values(Settings(rate=1))
    assert values._asdict() == {"rate": 1.0, "final": 1.0, "horizon": np.inf}
    assert all(leaf.dtype == jnp.float32 for leaf in values)


def test_given_numbers_count():
    assert traced_values(Settings(final=0.5, horizon=2.0))[1:] == (0.5, 2.0)


def test_values_of_one_class_are_of_one_structure():
    one, two = traced_values(Settings()), traced_values(Settings(rate=2.0))
    assert jax.tree.structure(one) == jax.tree.structure(two)
    assert jax.tree.structure(one) != jax.tree.structure(traced_values(PPOConfig(1)))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (3.0, 3.0, 3.0)),
        ({"final_learning_rate": 1.0}, (1.0, 3.0, 1.0)),
        ({"value_learning_rate": 2.0, "final_learning_rate": 1.0}, (1.0, 2.0, 2.0)),
        ({"final_value_learning_rate": 5.0}, (3.0, 3.0, 5.0)),
    ],
)
def test_absent_rates_of_the_actor_critic(changes, expected):
    values = traced_values(ActorCriticConfig(1, learning_rate=3.0, **changes))
    names = ("final_learning_rate", "value_learning_rate", "final_value_learning_rate")
    assert tuple(getattr(values, name) for name in names) == expected


def test_linear_stops_at_its_end():
    found = [float(linear(jnp.float32(1), jnp.float32(3), jnp.float32(p))) for p in (0, 0.5, 2)]
    assert found == [1, 2, 3]
