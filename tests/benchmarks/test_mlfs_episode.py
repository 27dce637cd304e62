"""The script that times episodes of MLFS."""

import json

from benchmarks import mlfs_episode


def test_a_window_keeps_jobs_outside(tmp_path, monkeypatch):
    path = tmp_path / "out.json"

    def played(*words):
        given = ["--cluster", "small", "--trace", "mlfs-small-x3", "--jobs", "6"]
        words = ["mlfs_episode", *given, "--policies", "mlf_h", *words, "--json", str(path)]
        monkeypatch.setattr("sys.argv", words)
        mlfs_episode.main()
        found = json.loads(path.read_text())
        return found, found["rules"]["mlf_h"]["metrics"]

    free, many = played()
    one, few = played("--window", "1", "--waiting-unit", "hour")
    assert (one["max_active"], one["waiting_unit"]) == (1, "hour") and "max_active" not in free
    assert few["avg_jct"] > 1.1 * many["avg_jct"]
    assert few["finished"] == many["finished"] == 6
