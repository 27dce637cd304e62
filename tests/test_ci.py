"""The script of continuous integration itself."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "run"


@pytest.mark.parametrize("status", [0, 3])
def test_its_status_is_that_of_what_it_ran(status):
    """Its ``trap`` once ended a run in which everything had passed with status 2."""
    lines = SCRIPT.read_text().splitlines()
    kept = [line for line in lines if line.startswith(("set -", "elsewhere=", "trap "))]
    assert len(kept) == 3
    script = "\n".join([*kept, 'touch "$elsewhere/a"', 'echo "$elsewhere"', f"exit {status}"])
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert ended.returncode == status, ended.stderr
    assert not Path(ended.stdout.strip()).exists()
