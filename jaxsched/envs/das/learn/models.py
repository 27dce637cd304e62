"""DAS' learned policies as learners take them: agents, critics, teachers, relative rewards.

Axes: ``...`` any batch axes, ``B`` decisions, ``N`` positions, ``M`` machines.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxsched.algorithms.agents import Agents
from jaxsched.algorithms.critics import Critic, action_value, state_value
from jaxsched.algorithms.regression import AgentLoss
from jaxsched.core.policies import Play, Policy, View
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics.weighted import (
    Beginning,
    StartOrder,
    beginning,
    decide_linear,
    decide_scored,
    init_linear,
    linear_policy,
    policy_named,
    scored_policy,
)
from jaxsched.envs.das.learn import DASNetwork, derived_features, read_kind
from jaxsched.envs.das.learn.agents import (
    ORDERING,
    PLACEMENT,
    current,
    das_agents,
    dl2_agents,
    effective_only,
    fifo_priority,
    finite,
    is_any,
    rifling_agents,
    with_history,
)
from jaxsched.envs.das.learn.policies import das_policy, forgetful_policy
from jaxsched.envs.das.rules import Params
from jaxsched.envs.das.rules.observation import Observation, recover
from jaxsched.envs.das.rules.placement import rank_of
from jaxsched.envs.das.show import log
from jaxsched.errors import JaxschedError
from jaxsched.networks.exportable import Precision, dense
from jaxsched.systems.policy_model import PolicyModel
from jaxsched.types import Array, PRNGKey, PyTree, Specs
from jaxsched.wrappers.privileged_state import Whole

HIDDEN = (256, 256)
ACTION_LIMIT = 3.0


def present(observation: Any) -> Observation:
    """The observation of the decision to take, zero in dummy positions; without history."""
    return finite(current(observation))


def critic_features(observation: Any, action: dict[str, Array]) -> Array:
    """Observation and actions in one row, ``[B, 5 N + 5 M + N + N M]``; dummies are zero."""
    jobs, machines, real, _ = present(observation)
    priority = jnp.clip(jnp.nan_to_num(action["priority"]), -ACTION_LIMIT, ACTION_LIMIT)
    affinity = jnp.clip(jnp.nan_to_num(action["affinity"]), -ACTION_LIMIT, ACTION_LIMIT)
    parts = [
        jobs,
        machines,
        jnp.where(real, priority, 0.0),
        jnp.where(real[..., None], affinity, 0.0),
    ]
    return jnp.concatenate([part.reshape(len(part), -1) for part in parts], axis=-1)


def head(precision: Precision, features: Array) -> Array:
    """Two hidden layers to a value, ``[...]`` of ``[..., D]``; in a module's compact method."""
    for place, width in enumerate(HIDDEN):
        features = dense(precision, width, f"Dense_{place}", rectified=True)(features)
    return dense(precision, 1, f"Dense_{len(HIDDEN)}")(features)[..., 0]


class ActionValue(nn.Module):
    """Q of the features of an observation and an action, ``[B]``.

    Attributes:
      precision: of its products.
    """

    precision: Precision = "float32"

    @nn.compact
    def __call__(self, features: Array) -> Array:
        """Two hidden layers."""
        return head(self.precision, features)


class StateValue(nn.Module):
    """V of an observation, ``[B]``, from what it says of the load (an extra of ours).

    Of one that carries the whole state (:class:`~jaxsched.wrappers.privileged_state.Whole`) that is
    read, too.

    Attributes:
      env: the environment.
      precision: of its products.
    """

    env: DAS
    precision: Precision = "float32"

    @nn.compact
    def __call__(self, observation: Any) -> Array:
        """Mean and maximum over positions and machines of embeddings of both."""
        rest = []
        if isinstance(observation, Whole):
            observation, rest = observation.observation, [jnp.log1p(observation.rest)]
        seen = present(observation)
        derived = derived_features(self.env, seen)
        jobs = jnp.concatenate([seen.jobs, derived.jobs], axis=-1)
        machines = jnp.concatenate([seen.machines, derived.machines], axis=-1)
        jobs = dense(self.precision, 64, "jobs", rectified=True)(jobs)
        jobs = jnp.where(seen.real[..., None], jobs, 0.0)
        machines = dense(self.precision, 64, "machines", rectified=True)(machines)
        pooled = [x for part in (jobs, machines) for x in (part.mean(-2), part.max(-2))]
        return head(self.precision, jnp.concatenate([*pooled, *rest], axis=-1))


LAST = -1.0  # below every squeezed priority
Units = Literal["real", "effective"]


def agents_of(
    policy: str,
    env: DAS,
    network: DASNetwork,
    units: Units = "real",
    precision: Precision = "float32",
) -> Agents:
    """The agents of a learned policy, as learners take them.

    Args:
      policy: which.
      env: the environment.
      network: options of DAS' networks.
      units: which count in a loss: all ``real`` positions, or the ``effective`` ones.
      precision: of the products of DAS' networks.
    """
    agents = {
        "das": lambda: das_agents(env, network, precision),
        "dl2": lambda: dl2_agents(env),
        "rifling": lambda: rifling_agents(env),
    }[policy]()
    agents = agents._replace(parts=parts, due=decision_due)
    return effective_only(agents, env) if units == "effective" else agents


@lru_cache(maxsize=64)
def policy_of(env: DAS, kind: str, name: str, play: Play) -> Policy:
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


def init_weights(env: DAS, kind: str, key: PRNGKey, specs: Specs) -> PyTree:
    """Weights of the kind's network for the plain environment's specs."""
    model = policy_model(env, kind)
    init = model.init if model.agents is None else model.agents.init
    assert init is not None
    return init(key, specs)


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
    known = recover(env, observation)
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


CRITICS = ("action", "state")
RANKING_SCALE = 15.0
"""Of differences between the means of DAS' networks, which are squeezed into (-1, 1)."""


def policy_model(
    env: DAS,
    kind: str,
    *,
    units: Units = "real",
    order: StartOrder = "fifo",
    begins: Beginning = "linear",
    precision: Precision = "float32",
) -> PolicyModel:
    """What a kind of policy is made of.

    Args:
      env: the cluster.
      kind: see ``learn.read_kind``.
      units: what counts in the losses: all positions that hold a job, or those whose part of the
        action has an effect (``agents.effective_units``).
      order: of the linear rule that a search starts at: first come first served, or fewest GPUs
        first.
      begins: where the search for a richer rule starts.
      precision: of the products of DAS' networks and of their critics.

    Raises:
      JaxschedError: no such kind.
    """
    policy, network = read_kind(kind)
    if policy == "linear":
        return PolicyModel(
            init=partial(init_linear, order=order),
            decide=lambda params, observation, mask: decide_linear(env, params, observation),
        )
    if policy == "scored":
        return PolicyModel(
            init=lambda key, specs: beginning(env, begins),
            decide=lambda params, observation, mask: decide_scored(env, params, observation),
        )
    own = policy == "das"
    return PolicyModel(
        agents=agents_of(policy, env, network, units, precision),
        critic=partial(_critic, env, precision),
        value=StateValue(env, precision),
        losses=imitation_losses(policy),
        scale=RANKING_SCALE,
        plays=das_policy(env, network) if own and not network.remembers else None,
        learns_in=partial(with_history, options=network) if own else lambda learned_in: learned_in,
        teacher=lambda name: teacher_of(name, policy, env, network),
        rounded=partial(policy_model, env, kind, units=units, precision="bfloat16")
        if own
        else None,
    )


def _critic(env: DAS, precision: Precision, kind: str, agents: Agents) -> Critic:
    """Of actions, as the paper's, or of states."""
    if kind not in CRITICS:
        raise JaxschedError(f"das: value_network is {kind!r}; accepted: {', '.join(CRITICS)}")
    if kind == "action":
        return action_value(ActionValue(precision), agents, critic_features)
    return state_value(StateValue(env, precision))


def imitation_losses(policy: str) -> tuple[AgentLoss, ...]:
    """What each policy learns of a teacher."""
    order, place = AgentLoss(ORDERING, "ranking"), AgentLoss(PLACEMENT, "ranking")
    losses: dict[str, tuple[AgentLoss, ...]] = {
        "das": (order, place),
        "dl2": (AgentLoss(ORDERING, "squared"),),
        "rifling": (place,),
    }
    return losses[policy]


@dataclass(frozen=True)
class RelativeTo:
    """The dense reward counts completion time and fee relative to what a heuristic gets.

    The return of an episode is then minus ``dense_scale`` times (completion time over the
    heuristic's plus ``fee_weight`` times fee over the heuristic's).

    Attributes:
      heuristic: which, or a rule; it plays each training episode once.
      fee_weight: of the relative fee, that of the relative completion time being 1.
    """

    heuristic: str
    fee_weight: float = 1.0

    def __call__(self, env: DAS, params: Params) -> Callable[[], Params]:
        """What makes such parameters.

        Raises:
          JaxschedError: no such heuristic, or another reward.
        """
        if env.reward != "dense":
            raise JaxschedError(
                f"das: adjust is relative to {self.heuristic} and env.reward is {env.reward!r}; "
                "accepted: 'dense'"
            )
        plain = replace(env, sampling="first", events_per_step=2)
        policy = policy_named(self.heuristic, plain)

        def relative() -> Params:
            found: Any = log.play(plain, policy, params)
            return params._replace(
                jct_ref_min=jnp.asarray(found["avg_jct_min"], jnp.float32),
                fee_ref=jnp.asarray(found["avg_fee"] / self.fee_weight, jnp.float32),
            )

        return relative
