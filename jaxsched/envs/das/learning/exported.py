"""The policies of DAS as functions of named arrays, for programs that know no JAX.

Whole windows are computed, not their first positions alone: a batch then has one shape.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import jax
import jax.numpy as jnp

from jaxsched.algorithms.agents import Normal
from jaxsched.core.array_policy import NEXT, ArrayPolicy
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learning import network_policies
from jaxsched.envs.das.learning.agents import Action
from jaxsched.envs.das.learning.linear import decide_linear
from jaxsched.envs.das.learning.network_kinds import read_kind
from jaxsched.envs.das.learning.network_policies import Noise
from jaxsched.envs.das.learning.networks import DASNetwork, Trunk
from jaxsched.envs.das.learning.published_rivals import Rival, dl2_rival, rifling_rival
from jaxsched.envs.das.learning.scored import decide_scored
from jaxsched.envs.das.learning.walk_process import Evidence
from jaxsched.envs.das.observation import MACHINE_NAMES, Observation
from jaxsched.types import Array, ArraySpec, PyTree

Inputs = Mapping[str, Array]
Decide = Callable[[PyTree, Inputs], dict[str, Array]]
REAL, NUMBER = "waiting", "number"


def array_policy(kind: str, env: DAS) -> ArrayPolicy:
    """The policy of a kind of network.

    Args:
      kind: see ``kinds.read_kind``.
      env: the environment.
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
    return ArrayPolicy(decide, observation_specs(env), memory, noise, env.action_spec())


def observation_specs(env: DAS) -> dict[str, ArraySpec]:
    """The parts of an observation, their entries named in row-major order."""
    positions = range(env.window)
    names = {
        "jobs": [f"position{q}.{name}" for q in positions for name in env.job_names],
        "machines": [
            f"machine{m}.{name}" for m in range(env.num_servers) for name in MACHINE_NAMES
        ],
        "real": [f"position{q}.{REAL}" for q in positions],
        NUMBER: [f"position{q}.{NUMBER}" for q in positions],
    }
    specs = env.observation_spec(None)._asdict()  # type: ignore[arg-type]
    return {
        part: ArraySpec(spec.shape, spec.dtype, spec.minimum, spec.maximum, tuple(names[part]))
        for part, spec in specs.items()
        if spec is not None
    }


def _observation(inputs: Inputs) -> Observation:
    return Observation(*(inputs.get(name) for name in Observation._fields))  # type: ignore[arg-type]


def _memory(env: DAS, options: DASNetwork) -> dict[str, ArraySpec]:
    """What the last decisions tell the walk process, and whose they were."""
    policy = network_policies.das_policy(env, options)
    memory = jax.eval_shape(lambda: _named(policy.init(None), options))
    return {name: ArraySpec(x.shape, x.dtype) for name, x in memory.items()}


def _noise(env: DAS, options: DASNetwork) -> dict[str, ArraySpec]:
    positions, machines = env.window, env.num_servers
    noise = {
        "priority_noise": ArraySpec((positions,)),
        "affinity_noise": ArraySpec((positions, machines)),
    }
    if options.remembers and options.kernel == "node":
        noise["walk_noise"] = ArraySpec((positions, network_policies.num_features(options)))
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
        shape = (env.window, network_policies.num_features(options))
        noise = Noise(
            inputs["priority_noise"],
            inputs.get("walk_noise", jnp.zeros(shape, jnp.float32)),
            inputs["affinity_noise"],
        )
        action, after = network_policies.decision_of(trunk, weights, memory, _observation(inputs), noise)
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
