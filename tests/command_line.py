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
def baselines_only(*names: str) -> Iterator[None]:
    """Comparisons after a training leave reference policies out: each compiles a program."""
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            system = registry.get(name)
            few = [policy for policy in system.usual_policies()
                   if system.policies[policy].kind == "baseline"]  # fmt: skip
            patch.setattr(type(system), "usual_policies", lambda _, few=few: few)
        yield
