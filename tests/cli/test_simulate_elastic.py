"""Golden cases of the elastic systems through ``jaxsched simulate``."""

import json

import pytest

from jaxsched.cli import main
from jaxsched.systems.case_files import in_layout
from tests.golden_check import differences, golden_files, load

QUICK = {"hand_one_job", "hand_two_jobs_contention", "gap_between_jobs", "crowded_optimus",
         "tol_coincidence", "optimus_crowded_skip", "random_pair", "decision_time"}  # fmt: skip


@pytest.mark.parametrize("system", ["dl2", "chic"])
def test_results_have_the_layout_of_expect(system, tmp_path):
    paths = [path for path in golden_files(system) if path.stem in QUICK]
    assert len(paths) >= 4
    assert main(["simulate", *map(str, paths), "--out", str(tmp_path)]) == 0
    for path in paths:
        assert differences(known(load(path)["expect"]), load(tmp_path / path.name)) == []


def known(expect):
    """``expect`` without what it leaves open (null)."""
    text = json.dumps(expect)
    drop = {"remaining", "placement"}
    return json.loads(
        text,
        object_hook=lambda row: {k: v for k, v in row.items() if k not in drop or v is not None},
    )


def test_entries_are_chosen_by_step_or_from_the_start():
    steps = [{"step": step, "reward": -step} for step in range(5)]
    result = {"trajectory": steps, "slots": [{"slot": 0}, {"slot": 1}], "metrics": {"finished": 1}}
    expect = {"trajectory": [{"step": 1}, {"step": 4}], "slots": [{"slot": 0}], "metrics": {}}
    cut = in_layout(result, expect)
    assert cut["trajectory"] == [steps[1], steps[4]]
    assert cut["slots"] == [{"slot": 0}]
    assert cut["metrics"] == {"finished": 1}
    assert in_layout(result, None) is result
