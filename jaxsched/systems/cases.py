"""Golden cases as episodes, and the checks and rows that systems' readers share.

A system's reader (``Cases.read``) makes an ``Episode`` of a case; ``systems.golden`` plays it for
its result or its picture.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Union

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.policies import Policy
from jaxsched.core.trajectory import Moment, Trajectory, no_moment
from jaxsched.errors import JaxschedError
from jaxsched.types import PyTree

INT32_END = 2**31
ACTIONS = 1024
"""Lists of actions are padded to this length, or to four, sixteen, ... times it, so that few
programs are compiled."""


class Episode(NamedTuple):
    """A golden case, ready to be played.

    Attributes:
      env: the environment.
      params: its parameters; the case is episode 0.
      policy: the policy, or one that takes the listed actions.
      result: ``result(trajectory, metrics)``, the result; the trajectory's moments are those of
        ``kept``.
      weights: of the policy.
      name: what pictures call the policy; its own name if empty.
      kept: ``kept(env, step, params)``, the part of each step that the result needs; the same
        function for equal environments.
      most_steps: steps that the case lists; None: to the end.
      past_end: listed steps after the end are in the result as well.
      state: where the episode begins; None: where resets begin. Its first action has no effect.
    """

    env: Any
    params: Any
    policy: Policy
    result: Callable[[Trajectory, dict[str, Any]], dict[str, Any]]
    weights: PyTree = ()
    name: str = ""
    kept: Moment = no_moment
    most_steps: int | None = None
    past_end: bool = False
    state: PyTree | None = None


Content = Union[Episode, Callable[[], dict[str, Any]], Mapping[str, "Content"]]  # noqa: UP007
"""What a case holds: an episode, a computation that is none, or several of either by name."""


def listed_actions(actions: Sequence[PyTree]) -> tuple[Policy, PyTree]:
    """A policy that takes the listed actions, then repeats the last one; and its weights.

    Args:
      actions: pytrees of equal structure and shapes, or numbers that fit in int32.
    """

    def stacked(*entries: Any) -> np.ndarray:
        values = np.asarray(entries, None if hasattr(entries[0], "dtype") else np.int32)
        length = shared_length(max(len(values), ACTIONS))
        return values[np.minimum(np.arange(length), len(values) - 1)]

    return _LISTED, jax.tree.map(stacked, *(actions or [0]))


def _first(params: Any) -> Any:
    del params
    return np.int32(0)


def _act(weights: PyTree, memory: Any, view: Any, key: Any) -> tuple[PyTree, Any]:
    del view, key

    def entry(leaf: Any) -> Any:
        return jnp.asarray(leaf)[jnp.minimum(memory, leaf.shape[0] - 1)]

    return jax.tree.map(entry, weights), memory + 1


_LISTED = Policy("listed actions", _first, _act)


def rows_of(moments: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Moments by name as rows of a result, with their number as ``step``; in the names' order.

    ``OrderedDict`` keeps that order while a program runs; of ``dict`` names are sorted.
    """
    columns = {name: values.tolist() for name, values in (moments or {}).items()}
    rows = zip(*columns.values(), strict=True)
    return [{"step": step, **dict(zip(columns, row, strict=True))} for step, row in enumerate(rows)]


def options_of(
    case: Mapping[str, Any], options: Mapping[str, str], others: Iterable[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the environment that a case's ``config`` names, and the others that it names.

    Args:
      case: the case.
      options: key of ``config`` -> field of the environment.
      others: keys that are not options of the environment, such as scalars of the parameters.

    Raises:
      JaxschedError: ``config`` is no object, or has another key.
    """
    config = keyed(case.get("config", {}), "config", (*options, *others))
    fields = {field: config[key] for key, field in options.items() if key in config}
    return fields, {key: config[key] for key in others if key in config}


def keyed(value: Any, name: str, known: Sequence[str]) -> Mapping[str, Any]:
    """``value`` itself, if it is an object with known keys only.

    Raises:
      JaxschedError: it is not; the message calls it ``name``.
    """
    if not isinstance(value, Mapping):
        raise JaxschedError(f"{name!r} must be an object, not {type(value).__name__}")
    unknown = sorted(set(value) - set(known))
    if unknown:
        raise JaxschedError(f"{name}: unknown key {unknown[0]!r}; known are {', '.join(known)}")
    return value


def list_of(case: Mapping[str, Any], key: str) -> list[Any]:
    """The list under ``key``.

    Raises:
      JaxschedError: there is none.
    """
    value = case.get(key)
    if not isinstance(value, list):
        raise JaxschedError(f"{key!r} must be a list, not {type(value).__name__}")
    return value


def actions_of(case: Mapping[str, Any], *, end: int | None = INT32_END) -> list[int]:
    """The list of actions.

    Args:
      case: the case.
      end: whole numbers from here on, and their negatives, are refused; None: none are.

    Raises:
      JaxschedError: not a list, or an entry is no such number.
    """
    actions = list_of(case, "actions")
    for index, action in enumerate(actions):
        whole = isinstance(action, int) and not isinstance(action, bool)
        if not whole or (end is not None and abs(action) >= end):
            raise JaxschedError(f"actions: entry {index} must be a whole number, not {action!r}")
    return actions


def with_table(case: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """The case with its ``table``, if it names one, as the path of that file in ``folder``.

    The file may stand there with or without ``.gz``.

    Raises:
      JaxschedError: ``table`` is no name of a file there.
    """
    if "table" not in case:
        return case
    name = case["table"]
    if not isinstance(name, str) or name != os.path.basename(name):
        raise JaxschedError(f"table is {name!r}; accepted: the name of a file beside the case")
    other = name.removesuffix(".gz") if name.endswith(".gz") else f"{name}.gz"
    for candidate in (name, other):
        path = folder.resolve() / candidate
        if os.path.isfile(path):
            return {**case, "table": str(path)}
    raise JaxschedError(f"table: neither {name!r} nor {other!r} lies beside the case")


DECIDED = (
    *("actions", "after_actions", "policy", "expect", "expect_by_policy", "expect_by_switch_off"),
)
"""Keys of a case about its decisions and results."""


def under_policy(case: Mapping[str, Any], system: str, word: str | None = None) -> dict[str, Any]:
    """A case whose policy, if it has one, is the rule's own name.

    Args:
      case: the case; its ``policy`` may be ``RULE`` or ``SYSTEM/RULE``.
      system: name of its system.
      word: policy that plays in place of what the case decides; None: as the case says.

    Raises:
      JaxschedError: the policy is of another system, or a trained one, which cases do not play.
    """
    if word is not None:
        case = {key: value for key, value in case.items() if key not in DECIDED}
        case["policy"] = word
    typed = case.get("policy")
    if not isinstance(typed, str):
        return dict(case)
    head, slash, name = typed.partition("/")
    if slash and head != system:
        raise JaxschedError(f"policy is {typed!r}; accepted: {system}/RULE, or RULE alone")
    rule = name if slash else typed
    if rule == "pretrained" or rule.startswith("pretrained-"):
        raise JaxschedError(
            f"policy is {typed!r}; accepted: a rule, since trained policies play job tables "
            "(evaluate, compare, replay)"
        )
    return {**case, "policy": rule}


def moment(time_s: Any) -> float | None:
    """A time of a result (s); None for one below 0, which means never."""
    return float(time_s) if time_s >= 0 else None


def whole_moment(time_s: Any) -> int | None:
    """``moment`` for times that are whole numbers."""
    return int(time_s) if time_s >= 0 else None


def shared_length(num_jobs: int) -> int:
    """Length to pad a table to, so that few programs are compiled: 64, 256, 1024, ... jobs."""
    length = 64
    while length < num_jobs:
        length *= 4
    return length
