"""Policies by the words of commands.

- ``fifo``: a rule; of the system that is asked for, or of the only one that has it
- ``SYSTEM/fifo``: the same with its system
- ``SYSTEM/pretrained``: a trained policy that comes with the system; others by their names
- ``runs/first``: a folder: a run, one seed's policy in it, or a hand-over
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax

from jaxsched.errors import JaxschedError
from jaxsched.results.comparison import Learned
from jaxsched.runs import saved_policies
from jaxsched.systems import functions, registry
from jaxsched.systems.system import System


class Named(NamedTuple):
    """The policy that a word names.

    Attributes:
      word: as it was typed.
      system: whose policy it is.
      rule: name of the heuristic; empty for a trained policy.
      place: folder of a trained policy, or its name if it comes with the system.
    """

    word: str
    system: System
    rule: str = ""
    place: str = ""

    def trained(self) -> tuple[Learned, list[saved_policies.Saved]]:
        """Load a trained policy with all its seeds.

        Raises:
          JaxschedError: nothing there, or of another system or behaviour version.
        """
        return saved_policies.load(self.place, self.system)

    def best_trained(self) -> Learned:
        """Load a trained policy; of several seeds the one that scored best."""
        learned, saved = self.trained()
        best = saved_policies.best_seed(self.system, saved)
        return replace(learned, weights=[learned.weights[best]])


def find_trained(word: str, system: System) -> Named:
    """The trained policy that a word names; nothing is loaded.

    Raises:
      JaxschedError: a rule, nothing there, or of another system.
    """
    head, slash, _ = word.partition("/")
    known = word in system.policies or (slash and head in registry.names())
    if not (known or saved_policies.is_pretrained(word)):
        return Named(word, system, place=word)  # loading it says what is missing there
    found = find(word, system)
    if found.rule:
        raise JaxschedError(
            f"{word}: is a rule of {system.name}; accepted: a trained policy, such as "
            f"{system.name}/pretrained or the folder of a run"
        )
    return found


def find(word: str, system: System | None = None, *, also: Sequence[str] = ()) -> Named:
    """The policy that a word names; nothing is loaded.

    Args:
      word: as this module describes it.
      system: system of the policy; None: the word says it.
      also: other words that the command knows, for the message.

    Raises:
      JaxschedError: there is no such policy, it is of another system, or of several.
    """
    if system is not None and word in system.policies:
        return Named(word, system, rule=word)
    if os.path.exists(word):
        return Named(word, system or registry.get(saved_policies.system_of(word)), place=word)
    head, slash, name = word.partition("/")
    if slash and head in registry.names():
        if system is not None and head != system.name:
            raise JaxschedError(f"{word}: is of {head}; accepted: a policy of {system.name}")
        return _of(registry.get(head), name, word, ())
    if system is not None:
        return _of(system, word, word, also)
    if saved_policies.is_pretrained(word):
        raise JaxschedError(
            f"{word}: comes with several systems; name one, as in {registry.names()[0]}/{word}"
        )
    return _of_any(word)


def names_policy(word: str) -> bool:
    """Whether a word can only be meant as a policy: ``SYSTEM/NAME``, a folder, ``pretrained``."""
    head, slash, _ = word.partition("/")
    shipped = saved_policies.is_pretrained(word) or bool(slash and head in registry.names())
    return os.path.isdir(word) or (shipped and not os.path.exists(word))


def _of(system: System, name: str, word: str, also: Sequence[str]) -> Named:
    """A policy of one system by its own name."""
    if name in system.policies:
        return Named(word, system, rule=name)
    if saved_policies.is_pretrained(name):
        saved_policies.pretrained_folder(system, name)
        return Named(word, system, place=name)
    names = ", ".join((*system.policies, *also, *saved_policies.shipped(system)))
    raise JaxschedError(
        f"{system.name}: unknown policy {name!r}; known are {names}, or the folder of a trained "
        "policy"
    )


def _of_any(word: str) -> Named:
    """A rule without the name of its system."""
    owners = [name for name in registry.names() if word in registry.get(name).policies]
    if len(owners) == 1:
        return Named(word, registry.get(owners[0]), rule=word)
    if owners:
        raise JaxschedError(
            f"{word}: is a rule of {', '.join(owners)}; accepted: SYSTEM/POLICY, such as "
            f"{owners[0]}/{word}"
        )
    raise JaxschedError(
        f"{word}: holds no trained policy and is no rule; accepted: SYSTEM/pretrained, "
        "SYSTEM/RULE, the folder of a run, or a hand-over folder"
    )


def on_cluster(learned: Learned, system: System, env: Any) -> Learned:
    """A trained policy in another environment, such as a larger cluster.

    Args:
      learned: the policy.
      system: its system.
      env: the environment.

    Raises:
      JaxschedError: its network takes other observations or gives other actions than this
        environment has.
    """
    if env == learned.env:
        return learned
    params = saved_policies.smallest_params(system, env)
    wanted = functions.weights_spec(system, env, learned.network, params)
    if _shapes(wanted) != _shapes(learned.weights[0]):
        changed = functions.environment_options(system, env)
        before = functions.environment_options(system, learned.env)
        told = ", ".join(
            f"{name} {_shown(before[name])}, not {_shown(value)}"
            for name, value in changed.items()
            if before[name] != value
        )
        raise JaxschedError(
            f"{learned.name}: its network is for {told}; accepted: its own environment"
        )
    return replace(learned, env=env)


def _shown(value: Any) -> str:
    """An option's value, which may be an empty text."""
    return str(value) or '""'


def _shapes(weights: Any) -> Any:
    return jax.tree.structure(weights), [leaf.shape for leaf in jax.tree.leaves(weights)]
