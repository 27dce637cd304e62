"""Options of environments and settings of learners: what each accepts, declared where it stands.

A frozen dataclass says by its annotations what its fields accept: words of a ``Literal``, ``true``
or ``false``, whole numbers, numbers, and by :class:`Bounds` which of these::

    window: Annotated[int, Bounds(1, 1024)] = 32
    batch_size: Count = 256

:func:`check` refuses everything else. Tables of the documentation are made of the same
declarations (:func:`accepted`).
"""

import types
from collections.abc import Collection, Mapping
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from jaxsched.errors import JaxschedError


class Bounds(NamedTuple):
    """Which numbers a field accepts; None: no such bound.

    Attributes:
      least: the smallest.
      most: the largest.
      above: they are above it.
      below: they are below it.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def hold(self, number: Any) -> bool:
        """Whether a number lies within them; NaN lies within none."""
        return bool(
            (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )

    def __str__(self) -> str:
        """In words, such as ``from 1 to 1024``; empty without bounds."""
        words = [
            None if self.least is None else f"from {self.least}",
            None if self.most is None else f"to {self.most}",
            "on" if self.least is not None and self.most is None and self.below is None else None,
            None if self.above is None else f"above {self.above}",
            None if self.below is None else f"below {self.below}",
        ]
        return " ".join(word for word in words if word)


Count = Annotated[int, Bounds(1)]
"""A whole number from 1 on."""
Positive = Annotated[float, Bounds(above=0)]
"""A number above 0."""
Share = Annotated[float, Bounds(0, 1)]
"""A number from 0 to 1."""


class Accepted(NamedTuple):
    """What a field accepts.

    Attributes:
      kind: ``int``, ``float`` or ``bool``; ``str``: one of ``words``.
      words: these.
      bounds: of numbers.
      optional: None is accepted, too.
    """

    kind: type
    words: tuple[Any, ...] = ()
    bounds: Bounds = Bounds()
    optional: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a value is accepted."""
        if value is None:
            return self.optional
        if self.kind is str:
            return isinstance(value, str) and value in self.words
        if self.kind is bool or isinstance(value, bool):
            return self.kind is bool and isinstance(value, bool)
        return isinstance(value, Integral if self.kind is int else Real) and self.bounds.hold(value)

    def __str__(self) -> str:
        """In words, such as ``a whole number from 1 to 1024``."""
        if self.kind is str:
            return ", ".join(map(str, self.words))
        if self.kind is bool:
            return "true or false"
        number = "a whole number" if self.kind is int else "a number"
        return f"{number} {self.bounds}".rstrip()


def accepted(of: type) -> dict[str, Accepted]:
    """What the fields of a dataclass accept; not those of which their annotation says nothing."""
    return dict(_accepted(of))


@cache
def _accepted(of: Any) -> tuple[tuple[str, Accepted], ...]:
    hints = get_type_hints(of, include_extras=True)
    found = ((field.name, _of_hint(hints[field.name])) for field in fields(of))
    return tuple((name, one) for name, one in found if one is not None)


def _of_hint(hint: Any) -> Accepted | None:
    if get_origin(hint) in (Union, types.UnionType):
        rest = [one for one in get_args(hint) if one is not type(None)]
        found = _of_hint(rest[0]) if len(rest) == 1 else None
        return found and found._replace(optional=True)
    if get_origin(hint) is Annotated:
        inner, *more = get_args(hint)
        found = _of_hint(inner)
        bounds = [one for one in more if isinstance(one, Bounds)]
        return found._replace(bounds=bounds[0]) if found and bounds else found
    if get_origin(hint) is Literal:
        return Accepted(str, get_args(hint))
    return Accepted(hint) if hint in (int, float, bool) else None


def check(options: Any, label: str | None = None) -> None:
    """Refuse values that their fields do not accept; whole numbers of other types become ``int``.

    Args:
      options: a frozen dataclass.
      label: what messages begin with; None: its type's name and a full stop.

    Raises:
      JaxschedError: a value is not accepted.
    """
    label = f"{type(options).__name__}." if label is None else label
    for name, one in _accepted(options.__class__):
        value = getattr(options, name)
        if not one.holds(value):
            raise JaxschedError(f"{label}{name} is {value!r:.200}; accepted: {one}")
        if one.kind is int and value is not None and type(value) is not int:
            object.__setattr__(options, name, int(value))


def parameters(
    label: str,
    usual: Mapping[str, float],
    given: Mapping[str, float],
    may_be_zero: Collection[str],
) -> dict[str, float]:
    """Numbers by name, the given ones in place of the usual ones.

    Args:
      label: what messages begin with.
      usual: all there are.
      given: some of them.
      may_be_zero: those that need not be above 0.

    Raises:
      JaxschedError: there is none of a name, or it is no number that is accepted.
    """
    unknown = sorted(set(given) - set(usual))
    if unknown:
        raise JaxschedError(
            f"{label}there is no parameter {unknown[0]!r}; accepted: {', '.join(usual)}"
        )
    values = {**usual, **given}
    for name, value in values.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and 0 <= value < float("inf") and (value or name in may_be_zero)):
            accepted = "a number from 0 on" if name in may_be_zero else "a number above 0"
            raise JaxschedError(f"{label}{name} is {value!r}; accepted: {accepted}")
    return values
