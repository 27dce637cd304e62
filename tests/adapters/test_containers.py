"""Trees of records become dictionaries and come back."""

import importlib
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.adapters.containers import structured, to_containers
from jaxsched.adapters.gymnax_spaces import Box, Dict, Discrete, space_of
from jaxsched.errors import JaxschedError, needed
from jaxsched.types import ArraySpec, DiscreteSpec


class Parts(NamedTuple):
    first: object
    second: object = None


SPEC = Parts({"a": DiscreteSpec(3), "b": (ArraySpec((2,)), ArraySpec((), jnp.int32))})


def test_named_tuples_are_dictionaries_and_come_back():
    action = Parts({"a": 2, "b": (np.ones(2), 7.0)})
    flat = to_containers(action, np.asarray)
    assert set(flat) == {"first"} and set(flat["first"]) == {"a", "b"}
    back = structured(SPEC, flat)
    assert isinstance(back, Parts) and back.second is None
    assert back.first["a"].dtype == np.int32 and back.first["b"][1].dtype == np.int32
    assert back.first["b"][0].dtype == np.float32
    np.testing.assert_array_equal(back.first["b"][0], [1, 1])


def test_spaces_in_the_style_of_gymnax():
    space = space_of({"a": DiscreteSpec(3), "b": ArraySpec((2,), minimum=-1.0, maximum=1.0)})
    kinds = {type(part).__name__ for part in space.spaces.values()}
    assert type(space).__name__ == "Dict" and kinds == {"Discrete", "Box"}
    own = Dict({"a": Discrete(3), "b": Box(-1.0, 1.0, (2,))})
    sample = own.sample(jax.random.key(0))
    assert sample["a"].dtype == jnp.int32 and sample["b"].shape == (2,)
    assert own.contains(sample)
    assert not own.contains({**sample, "a": 3}) and not own.contains({**sample, "b": 2.0})


def test_a_missing_package_is_named():
    with pytest.raises(JaxschedError, match=r"pip install 'jaxsched\[adapters\]'"):
        needed("no_such_package.part", "adapters")
    with pytest.raises(JaxschedError, match=r"package no_such_package, .* pip install other more"):
        needed("no_such_package", "adapters", "other more")


@pytest.mark.parametrize(
    ("module", "package"),
    [("gymnasium", "gymnasium"), ("pettingzoo", "pettingzoo"), ("dm_env", "dm_env")],
)
def test_adapters_name_the_extra(module, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, f"jaxsched.adapters.{module}", raising=False)
    with pytest.raises(JaxschedError, match=r"pip install 'jaxsched\[adapters\]'") as error:
        importlib.import_module(f"jaxsched.adapters.{module}")
    assert "\n" not in str(error.value)
