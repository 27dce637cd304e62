"""Policies as callers give them: names, runs, folders, functions."""

from collections.abc import Iterable
from os import PathLike
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.experiment.asked import Players
from jaxsched.experiment.functions import FunctionPolicy
from jaxsched.experiment.run import Run
from jaxsched.experiment.trained import TrainedPolicy
from jaxsched.results.comparison import Learned
from jaxsched.runs.policies import find, find_trained
from jaxsched.systems.system import System

ALL = "all"


def players_of(policies: Any, system: System) -> Players:
    """The policies of a comparison.

    Args:
      policies: ``"all"`` heuristics, one policy, or a list: names of rules, ``SYSTEM/pretrained``,
        folders of trained policies, runs, loaded policies, rules, plain functions.
      system: whose policies they are.

    Raises:
      JaxschedError: a word names no policy of the system, or a value is none.
    """
    if isinstance(policies, str) and policies == ALL:
        return Players(None, [])
    rules: list[str] = []
    players = Players(rules, [])
    for policy in each_of(policies):
        if isinstance(policy, str | PathLike):
            named = find(str(policy), system, also=(ALL,))
            if named.rule:
                rules.append(named.rule)
            else:
                players.trained.append(named)
        elif isinstance(policy, Run | TrainedPolicy):
            players = players._replace(loaded=(*players.loaded, learned_of(policy, system)))
        elif isinstance(policy, FunctionPolicy):
            players = players._replace(own=(*players.own, policy))
        elif callable(policy):
            players = players._replace(own=(*players.own, FunctionPolicy(policy)))
        else:
            raise JaxschedError(
                f"a policy is {policy!r}; accepted: a name, a folder, a run or a function"
            )
    return players._replace(heuristics=list(dict.fromkeys(rules)))


def each_of(policies: Any) -> Iterable[Any]:
    """The members of a list of policies, or a single policy as a list."""
    return policies if isinstance(policies, Iterable) and not _is_one(policies) else [policies]


def owner_of(policies: Any, system: System) -> System:
    """The system of a given run, which may have an own network; else the system."""
    given = policies if isinstance(policies, list | tuple) else [policies]
    for policy in given:
        if isinstance(policy, Run | TrainedPolicy) and policy.owner is not system:
            return policy.owner
    return system


def learned_of(policy: Any, system: System) -> Learned:
    """A trained policy with all its seeds.

    Args:
      policy: a run, a loaded policy, a folder, or ``SYSTEM/pretrained``.
      system: the system that it must be of.

    Raises:
      JaxschedError: none of these, or of another system.
    """
    if isinstance(policy, Run | TrainedPolicy):
        if policy.system != system.name:
            raise JaxschedError(f"a policy is of {policy.system}; accepted: one of {system.name}")
        return policy.learned
    if isinstance(policy, str | PathLike):
        return find_trained(str(policy), system).trained()[0]
    raise JaxschedError(f"a policy is {policy!r}; accepted: a run, a folder or SYSTEM/pretrained")


def _is_one(policy: Any) -> bool:
    return callable(policy) or isinstance(
        policy, str | PathLike | Run | TrainedPolicy | FunctionPolicy
    )
