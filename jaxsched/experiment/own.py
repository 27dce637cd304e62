"""Networks and learners of the user's own, in place of a recipe's."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax

from jaxsched.core.environment import Environment
from jaxsched.core.learner import Learner
from jaxsched.core.policies import (
    Play,
    Policy,
    View,
    greedy_scores,
    no_memory,
    sampled_scores,
)
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.runs.overrides import changed
from jaxsched.systems.base import System, TrainingSetup
from jaxsched.systems.gpu import gpu_presets
from jaxsched.systems.learners import is_known
from jaxsched.systems.parts import Network, always
from jaxsched.systems.plain import with_learner
from jaxsched.systems.recipe import Recipe
from jaxsched.types import PRNGKey, PyTree

MakeLearner = Callable[..., Learner]
FOR_LEARNERS = "plain-ppo"
"""The recipe whose environment and loop an own learner uses unless another plain one is named."""


class Own(NamedTuple):
    """What is the user's own in a training.

    Attributes:
      network: a module with ``init`` and ``apply``, from observations ``[..., n]`` to scores.
      learner: a ``Learner``, a function from the environment's specs to one, or the settings of
        one of the library's learners.
    """

    network: Network | None = None
    learner: Any = None

    def applied(self, system: System, preset: str, overrides: Sequence[str]) -> tuple[System, Any]:
        """The system, knowing the own network, and the recipe with all changes.

        Raises:
          JaxschedError: the preset is no plain one, or a change is refused.
        """
        if self.network is None and self.learner is None:
            return system, changed(system, system.preset(preset), overrides)
        recipe: Any = system.preset(preset)
        if preset not in {**system.plain_presets, **gpu_presets(system.plain_presets)}:
            if self.learner is None:
                raise JaxschedError(
                    f"preset is {preset!r}; accepted with a network of one's own: "
                    f"{', '.join(system.plain_presets)}"
                )
            recipe = system.preset(FOR_LEARNERS)
        if is_known(self.learner):
            recipe = with_learner(recipe, self.learner)
        recipe = changed(system, recipe, overrides)
        if self.network is not None:
            system = with_network(system, self.network)
            recipe = replace(recipe, network=name_of(self.network))
        return system, recipe

    def stages(
        self, system: System, recipe: Any, tables: Sequence[JobTable]
    ) -> tuple[System, Sequence[TrainingSetup]]:
        """The stages of the recipe, with the own learner in place of its own.

        Returns:
          The system, which knows the own learner's policy, and the stages.
        """
        if self.learner is None or is_known(self.learner):
            return system, system.stages(recipe, tables)
        return _with_learner(system, recipe, self.learner, tables)

    def config(self) -> dict[str, Any]:
        """What a run directory records of it."""
        learner = {} if self.learner is None else {"own_learner": name_of(self.learner)}
        network = {} if self.network is None else {"own_network": name_of(self.network)}
        return {**learner, **network}


def name_of(value: Any) -> str:
    """A module's or function's name, as run directories record it."""
    return getattr(value, "__name__", type(value).__name__)


def with_network(system: System, network: Network) -> System:
    """The system with one more kind of network, whose name is that of the module's class."""
    kind = name_of(network)

    def policy(env: Environment, name: str, play: Play) -> Policy:
        make = greedy_scores if play == "greedy" else sampled_scores
        return make(name, network.apply)

    def weights(env: Environment, params: Any) -> PyTree:
        observation = env.observation_spec(params).zeros()
        return network.init(jax.random.key(0), observation[None])

    return _with_kind(system, kind, network, policy, weights)


def _with_kind(
    system: System,
    kind: str,
    network: Any,
    policy: Callable[[Environment, str, Play], Policy],
    weights: Callable[[Environment, Any], PyTree],
) -> System:
    """A system that knows one more kind of network; all else is as it was."""
    base = type(system)
    made: dict[Any, Policy] = {}

    def network_of(self: System, env: Environment, name: str) -> Any:
        return network if name == kind else base.network(self, env, name)

    def policy_of(self: System, env: Environment, of: str, name: str, play: Play) -> Policy:
        if of != kind:
            return base.network_policy(self, env, of, name, play)
        if (env, name, play) not in made:  # policies are static: the same object at each call
            made[env, name, play] = policy(env, name, play)
        return made[env, name, play]

    def weights_of(self: System, env: Environment, of: str, params: Any) -> PyTree:
        return weights(env, params) if of == kind else base.init_weights(self, env, of, params)

    members = {
        "network": network_of,
        "network_policy": policy_of,
        "init_weights": weights_of,
        "__module__": base.__module__,
    }
    return type(base.__name__, (base,), members)()


def _with_learner(
    system: System, recipe: Recipe, given: Any, tables: Sequence[JobTable]
) -> tuple[System, Sequence[TrainingSetup]]:
    """The one stage of an own learner; its policy is ``act`` with the learner's whole state."""
    params = system.params(recipe.env, tables)
    specs = recipe.env.specs(params)
    learner: Learner = given if isinstance(given, Learner) else given(specs)
    if not isinstance(learner, Learner):
        raise JaxschedError(
            f"learner {name_of(given)!r} returns {type(learner).__name__}; accepted: a "
            "jaxsched.Learner"
        )
    kind = name_of(given)
    policy = Policy(kind, no_memory, partial(_act, learner))
    system = _with_kind(
        system,
        kind,
        None,
        lambda env, name, play: policy,
        lambda env, params: learner.init(jax.random.key(0), env.specs(params)),
    )
    (stage,) = recipe.stages
    setup = TrainingSetup(
        name=kind,
        env=recipe.env,
        play_env=recipe.env,
        learner=learner._replace(policy_params=_everything),
        loop=stage.loop,
        params_at=always(params),
        policy=policy,
        play="greedy",
        network=kind,
        gradient_steps=1,
        evaluate_every=stage.evaluate_every,
        checkpoint_every=recipe.checkpoint_every,
        variants=(f"a learner of one's own: {kind}",),
    )
    return system, [setup]


def _everything(state: Any) -> Any:
    return state


def _act(
    learner: Learner, weights: PyTree, memory: PyTree, view: View, key: PRNGKey
) -> tuple[PyTree, PyTree]:
    """One decision of a learner for a single environment."""
    observation, mask = jax.tree.map(lambda x: x[None], (view.observation, view.mask))
    action, _ = learner.act(weights, observation, mask, key, greedy=True)
    return jax.tree.map(lambda x: x[0], action), memory
