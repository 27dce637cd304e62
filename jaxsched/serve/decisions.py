"""Policies that decide for clusters as front ends describe them.

What is compiled has room for a power of two of jobs and of clusters, so that a service that has
seen a size once does not compile again.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.core.policies import Policy, View
from jaxsched.errors import JaxschedError
from jaxsched.jobs.servers import Servers
from jaxsched.runs import saved_policies
from jaxsched.runs.overrides import change_environment, environment_settings
from jaxsched.runs.policies import Named, find, on_cluster
from jaxsched.systems import functions
from jaxsched.systems.cluster_reader import Cluster, ClusterReader
from jaxsched.systems.system import System
from jaxsched.types import Array, DiscreteSpec, PRNGKey, PyTree, action_names

LEAST_JOBS = 32
MOST_STEPS = 4096
MOST_CLUSTERS = 256


@dataclass(frozen=True, eq=False)
class Decider:
    """A policy ready to decide.

    Attributes:
      name: what requests call it.
      source: what it was loaded from.
      system: its system.
      env: the cluster it acts in.
      policy: the rule or network.
      weights: of the network; ``()`` of a rule.
      network: kind of the network; empty of a rule.
    """

    name: str
    source: str
    system: System
    env: Any
    policy: Policy
    weights: PyTree = ()
    network: str = ""

    @cached_property
    def reader(self) -> ClusterReader:
        """How clusters of the system are read."""
        return functions.cluster_reader(self.system)

    @cached_property
    def example(self) -> Cluster:
        """A cluster that it decides for."""
        return self.reader.example_for(self.env)

    @cached_property
    def scores(self) -> bool:
        """Whether there is a network that scores the choices."""
        discrete = isinstance(self.env.action_spec(None), DiscreteSpec)
        return bool(self.network) and (discrete or self.reader.actions_are_scores)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What a client may want to know of it."""
        options = functions.environment_options(self.system, self.env)
        kind = f"network {self.network}" if self.network else "rule"
        return {
            "system": self.system.name,
            "policy": self.policy.name,
            "kind": kind,
            "source": self.source,
            "environment": options,
        }

    def decide(self, clusters: Sequence[Cluster]) -> list[dict[str, Any]]:
        """The answers to some clusters.

        Raises:
          JaxschedError: a cluster is not as the system describes it.
        """
        if not 1 <= len(clusters) <= MOST_CLUSTERS:
            raise JaxschedError(
                f"{len(clusters)} clusters in a request; accepted: 1 to {MOST_CLUSTERS}"
            )
        reader = self.reader
        length = max(LEAST_JOBS, *(power_of_two(reader.num_jobs(c)) for c in clusters))
        more = power_of_two(len(clusters)) - len(clusters)
        params, told = reader.read(self.env, [*clusters, *[clusters[0]] * more], length)
        count = len(clusters) + more
        keys = jax.random.split(jax.random.key(secrets.randbits(32)), count)
        found = jax.device_get(self._decide(self.weights, params, told, keys))
        return [
            self._answer(cluster, jax.tree.map(lambda x, i=i: x[i], found))
            for i, cluster in enumerate(clusters)
        ]

    def _answer(self, cluster: Cluster, found: tuple[Any, Any, Any]) -> dict[str, Any]:
        decision, scores, mask = found
        answer = self.reader.answer(self.env, cluster, decision)
        answer.setdefault("estimated", self.reader.estimated(cluster))
        names = action_names(self.env.action_spec(None))
        if self.scores:
            answer["scores"] = {
                name: float(score)
                for name, score, legal in zip(names, scores, mask, strict=True)
                if legal
            }
        return answer

    @cached_property
    def _decide(self) -> Any:
        single = jax.vmap(self._one, in_axes=(None, None, 0, 0))
        return jax.jit(single)

    def _one(
        self, weights: PyTree, params: PyTree, told: PyTree, key: PRNGKey
    ) -> tuple[PyTree, Array, Array]:
        """The decision for one cluster; scores and mask of its first inference."""
        env, reader = self.env, self.reader
        state = reader.state(env, params, told)
        observation, mask = env.observe(state, params)
        scores: Any = ()
        if self.scores:
            scores = functions.network(self.system, env, self.network).apply(weights, observation)

        def step(carry: tuple) -> tuple:
            state, memory, decision, _, count, key = carry
            act_key, step_key, key = jax.random.split(key, 3)
            observation, mask = env.observe(state, params)
            view = View(observation, mask, state, params)
            action, memory = self.policy.act(weights, memory, view, act_key)
            after, timestep = env.step(step_key, state, action, params)
            decision, complete = reader.decided(decision, state, after, timestep)
            return after, memory, decision, complete, count + 1, key

        decision, settled = reader.begun(env, params, state)
        memory, steps = self.policy.init(params), jnp.int32(0)
        begin = (state, memory, decision, jnp.bool_(settled), steps, key)
        end = jax.lax.while_loop(lambda c: ~c[3] & (c[4] < MOST_STEPS), step, begin)
        return end[2], scores, mask


def power_of_two(number: int) -> int:
    """The next power of two."""
    return 1 << max(number - 1, 0).bit_length()


class Wanted(NamedTuple):
    """A policy to be served, in the cluster that it is to decide for.

    Attributes:
      policy: ``[NAME=]POLICY`` as ``jaxsched.runs.policies`` spells it.
      settings: of its environment, ``env.NAME=VALUE`` each.
      servers: size of the cluster; None: the environment's own.
      options: of a rule.
    """

    policy: str
    settings: tuple[str, ...] = ()
    servers: Servers | None = None
    options: Mapping[str, Any] = {}

    def changed(self, system: System, env: Any) -> Any:
        """An environment of the system as it is wanted."""
        sizes = {} if self.servers is None else system.environment.of_servers(*self.servers)
        return change_environment(env, [*self.settings, *environment_settings(sizes)])


def load(policies: Sequence[str | Wanted]) -> dict[str, Decider]:
    """Policies by the names that requests use.

    Args:
      policies: each ``[NAME=]POLICY`` as ``jaxsched.runs.policies`` spells it, or with changes of
        its environment.

    Raises:
      JaxschedError: nothing there, two of one name, a system that clusters cannot describe, or a
        change that does not go with a policy.
    """
    found: dict[str, Decider] = {}
    for wanted in policies:
        decider = _load(Wanted(wanted) if isinstance(wanted, str) else wanted)
        if decider.name in found:
            raise JaxschedError(
                f"two policies are called {decider.name!r}; accepted: NAME=POLICY for one of them"
            )
        found[decider.name] = decider
    return found


def _load(wanted: Wanted) -> Decider:
    name, _, source = wanted.policy.rpartition("=")
    found = find(source)
    system = found.system
    if not found.rule:
        return _learned(name, found, wanted)
    env = wanted.changed(system, functions.environment(system))
    env = functions.cluster_reader(system).environment(env)
    rule = functions.heuristic(system, found.rule, env, LEAST_JOBS, wanted.options)
    if type(rule.env) is not type(env):
        raise JaxschedError(
            f"{source}: does not act step by step in the cluster; accepted: another rule, or a "
            "trained policy"
        )
    return Decider(name or found.rule, source, system, rule.env, rule.policy, rule.weights)


def _learned(name: str, found: Named, wanted: Wanted) -> Decider:
    system = found.system
    if not name:
        shipped = saved_policies.is_pretrained(found.place)
        name = system.name if shipped else Path(found.place).resolve().name
    reader = functions.cluster_reader(system)
    learned = found.best_trained()
    learned = on_cluster(learned, system, wanted.changed(system, learned.env))
    env: Any = reader.environment(learned.env)
    policy = functions.network_policy(system, env, learned.network, learned.name, learned.play)
    weights = learned.weights[0]
    return Decider(name, found.word, system, env, policy, weights, learned.network)
