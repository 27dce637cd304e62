"""What every script around the package does with failures."""

import pytest

from benchmarks.scripts import exit_status
from jaxsched.errors import JaxschedError


@pytest.mark.parametrize(
    ("failure", "status", "line"),
    [
        (None, 0, ""),
        (JaxschedError("jobs is 0;\n  accepted: more"), 2, "error: jobs is 0; accepted: more\n"),
        (
            FileNotFoundError(2, "No such file", "a.csv"),
            2,
            "error: [Errno 2] No such file: 'a.csv'\n",
        ),
        (KeyboardInterrupt(), 130, "stopped; goes on\n"),
    ],
)
def test_failures_are_one_line(capsys, failure, status, line):
    def main():
        if failure is not None:
            raise failure

    assert exit_status(main, stopped="stopped; goes on") == status
    assert capsys.readouterr().err == line


def test_other_failures_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        exit_status(lambda: 1 / 0)
