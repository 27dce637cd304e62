"""The command line in tests."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jaxsched.cli import main
from jaxsched.systems import functions, registry


def refused(capsys, *arguments):
    """The one line that a command ends with; its exit status must be 2."""
    capsys.readouterr()
    assert main(list(map(str, arguments))) == 2
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("jaxsched: ")
    return lines[0]


@contextmanager
def policies_only(name: str, *policies: str) -> Iterator[None]:
    """Comparisons after a training have these heuristics only: each compiles a program.

    Args:
      name: of the system.
      *policies: those that play; all baselines but no reference policy by default.
    """
    system, usual = registry.get(name), functions.usual_policies
    few = list(policies or functions.policy_names(system, "baseline"))

    def usual_of(of, env=None):
        return few if of is system else usual(of, env)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functions, "usual_policies", usual_of)
        yield
