"""Heuristics of one environment share a program; those of others keep their own."""

from jaxsched.core.policies import Policy, no_memory
from jaxsched.systems.parts import Heuristic, compiled_together
from jaxsched.wrappers.fixed_length import FixedLength
from tests.probes import Probe


def policy(name):
    return Policy(name, no_memory, lambda weights, memory, view, key: (0, memory))


def test_one_environment_is_one_program():
    here, there = Probe(), FixedLength(Probe(), 3)
    first, second, alone = policy("first"), policy("second"), policy("alone")
    given = [Heuristic(here, first), Heuristic(there, alone), Heuristic(here, second)]
    found = compiled_together(given)
    assert [heuristic.env for heuristic in found] == [here, there, here]
    assert found[0].policy is found[2].policy
    assert [int(found[0].weights), int(found[2].weights)] == [0, 1]
    assert found[0].policy.name == "first or second"
    assert found[1] == given[1]
