"""The command line in tests."""

from jaxsched.cli import main


def refused(capsys, *arguments):
    """The one line that a command ends with; its exit status must be 2."""
    capsys.readouterr()
    assert main(list(map(str, arguments))) == 2
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("jaxsched: ")
    return lines[0]
