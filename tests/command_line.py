"""The command line in tests."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jaxsched.cli import main
from jaxsched.systems import registry


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
    system = registry.get(name)
    few = list(policies or system.policy_names("baseline"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(system), "usual_policies", lambda _, env=None: few)
        yield
