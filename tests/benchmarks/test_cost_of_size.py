"""Cost against size: the fit of the growth, the crowded tables, and a run at tiny sizes."""

import json
import math

import numpy as np
import pytest

from benchmarks import cost_of_size
from benchmarks.cost_of_size import AXES, crowded, growth, known_axis, read_sizes
from jaxsched import traces
from jaxsched.errors import JaxschedError
from jaxsched.systems import functions, registry

SIZES = [8, 34, 137, 550]


@pytest.mark.parametrize(("power", "faster"), [(0.0, False), (1.0, False), (2.0, True)])
def test_growth_of_powers(power, faster):
    found = growth(SIZES, [3.0 * size**power for size in SIZES])
    assert found["exponent"] == pytest.approx(power) == found["last_exponent"]
    assert found["faster"] is faster


def test_n_log_n_is_not_faster_than_itself():
    found = growth(SIZES, [size * math.log(size) for size in SIZES])
    assert found["last_exponent"] == pytest.approx(found["n_log_n"]) and not found["faster"]
    assert growth([8], [1.0])["exponent"] is None


@pytest.mark.parametrize("name", AXES)
def test_crowded_tables_are_accepted(name):
    system = registry.get(name)
    table = system.jobs.adapted(
        traces.get(functions.traces(system).test, num_traces=1, num_jobs=50)
    )[0]
    found = crowded(table, 1200)
    assert len(found) == 1200 and found["submit_time"][-1] < cost_of_size.SUBMITTED_S
    column = "duration" if name == "das" else "model"
    np.testing.assert_array_equal(found[column][: len(table)], table[column])
    assert functions.environment(system).params([found]) is not None


def test_bad_input_is_refused():
    for text in ("0", "a", "1,,2"):
        with pytest.raises(JaxschedError, match="--sizes"):
            read_sizes(text)
    with pytest.raises(JaxschedError, match="--systems"):
        known_axis("slurm", "cluster")
    with pytest.raises(JaxschedError, match="--axes"):
        known_axis("chic", "depth")


def test_the_script_writes_what_it_measures(tmp_path, monkeypatch, capsys):
    result, picture = tmp_path / "cost.json", tmp_path / "cost.png"
    arguments = ["--systems", "sched2", "--axes", "cluster", "--sizes", "4,2,4", "--quick"]
    files = ["--json", str(result), "--plot", str(picture)]
    monkeypatch.setattr("sys.argv", ["cost_of_size", *arguments, *files])
    cost_of_size.main()
    (curve,) = json.loads(result.read_text())["curves"]
    assert [row["size"] for row in curve["rows"]] == [2, 4]
    assert all(row["cpu_us_per_step"] > 0 for row in curve["rows"])
    assert curve["rows"][1]["state_bytes"] - curve["rows"][0]["state_bytes"] == 2 * 8 * 4
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "over all sizes" in capsys.readouterr().out
