"""What options accept is declared where they stand, and everything else is refused."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.options import Bounds, Count, Positive, Share, accepted, check
from jaxsched.systems import registry


@dataclass(frozen=True)
class Options:
    """One of each kind, and one of which nothing is known."""

    places: Annotated[int, Bounds(0, 8)] = 4
    jobs: Count | None = None
    rate: Positive = 0.1
    share: Share = 0.5
    std: Annotated[float, Bounds(0, below=1)] = 0.5
    order: Literal["fifo", "sjf"] = "fifo"
    lazy: bool = False
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check(self)


WORDS = {
    "places": "a whole number from 0 to 8",
    "jobs": "a whole number from 1 on",
    "rate": "a number above 0",
    "share": "a number from 0 to 1",
    "std": "a number from 0 below 1",
    "order": "fifo, sjf",
    "lazy": "true or false",
}


def test_what_is_accepted_is_said_in_words():
    assert {name: str(one) for name, one in accepted(Options).items()} == WORDS


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("places", (-1, 9, 1.0, True, "4", None, float("nan"))),
        ("jobs", (0, 0.5, False)),
        ("rate", (0, -1.0, float("nan"), "1", None, True)),
        ("share", (-0.1, 1.1, float("nan"))),
        ("std", (1, 1.0)),
        ("order", ("lifo", 0, None, ["fifo"])),
        ("lazy", (0, 1, "true", None)),
    ],
)
def test_anything_else_is_refused_in_one_line(name, values):
    for value in values:
        with pytest.raises(JaxschedError) as refused:
            Options(**{name: value})
        assert str(refused.value) == f"Options.{name} is {value!r}; accepted: {WORDS[name]}"


def test_what_is_accepted_passes():
    given: dict[str, Any] = {"places": 8, "jobs": 1, "rate": 3, "share": 1, "std": 0, "lazy": True}
    assert vars(Options(**given)).items() >= given.items()


def test_whole_numbers_of_other_types_become_ints():
    found = Options(places=np.int32(3)).places
    assert (found, type(found)) == (3, int)


def test_a_long_value_is_cut():
    with pytest.raises(JaxschedError) as refused:
        Options(order="x" * 10_000)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("name", registry.names())
def test_every_number_of_a_system_has_bounds(name):
    """A size without any would fail late, in the middle of a shape."""
    env_type = registry.get(name).environment
    declared = accepted(env_type)
    told = {"gpus", "capacity", "servers", "speeds", "failures", "reservations"}
    assert set(declared) | told >= {field.name for field in fields(env_type)}
    unbounded = [
        field for field, one in declared.items() if one.kind is int and not str(one.bounds)
    ]
    assert not unbounded
