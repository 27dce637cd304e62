"""Critics of policy gradients: state values or action values.

A critic is a record of pure functions that one update (:mod:`jaxsched.algorithms.ppo`) uses:

* it is regressed, ``predict(observation, action)`` against a target made of rewards and values;
* it gives ``value(observation)``, the baseline of advantages and what targets bootstrap from.

Axes: ``N`` decisions.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxsched.algorithms.agents import Agents
from jaxsched.algorithms.softmax import Networks, as_float32, init_params
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import unbatched
from jaxsched.types import Array, ArraySpec, DiscreteSpec, PRNGKey, PyTree, Specs

Features = Callable[[PyTree, PyTree], Array]


class Critic(NamedTuple):
    """A critic as pure functions.

    Attributes:
      init: ``(key, specs) -> params``.
      predict: ``(params, observation, action) -> [N]``, what is regressed; leaves ``[N, ...]``.
      value: ``(networks, observation, mask) -> [N]``, values under the parameters of a policy
        and of the critic.
      copy_every: updates after which the copies of both networks that ``value`` is computed with
        are renewed; 0 for no copies: the networks themselves.
      one_step: the regression's target is the reward and the value after one step, rather than
        the lambda return.
    """

    init: Callable[[PRNGKey, Specs], PyTree]
    predict: Callable[[PyTree, PyTree, PyTree], Array]
    value: Callable[[Networks, PyTree, PyTree], Array]
    copy_every: int = 0
    one_step: bool = False


def state_value(network: nn.Module) -> Critic:
    """Values of observations, regressed on lambda returns.

    Args:
      network: flax module, ``apply(params, observation) -> values`` of float32 ``[N]``.
    """

    def init(key: PRNGKey, specs: Specs) -> PyTree:
        return init_params(network, key, specs.observation)

    def predict(params: PyTree, observation: PyTree, action: PyTree) -> Array:
        del action
        return cast(Array, network.apply(params, observation))

    def value(networks: Networks, observation: PyTree, mask: PyTree) -> Array:
        del mask
        return cast(Array, network.apply(networks.value, observation))

    return Critic(init, predict, value)


def concatenated(observation: PyTree, action: PyTree, limit: float = 3.0) -> Array:
    """All numbers of observations and actions in one row, actions cut to ``+-limit``; ``[N, F]``.

    Leaves come in the order of ``jax.tree.leaves``; booleans count as 0 and 1.
    """
    action = jax.tree.map(lambda x: jnp.clip(x.astype(jnp.float32), -limit, limit), action)
    leaves = jax.tree.leaves((observation, action))
    return jnp.concatenate([x.reshape(len(x), -1).astype(jnp.float32) for x in leaves], axis=-1)


def action_value(
    network: nn.Module,
    agents: Agents,
    features: Features = concatenated,
    *,
    copy_every: int = 2,
    rows_at_once: int | None = None,
) -> Critic:
    """Centralised values of what is seen and of what all agents do (DAS, section 10.5).

    With old copies of the critic and of the policy's most likely actions,

        V(o) = Q_old(o, pi_old(o)),    Q(o, a) is regressed on r + discount * V(o')

    so that the baseline does not depend on the action sampled. Copies are renewed every
    ``copy_every`` updates.

    Args:
      network: flax module, ``apply(params, features) -> values`` of float32 ``[N]``.
      agents: the policy.
      features: ``(observation, action) -> [N, F]``; one that knows which parts of an action have
        no effect can leave them out.
      copy_every: updates between two renewals.
      rows_at_once: limits memory: most likely actions of so many decisions at a time; of all if
        absent.

    Raises:
      JaxschedError: a number is below 1.
    """
    for name, number in (("copy_every", copy_every), ("rows_at_once", rows_at_once)):
        if number is not None and number < 1:
            raise JaxschedError(f"action_value: {name} is {number}; it must be at least 1")

    def init(key: PRNGKey, specs: Specs) -> PyTree:
        observation = jax.tree.map(lambda spec: as_float32(spec.zeros()[None]), specs.observation)
        return network.init(key, features(observation, example_action(specs)))

    def predict(params: PyTree, observation: PyTree, action: PyTree) -> Array:
        return cast(Array, network.apply(params, features(observation, action)))

    def value(networks: Networks, observation: PyTree, mask: PyTree) -> Array:
        if rows_at_once is None:
            action = agents.greedy(networks.policy, observation, mask)
        else:
            action = jax.lax.map(
                partial(greedy_row, networks.policy), (observation, mask), batch_size=rows_at_once
            )
        return predict(networks.value, observation, action)

    def greedy_row(policy: PyTree, row: tuple[PyTree, PyTree]) -> PyTree:
        return unbatched(partial(agents.greedy, policy), *row)

    return Critic(init, predict, value, copy_every, one_step=True)


def example_action(specs: Specs) -> PyTree:
    """A batch of one action of zeros."""

    def zeros(spec: ArraySpec | DiscreteSpec) -> Array:
        if isinstance(spec, DiscreteSpec):
            return jnp.zeros(1, jnp.int32)
        return spec.zeros()[None]

    return jax.tree.map(zeros, specs.action)
