"""Learning curves of several trainings as one."""

import json

from jaxsched.results import curves


def run(path, seeds, **change):
    """A folder with what a training leaves there."""
    path.mkdir()
    curve = {
        "levels": {"fifo": 3.0},
        "x_label": "episodes",
        "y_label": "JCT",
        "metric": "avg_jct",
        "series": [{"seed": seed, "x": [1.0, 2.0], "y": [5.0, 4.0 + seed]} for seed in seeds],
    }
    document = {"learning_curve": curve | change}
    (path / curves.COMPARISON).write_text(json.dumps(document))
    return path


def test_seeds_of_all_folders_make_one_curve(tmp_path):
    both = curves.of_runs([run(tmp_path / "a", [0]), run(tmp_path / "b", [1, 2], levels={})])
    assert both is not None
    assert [series["seed"] for series in both["series"]] == [0, 1, 2]
    assert both["series"][2]["y"] == [5.0, 6.0]
    assert both["levels"] == {"fifo": 3.0} and both["metric"] == "avg_jct"


def test_there_is_none_unless_all_have_one_of_the_same_axes(tmp_path):
    whole, other = run(tmp_path / "a", [0]), run(tmp_path / "b", [1], y_label="makespan")
    empty, exported = run(tmp_path / "c", []), tmp_path / "d"
    exported.mkdir()
    broken = run(tmp_path / "e", [0])
    (broken / curves.COMPARISON).write_text("{")
    assert curves.of_runs([]) is None
    for folder in (other, empty, exported, broken, tmp_path / "nowhere"):
        assert curves.of_runs([whole, folder]) is None
