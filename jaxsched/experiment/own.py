"""Networks and learners of the user, in place of a recipe's."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax

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
from jaxsched.systems import functions, presets
from jaxsched.systems.learner_recipes import with_learner
from jaxsched.systems.learners import is_known
from jaxsched.systems.parts import Network, TrainingSetup, always
from jaxsched.systems.recipe import Recipe
from jaxsched.systems.stages import stages_of
from jaxsched.systems.system import System
from jaxsched.types import PRNGKey, PyTree, Specs

FOR_LEARNERS = "plain-ppo"
"""The recipe whose environment and loop an own learner uses by default."""


class Own(NamedTuple):
    """The user's network or learner in a training.

    Attributes:
      network: a module with ``init`` and ``apply``, from observations ``[..., n]`` to scores.
      learner: a ``Learner``, a function from the environment's specs to one, or the settings of
        one of the library's learners.
    """

    network: Network | None = None
    learner: Any = None

    def applied(self, system: System, preset: str, overrides: Sequence[str]) -> tuple[System, Any]:
        """The system with the own network, and the recipe with all changes.

        Raises:
          JaxschedError: the preset is no plain one, or a change is refused.
        """
        if self.network is None and self.learner is None:
            return system, changed(system, presets.preset(system, preset), overrides)
        recipe: Any = presets.preset(system, preset)
        known = presets.default_recipes(system)
        if preset not in known:
            if self.learner is None:
                raise JaxschedError(
                    f"preset is {preset!r}; accepted with a network of one's own: "
                    f"{', '.join(known)}"
                )
            recipe = presets.preset(system, FOR_LEARNERS)
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
          The system with the own learner's policy, and the stages.
        """
        if self.learner is None or is_known(self.learner):
            return system, stages_of(system, recipe, tables)
        return _with_learner(system, recipe, self.learner, tables)

    def config(self) -> dict[str, Any]:
        """The record of it in a run directory."""
        learner = {} if self.learner is None else {"own_learner": name_of(self.learner)}
        network = {} if self.network is None else {"own_network": name_of(self.network)}
        return {**learner, **network}


def name_of(value: Any) -> str:
    """A module's or function's name, as run directories record it."""
    return getattr(value, "__name__", type(value).__name__)


def with_network(system: System, network: Network) -> System:
    """The system with one more kind of network, whose name is that of the module's class."""
    kind = name_of(network)

    def policy(name: str, play: Play) -> Policy:
        make = greedy_scores if play == "greedy" else sampled_scores
        return make(name, network.apply)

    def weights(key: PRNGKey, specs: Specs) -> PyTree:
        return network.init(key, specs.observation.zeros()[None])

    return _with_kind(system, kind, network, policy, weights)


def _with_kind(
    system: System,
    kind: str,
    network: Any,
    policy: Callable[[str, Play], Policy],
    weights: Callable[[PRNGKey, Specs], PyTree],
) -> System:
    """The system with one more kind of network."""
    made = cache(policy)  # policies are static: the same object at each call

    def network_of(env: Any, of: str) -> Any:
        return network if of == kind else functions.network(system, env, of)

    def policy_of(env: Any, of: str, name: str, play: Play) -> Policy:
        if of == kind:
            return made(name, play)
        return functions.network_policy(system, env, of, name, play)

    def init(env: Any, of: str, key: PRNGKey, specs: Specs) -> PyTree:
        return weights(key, specs) if of == kind else functions.initial(system, env, of, key, specs)

    networks = system.networks._replace(policy=network_of, policy_of=policy_of, init=init)
    return replace(system, networks=networks)


def _with_learner(
    system: System, recipe: Recipe, given: Any, tables: Sequence[JobTable]
) -> tuple[System, Sequence[TrainingSetup]]:
    """The one stage of an own learner; its policy is ``act`` with the learner's whole state."""
    params = recipe.env.params(tables)
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
        lambda name, play: policy,
        learner.init,
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
