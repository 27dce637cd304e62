"""The learned policies of DAS by kind: a word that says which network, and with what options.

``das``, ``dl2``, ``rifling``, ``linear`` and ``scored``; options of DAS' networks that are not the
paper's follow, as in ``das:variant=DA+MC,heads=8``.
"""

import contextlib
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any, Literal

import jax
import jax.numpy as jnp

from jaxsched.algorithms.agents import Agents
from jaxsched.core.policies import Play, Policy, View
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics import baseline
from jaxsched.envs.das.learning.active_units import effective_only
from jaxsched.envs.das.learning.agents import (
    ORDERING,
    PLACEMENT,
    current,
    das_agents,
    is_any,
)
from jaxsched.envs.das.learning.decoded_observation import recover
from jaxsched.envs.das.learning.linear import found_rule, init_linear, linear_policy
from jaxsched.envs.das.learning.network_policies import das_policy, forgetful_policy
from jaxsched.envs.das.learning.networks import DASNetwork
from jaxsched.envs.das.learning.published_rivals import dl2_agents, fifo_priority, rifling_agents
from jaxsched.envs.das.learning.scored import (
    found_scored,
    oracle_policy,
    scored_policy,
    shortest,
    start_at,
)
from jaxsched.envs.das.observation import Observation
from jaxsched.envs.das.simulator.placement import rank_of
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree, Specs

LAST = -1.0  # below every squeezed priority
KINDS = ("das", "dl2", "rifling", "linear", "scored")
RULE_NAMES = ("linear", "shortest", "scored", "oracle")
Units = Literal["real", "effective"]


def kind_of(policy: str, network: DASNetwork) -> str:
    """The kind of a policy; ``network`` matters to DAS only."""
    changed = [
        f"{field.name}={getattr(network, field.name)}"
        for field in fields(network)
        if getattr(network, field.name) != field.default
    ]
    return policy if policy != "das" or not changed else f"das:{','.join(changed)}"


def changed_kind(kind: str, **options: Any) -> str:
    """The kind of the same policy with other options of its network."""
    policy, network = read_kind(kind)
    return kind_of(policy, replace(network, **options))


def read_kind(kind: str) -> tuple[str, DASNetwork]:
    """Name and options of a kind; ``paper`` stands for DAS with the paper's options.

    Raises:
      JaxschedError: no such kind or option.
    """
    name, _, rest = ("das" if kind == "paper" else kind).partition(":")
    if name not in KINDS or (rest and name != "das"):
        raise JaxschedError(f"das: unknown network {kind!r}; known are {', '.join(KINDS)}")
    known = {field.name: field for field in fields(DASNetwork)}
    options: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        option, _, text = part.partition("=")
        if option not in known:
            raise JaxschedError(
                f"das: unknown network option {option!r}; known are {', '.join(known)}"
            )
        options[option] = _value_of(option, text, known[option].default)
    return name, DASNetwork(**options)


def _value_of(option: str, text: str, default: Any) -> Any:
    """A network option of the type of its default, from text."""
    if isinstance(default, str):
        return text
    accepted = "a whole number"
    if isinstance(default, bool):
        accepted = "True or False"
        if text in ("True", "False"):
            return text == "True"
    elif isinstance(default, float):
        accepted = "a number"
        with contextlib.suppress(ValueError):
            return float(text)
    elif text.isdecimal():
        return int(text)
    raise JaxschedError(f"das: network option {option} is {text!r}; accepted: {accepted}")


def agents_of(policy: str, env: DAS, network: DASNetwork, units: Units = "real") -> Agents:
    """The agents of a learned policy, as learners take them.

    Args:
      policy: which.
      env: the environment.
      network: options of DAS' networks.
      units: which count in a loss: all ``real`` positions, or the ``effective`` ones.
    """
    agents = {
        "das": lambda: das_agents(env, network),
        "dl2": lambda: dl2_agents(env),
        "rifling": lambda: rifling_agents(env),
    }[policy]()
    agents = agents._replace(parts=parts, due=decision_due)
    return effective_only(agents, env) if units == "effective" else agents


@lru_cache(maxsize=64)
def policy_of(kind: str, env: DAS, name: str, play: Play) -> Policy:
    """The policy of the plain environment whose weights are those of the kind's network.

    The same object at each call: evaluations are compiled for it.
    """
    which, network = read_kind(kind)
    if which == "linear":
        return linear_policy(env, name=name)
    if which == "scored":
        return scored_policy(env, name=name)
    if which == "das":
        return das_policy(env, network, name, play)
    return forgetful_policy(name, agents_of(which, env, network), play)


def init_weights(kind: str, env: DAS, key: PRNGKey, specs: Specs) -> PyTree:
    """Weights of the kind's network for the plain environment's specs."""
    which, network = read_kind(kind)
    if which == "linear":
        return init_linear(key, specs)
    if which == "scored":
        return start_at(env, found_rule(env))
    return agents_of(which, env, network).init(key, specs)


def policy_named(name: str, env: DAS) -> Policy:
    """A heuristic, or one of ``RULE_NAMES`` with the weights that are shipped.

    Raises:
      JaxschedError: no such heuristic, or none for this environment.
    """
    if name == "linear":
        return linear_policy(env, found_rule(env))
    if name == "shortest":
        return scored_policy(env, shortest(env), name)
    if name == "scored":
        return scored_policy(env, found_scored(env), name)
    if name == "oracle":
        return oracle_policy(env)
    return baseline(name, env)


def teacher_of(name: str, policy: str, env: DAS, network: DASNetwork) -> Policy:
    """A heuristic (or the linear rule) as a teacher, on the environment that the policy learns in.

    Its priorities and affinities are squeezed into (-1, 1), in which the networks' means lie;
    priorities of first come first served are ``-i / N``. To DAS, jobs that cannot be placed now are
    all shown as the last ones: where such jobs are passed over, the schedule is the same, and what
    is learnt is the order of those that count.

    Raises:
      JaxschedError: no such heuristic.
    """
    chosen = policy_named(name, env)
    remembers = policy == "das" and network.remembers

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        if remembers:
            seen, state = view.observation.observation, view.state.inner
            view = View(seen, view.mask, state, view.params)
        action, memory = chosen.act(weights, memory, view, key)
        seen = current(view.observation)
        action = squeezed(action, seen.real)
        if policy == "das" and env.on_no_fit == "skip":
            action["priority"] = jnp.where(fits_now(env, seen), action["priority"], LAST)
        if name.startswith("fifo"):
            action["priority"] = fifo_priority(env)
        return action, memory

    return chosen._replace(act=act)


def fits_now(env: DAS, observation: Observation) -> Array:
    """Which jobs can be placed as the cluster is, bool ``[N]``."""
    known = recover(env.cluster, observation)
    return jnp.sum(known.fit, axis=-1) >= known.instances


def squeezed(action: dict[str, Array], real: Array) -> dict[str, Array]:
    """Actions that order and place alike, within [-1, 1].

    Priorities become evenly spaced by rank among the real positions, first to last from 1 to -1;
    affinities likewise among the machines of each row (ties share their mean). NaN comes last.
    """
    action = jax.tree.map(lambda x: jnp.where(jnp.isnan(x), -jnp.inf, x), action)
    rank = rank_of(action["priority"], real).astype(jnp.float32)
    count = jnp.maximum(jnp.sum(real, dtype=jnp.float32), 1.0)
    affinity = action["affinity"]
    better = jnp.sum(affinity[:, None, :] > affinity[:, :, None], axis=-1)
    worse = jnp.sum(affinity[:, None, :] < affinity[:, :, None], axis=-1)
    machines = affinity.shape[-1]
    return {
        "priority": jnp.where(real, 1.0 - (2.0 * rank + 1.0) / count, 0.0),
        "affinity": (worse - better) / jnp.float32(machines),
    }


def parts(action: dict[str, Array]) -> dict[str, Array]:
    """What each agent owns of an action."""
    return {ORDERING: action["priority"], PLACEMENT: action["affinity"]}


def decision_due(observation: Any, mask: Array) -> Array:
    """Where some position is real, bool ``[...]``."""
    del mask
    return is_any(current(observation).real)
