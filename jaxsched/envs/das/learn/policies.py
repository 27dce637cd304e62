"""Learned policies of DAS: as they play, as programs of named arrays, and as learners take them.

While a policy plays, its weights stay as they are, so what an earlier decision tells the walk
process is computed once and kept, in place of the decision itself: a decision then costs one
embedding, not one for each decision remembered. As functions of named arrays, for programs that
know no JAX, whole windows are computed, not their first positions alone: a batch then has one
shape. Learners take agents, critics, teachers and relative rewards (:func:`policy_model`).

Axes: ``...`` any batch axes, ``B`` decisions, ``N`` positions, ``M`` machines, ``F`` features of
the walk process.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxsched.algorithms.agents import Agents, Normal
from jaxsched.algorithms.critics import Critic, action_value, state_value
from jaxsched.algorithms.regression import AgentLoss
from jaxsched.core.array_policy import NEXT, ArrayPolicy
from jaxsched.core.policies import Play, Policy, View, no_memory
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
from jaxsched.envs.das.learn import (
    DASNetwork,
    Trunk,
    derived_features,
    noise_of,
    outlook_of,
    read_kind,
    takes_whole_windows,
)
from jaxsched.envs.das.learn.agents import (
    ORDERING,
    PLACEMENT,
    Action,
    DiagonalRows,
    Rival,
    WalkRows,
    current,
    das_agents,
    dl2_agents,
    dl2_rival,
    effective_only,
    fifo_priority,
    finite,
    is_any,
    is_decision,
    rifling_agents,
    rifling_rival,
    same_job,
    with_history,
)
from jaxsched.envs.das.rules.observation import Observation, recover
from jaxsched.envs.das.rules.placement import rank_of
from jaxsched.errors import JaxschedError
from jaxsched.networks import walk_process as wp
from jaxsched.networks.exportable import Precision, dense
from jaxsched.networks.walk_process import Evidence
from jaxsched.ops.batching import unbatched
from jaxsched.ops.by_width import play_by_width
from jaxsched.systems.policy_model import PolicyModel
from jaxsched.types import NO_JOB, Array, ArraySpec, PRNGKey, PyTree, Specs
from jaxsched.wrappers.privileged_state import Whole


def das_policy(env: DAS, options: DASNetwork, name: str = "das", play: Play = "greedy") -> Policy:
    """The agents as a policy of the plain environment; its weights are the agents' parameters.

    Args:
      env: the environment.
      options: of the networks.
      name: what tables call it.
      play: take the mean action, or draw one.
    """
    options.check(env)
    follows = options.follows == "job"
    trunk = Trunk(env, options)
    machines = env.num_servers if options.kernel == "node" else 1
    size = num_features(options)
    shape = (options.history, env.window, size)

    def init(params: Any) -> PyTree:
        """Nothing known: evidence of the last decisions, oldest first, is zero."""
        del params
        if not options.remembers:
            return ()
        columns = env.num_servers // machines
        evidence = wp.Evidence(*(jnp.zeros((*shape, n), jnp.float32) for n in (size, columns)))
        return (evidence, jnp.full(shape[:2], NO_JOB, jnp.int32)) if follows else evidence

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        observation = finite(view.observation)
        number = number_of(observation)
        known = added(memory) if not follows else known_of_jobs(memory, number)
        if play == "greedy" and not takes_whole_windows(trunk):
            decision = (observation, known)
            choice = play_by_width(partial(choices, trunk), weights, decision, observation.real)
        else:
            noise = None if play == "greedy" else normals(trunk, key)
            choice = _choose(trunk, weights, observation, known, noise)
        latest = (choice.latest, number) if follows else choice.latest
        memory = _pushed(memory, latest, observation)
        return {"priority": choice.priority, "affinity": choice.affinity}, memory

    return Policy(name, init, act)


def decision_of(
    trunk: Trunk, weights: PyTree, memory: PyTree, observation: Observation, noise: "Noise"
) -> tuple[dict[str, Array], PyTree]:
    """One decision of :func:`das_policy` with its randomness handed in, all positions computed.

    Args:
      trunk: the networks.
      weights: their weights.
      memory: of the policy.
      observation: one observation (no batch axes).
      noise: standard normal numbers; zeros give the mean.

    Returns:
      The action and the memory after it.
    """
    observation = finite(observation)
    number = number_of(observation)
    follows = trunk.options.follows == "job"
    known = known_of_jobs(memory, number) if follows else added(memory)
    choice = _choose(trunk, weights, observation, known, noise)
    latest = (choice.latest, number) if follows else choice.latest
    action = {"priority": choice.priority, "affinity": choice.affinity}
    return action, _pushed(memory, latest, observation)


def _pushed(memory: PyTree, latest: PyTree, observation: Observation) -> PyTree:
    """The memory with the latest decision in place of the oldest, if it was one."""
    due = is_decision(observation)
    return jax.tree.map(
        lambda old, new: jnp.where(due, jnp.concatenate([old[1:], new[None]]), old), memory, latest
    )


def number_of(observation: Observation) -> Array:
    """Numbers of the jobs at real positions, int32 ``[N]``; nobody's at others."""
    known = NO_JOB if observation.number is None else observation.number
    return jnp.where(observation.real, known, NO_JOB)


def added(evidence: PyTree) -> PyTree:
    """Evidence of all remembered decisions, leaves ``[N, ...]`` of ``[tau, N, ...]``."""
    return jax.tree.map(lambda x: jnp.sum(x, axis=0), evidence)


def known_of_jobs(memory: tuple[PyTree, Array], number: Array) -> PyTree:
    """The same, job by job: ``memory`` also has the jobs' numbers then, int32 ``[tau, N]``."""
    evidence, earlier = memory
    same = same_job(number[None], earlier)  # [tau, N, N]
    return jax.tree.map(lambda x: wp.einsum("knp,kp...->n...", same, x), evidence)


class Noise(NamedTuple):
    """Standard normal numbers that one draw is made of.

    Attributes:
      priority: ``[N]``.
      weights: ``[N, F]``, of the walk process; not read with the kernel ``graph`` or without it.
      affinity: ``[N, M]``.
    """

    priority: Array
    weights: Array
    affinity: Array


def normals(trunk: Trunk, key: PRNGKey) -> Noise:
    """What a decision is drawn with."""
    shape = trunk.env.window, trunk.env.num_servers
    order_key, row_key = jax.random.split(key)
    priority = jax.random.normal(order_key, shape[:1], jnp.float32)
    if not trunk.options.remembers:
        affinity = jax.random.normal(row_key, shape, jnp.float32)
        return Noise(priority, jnp.zeros((shape[0], 0), jnp.float32), affinity)
    return Noise(priority, *wp.normals(row_key, shape, num_features(trunk.options)))


class Choice(NamedTuple):
    """What is done, and what it will tell later decisions; leaves ``[..., N, ...]``."""

    priority: Array
    affinity: Array
    latest: Any  # evidence, or ()


def _choose(
    trunk: Trunk,
    weights: PyTree,
    observation: Observation,
    known: Any,
    noise: Noise | None = None,
) -> Choice:
    """The choice given evidence of leaves ``[..., N, ...]``: drawn with noise, else the mean."""
    outlook = outlook_of(trunk, weights, observation)
    rows: DiagonalRows | WalkRows = DiagonalRows(outlook.affinity_mean, outlook.affinity_std)
    if trunk.options.remembers:
        given = wp.posterior(known, noise_of(trunk, weights, observation))
        mean = wp.predict(given, outlook.features, outlook.affinity_mean)
        rows = WalkRows(mean, given, outlook.features)
    priority, affinity = outlook.priority_mean, rows.mean
    if noise is not None:
        priority = priority + outlook.priority_std * noise.priority
        affinity = rows.drawn(noise.weights, noise.affinity)
    if not trunk.options.remembers:
        return Choice(priority, affinity, ())
    executed = jnp.where(observation.real[..., None], affinity, 0.0)
    latest = wp.evidence(outlook.features, executed - outlook.affinity_mean)
    return Choice(priority, affinity, latest)


def choices(
    trunk: Trunk, width: int, weights: PyTree, decisions: tuple[Observation, Any]
) -> Choice:
    """Greedy choices of decisions ``[D, ...]``, view and evidence, of their first positions."""
    observation, known = decisions
    known = jax.tree.map(lambda x: x[:, :width], known)
    return _choose(trunk, weights, observation.narrowed(width), known)


def num_features(options: DASNetwork) -> int:
    """F, features of the walk process."""
    even = options.walk_length // 2 + 1
    return even if options.basis == "centred" else options.walk_length + 1


def forgetful_policy(name: str, agents: Agents, play: Play = "greedy") -> Policy:
    """Agents that need no history as a policy; its weights are the agents' parameters."""
    choose = one_action(agents, play)

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        return choose(weights, view.observation, view.mask, key), memory

    return Policy(name, no_memory, act)


def one_action(agents: Agents, play: Play) -> Callable[[PyTree, PyTree, PyTree, PRNGKey], PyTree]:
    """``(weights, observation, mask, key) -> action`` of one environment (no batch axes)."""

    def act(weights: PyTree, observation: PyTree, mask: PyTree, key: PRNGKey) -> PyTree:
        def of_batch(observation: PyTree, mask: PyTree) -> PyTree:
            if play == "greedy":
                return agents.greedy(weights, observation, mask)
            return agents.sample(weights, observation, mask, key)[0]

        return unbatched(of_batch, observation, mask)

    return act


Inputs = Mapping[str, Array]
Decide = Callable[[PyTree, Inputs], dict[str, Array]]


def array_policy(env: DAS, kind: str) -> ArrayPolicy:
    """The policy of a kind of network.

    Args:
      env: the environment.
      kind: see ``learn.read_kind``.
    """
    which, network = read_kind(kind)
    memory: dict[str, ArraySpec] = {}
    noise: dict[str, ArraySpec] = {}
    shape = env.window, env.num_servers
    if which == "das":
        memory, noise = _memory(env, network), _noise(env, network)
        decide = _das(env, network)
    elif which in ("dl2", "rifling"):
        part, size = ("priority", shape[:1]) if which == "dl2" else ("affinity", shape)
        noise = {f"{part}_noise": ArraySpec(size)}
        decide = _rival(dl2_rival(env) if which == "dl2" else rifling_rival(env))
    else:
        decide = _rule(env, decide_linear if which == "linear" else decide_scored)
    parts = env.observation_spec()._asdict()
    seen = {name: spec for name, spec in parts.items() if spec is not None}
    return ArrayPolicy(decide, seen, memory, noise, env.action_spec())


def _observation(inputs: Inputs) -> Observation:
    return Observation(*(inputs.get(name) for name in Observation._fields))  # type: ignore[arg-type]


def _memory(env: DAS, options: DASNetwork) -> dict[str, ArraySpec]:
    """What the last decisions tell the walk process, and whose they were."""
    policy = das_policy(env, options)
    memory = jax.eval_shape(lambda: _named(policy.init(None), options))
    return {name: ArraySpec(x.shape, x.dtype) for name, x in memory.items()}


def _noise(env: DAS, options: DASNetwork) -> dict[str, ArraySpec]:
    positions, machines = env.window, env.num_servers
    noise = {
        "priority_noise": ArraySpec((positions,)),
        "affinity_noise": ArraySpec((positions, machines)),
    }
    if options.remembers and options.kernel == "node":
        noise["walk_noise"] = ArraySpec((positions, num_features(options)))
    return noise


def _named(memory: Any, options: DASNetwork) -> dict[str, Any]:
    """The memory of a policy by name."""
    if not options.remembers:
        return {}
    if options.follows == "job":
        return {**memory[0]._asdict(), "owner": memory[1] + 1}  # nobody's is 0, as before the first
    return dict(memory._asdict())


def _das(env: DAS, options: DASNetwork) -> Decide:
    options.check(env)
    trunk = Trunk(env, options)

    def decide(weights: PyTree, inputs: Inputs) -> dict[str, Array]:
        memory: Any = ()
        if options.remembers:
            memory = Evidence(inputs["gram"], inputs["moment"])
        if options.remembers and options.follows == "job":
            memory = (memory, inputs["owner"] - 1)
        shape = (env.window, num_features(options))
        noise = Noise(
            inputs["priority_noise"],
            inputs.get("walk_noise", jnp.zeros(shape, jnp.float32)),
            inputs["affinity_noise"],
        )
        action, after = decision_of(trunk, weights, memory, _observation(inputs), noise)
        remembered = {f"{NEXT}{name}": x for name, x in _named(after, options).items()}
        return {**action, **remembered}

    return decide


def _rival(rival: Rival) -> Decide:
    def decide(weights: PyTree, inputs: Inputs) -> dict[str, Array]:
        observation = jax.tree.map(lambda x: x[None], _observation(inputs))
        found = cast(dict[str, Normal], rival.network.apply(weights, observation))
        normal = found[rival.agent]
        value = normal.mean + normal.std * inputs[f"{rival.part}_noise"]
        return jax.tree.map(lambda x: x[0], dict(rival.complete(observation, value)))

    return decide


def _rule(env: DAS, rule: Callable[[DAS, Any, Observation], Action]) -> Decide:
    def decide(weights: PyTree, inputs: Inputs) -> dict[str, Array]:
        return dict(rule(env, weights, _observation(inputs)))

    return decide


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
        greedy=das_policy(env, network) if own and not network.remembers else None,
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
