"""Policies that decide for clusters as front ends describe them.

What is compiled has room for a power of two of jobs and of clusters, so that a service that has
seen a size once does not compile again.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from jaxsched.core.policies import Policy, View
from jaxsched.errors import JaxschedError
from jaxsched.runs import saved_policies
from jaxsched.systems import registry
from jaxsched.systems.base import System
from jaxsched.systems.cluster_reader import Cluster, ClusterReader
from jaxsched.types import Array, PRNGKey, PyTree

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
        return self.system.cluster_reader()

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What a client may want to know of it."""
        options = self.system.environment_options(self.env)
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
        answer["estimated"] = self.reader.estimated(cluster)
        names = self.system.action_names(self.env)
        if self.network:
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
        if self.network:
            scores = self.system.network(env, self.network).apply(weights, observation)

        def step(carry: tuple) -> tuple:
            state, memory, decision, _, count, key = carry
            act_key, step_key, key = jax.random.split(key, 3)
            observation, mask = env.observe(state, params)
            view = View(observation, mask, state, params)
            action, memory = self.policy.act(weights, memory, view, act_key)
            after, timestep = env.step(step_key, state, action, params)
            decision, complete = reader.decided(decision, state, timestep)
            return after, memory, decision, complete, count + 1, key

        begin = (
            state,
            self.policy.init(params),
            reader.nothing(env, params),
            jnp.bool_(False),
            jnp.int32(0),
            key,
        )
        end = jax.lax.while_loop(lambda c: ~c[3] & (c[4] < MOST_STEPS), step, begin)
        return end[2], scores, mask


def power_of_two(number: int) -> int:
    """The next power of two."""
    return 1 << max(number - 1, 0).bit_length()


def load(policies: Sequence[str]) -> dict[str, Decider]:
    """Policies by the names that requests use.

    Args:
      policies: each ``[NAME=]FOLDER`` of a run or hand-over, or ``[NAME=]SYSTEM/POLICY`` for what
        comes with a system: a rule, or ``pretrained``.

    Raises:
      JaxschedError: nothing there, two of one name, or a system that clusters cannot describe.
    """
    found: dict[str, Decider] = {}
    for text in policies:
        name, _, source = text.rpartition("=")
        decider = _load(name, source)
        if decider.name in found:
            raise JaxschedError(
                f"two policies are called {decider.name!r}; accepted: NAME=POLICY for one of them"
            )
        found[decider.name] = decider
    return found


def _load(name: str, source: str) -> Decider:
    path = Path(source)
    system_name, _, policy = source.partition("/")
    if path.is_dir() or system_name not in registry.names() or not policy:
        system = registry.get(saved_policies.system_of(path))
        return _learned(name or path.resolve().name, source, system, path)
    system = registry.get(system_name)
    if saved_policies.is_pretrained(policy):
        return _learned(name or system_name, source, system, Path(policy))
    env = system.cluster_reader().environment(system.environment())
    rule = system.heuristic(policy, env, LEAST_JOBS, {})
    if type(rule.env) is not type(env):
        raise JaxschedError(
            f"{source}: does not act step by step in the cluster; accepted: another rule, or a "
            "trained policy"
        )
    return Decider(name or policy, source, system, rule.env, rule.policy, rule.weights)


def _learned(name: str, source: str, system: System, path: Path) -> Decider:
    reader = system.cluster_reader()
    learned, saved = saved_policies.load(path, system)
    env: Any = reader.environment(learned.env)
    policy = system.network_policy(env, learned.network, learned.name, learned.play)
    weights = learned.weights[saved_policies.best_seed(system, saved)]
    return Decider(name, source, system, env, policy, weights, learned.network)
