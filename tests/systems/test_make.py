"""An environment and its parameters in one call, as the README shows it."""

import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxsched
from jaxsched.jobs import digest_tables
from jaxsched.traces import get, write_tables

README = Path(__file__).parents[2] / "README.md"


def test_make_draws_the_tables_asked_for():
    env, params = jaxsched.make("chic", seed=3, num_traces=2, num_jobs=5, window=2)
    assert env.window == 2
    assert env.num_episodes(params) == 2
    again = env.params(get("chic-1.80", seed=3, num_traces=2, num_jobs=5))
    jax.tree.map(np.testing.assert_array_equal, params, again)


def test_shipped_tables_are_cut_to_size():
    env, params = jaxsched.make("sched2", num_traces=2, num_jobs=50)
    assert isinstance(env, jaxsched.Environment)
    assert (env.num_episodes(params), env.max_jobs(params)) == (2, 50)
    shipped = get("sched2-train-68")
    again = env.params([table.take(slice(0, 50)) for table in shipped[:2]])
    jax.tree.map(np.testing.assert_array_equal, params, again)


def test_files_and_tables_are_taken(tmp_path):
    tables = get("das-normal", seed=1, num_traces=2, num_jobs=6)
    write_tables(tmp_path / "jobs.csv", tables)
    made = [jaxsched.make("das", trace=trace)[1] for trace in (tables, tmp_path / "jobs.csv")]
    jax.tree.map(np.testing.assert_array_equal, *made)
    rigid = get("sched2-68", num_traces=1, num_jobs=4)
    env, params = jaxsched.make("das", trace=rigid)  # becomes gangs
    assert env.max_jobs(params) == 4
    assert len(digest_tables(tables)) == 64


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("sched3", {}, "unknown system 'sched3'; known are sched2, dl2"),
        ("sched2", {"trace": "sched2-x"}, "'sched2-x' is neither a file nor a known trace"),
        ("sched2", {"windows": 3}, "sched2: unknown environment option 'windows'"),
        (
            "sched2",
            {"num_traces": 31},
            "sched2-train-68: has 30 tables; accepted: num_traces up to 30",
        ),
        ("sched2", {"num_jobs": 1001}, "has 1000 jobs in one of the tables; accepted: num_jobs up"),
        ("sched2", {"num_jobs": 0}, "num_jobs is 0; accepted: a whole number from 1 on"),
        ("chic", {"seed": -1}, "seed is -1; accepted: a whole number from 0 on"),
    ],
)
def test_bad_input_is_one_line(name, options, says):
    with pytest.raises(jaxsched.JaxschedError, match=says) as refusal:
        jaxsched.make(name, **options)
    assert "\n" not in str(refusal.value)


def test_public_names_load_on_first_use():
    assert {"Environment", "JobTable", "Learner", "TimeStep", "make"} <= set(jaxsched.__all__)
    for name in jaxsched.__all__:
        assert getattr(jaxsched, name) is not None


def run(code):
    """What a program of its own prints and says."""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=README.parent
    )
    assert found.returncode == 0, found.stderr
    return found


def test_the_environments_code_in_the_readme_runs():
    found = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (code,) = (block for block in found if "jaxsched.make(" in block)
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 10
    for word in ("jaxsched.make(", ".reset", ".step", "vmap"):
        assert word in code
    found = run(code)
    assert re.fullmatch(r"\(1024, \d+\) -?\d+\.\d+\n", found.stdout)
