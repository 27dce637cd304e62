import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, digest_tables, validate
from jaxsched.traces import MappingConfig, Trace, cut_traces, import_trace, sample_traces


def raw_trace(submit, gpus, duration):
    columns = {"submit_time": submit, "num_gpus": gpus, "duration": duration}
    return Trace({name: np.array(v, float) for name, v in columns.items()}, "hand", "test")


RAW = raw_trace(
    submit=[1000, 400, 700.5, 400, 100, 2000, 1500],
    gpus=[1, 8, 200, 2, 4, 0, 1],
    duration=[59.4, 86400.4, 700.5, 300, np.nan, 500, 0],
)


def columns(table):
    return {key: values.tolist() for key, values in table.columns.items() if key != "model"}


CLUSTER = {"num_servers": 15, "gpus_per_server": 8}
SHARES = (0.025, 0.025, 0.025, 0.025, 0.3, 0.6)


def test_rows_become_jobs():
    config = MappingConfig(**CLUSTER, model_shares=SHARES)
    stream, tables, summary = import_trace(RAW, mode="cut", num_jobs=2, config=config)
    # Dropped: no run time (100), no GPUs (2000), run time 0 (1500). Those at 400 keep their order.
    assert columns(stream) == {
        "submit_time": [0, 0, 301, 600],
        "num_gpus": [8, 2, 120, 1],
        "duration": [86400, 300, 701, 60],
    }
    assert [columns(table)["submit_time"] for table in tables] == [[0, 0], [0, 299]]
    assert (summary.rows_read, summary.rows_dropped, summary.jobs_capped) == (7, 3, 1)
    assert (summary.jobs_lengthened, summary.jobs_shortened) == (1, 1)
    assert tables[1].notes == (
        "3 rows without GPUs or run time dropped",
        "1 job capped at 120 GPUs",
        "1 run time raised to 60 s",
        "1 run time lowered to 86400 s",
        "models drawn at random",
    )
    text = str(summary)
    assert text.startswith("hand (test): 7 rows read\n  3 rows without GPUs or run time dropped\n")
    assert "stream: 1 x 4 jobs, load" in text and "traces: 2 x 2 jobs, load" in text


def test_gaps_are_rescaled_to_a_mean_or_a_load():
    stream = import_trace(RAW, mode="cut", num_jobs=4, config=MappingConfig(mean_gap_s=100)).stream
    assert stream["submit_time"].tolist() == [0, 0, 150, 300]
    imported = import_trace(RAW, mode="cut", num_jobs=4, config=MappingConfig(**CLUSTER, load=0.5))
    assert imported.summary.stream["load"] == pytest.approx(0.5, rel=1e-3)
    together = raw_trace([5, 5], [1, 1], [100, 100])
    with pytest.raises(JaxschedError, match="hand: all jobs are submitted at once"):
        import_trace(together, config=MappingConfig(mean_gap_s=100))


def test_models_have_the_shares_and_follow_from_the_seed():
    many = raw_trace(np.arange(4000.0), np.ones(4000), np.full(4000, 100.0))
    config = MappingConfig(model_shares=SHARES)
    one, same, other = (
        import_trace(many, seed=s, num_traces=1, config=config).stream for s in (0, 0, 1)
    )
    assert one.digest() == same.digest() != other.digest()
    shares = np.bincount(one["model"], minlength=6) / 4000
    np.testing.assert_allclose(shares, SHARES, atol=0.025)


def test_without_a_cluster_and_shares_demands_stay_and_models_are_one():
    stream, _, summary = import_trace(RAW, mode="cut", num_jobs=4)
    assert stream["num_gpus"].tolist() == [8, 2, 200, 1] and not stream["model"].any()
    assert summary.jobs_capped == 0 and summary.stream["load"] is None
    assert "no cluster" in str(summary) and "models" not in str(summary)
    with pytest.raises(JaxschedError, match="load is 0.5; accepted: none where no cluster is told"):
        MappingConfig(load=0.5)


def test_samples_draw_jobs_and_gaps_from_the_stream():
    stream = JobTable(
        {
            "submit_time": [0, 10, 10, 40],
            "num_gpus": [1, 2, 4, 8],
            "duration": [100, 200, 400, 800],
            "model": [0, 1, 2, 3],
        },
        "s",
    )
    tables = sample_traces(stream, seed=1, num_traces=3, num_jobs=500)
    assert [table.name for table in tables] == ["s[0]", "s[1]", "s[2]"]
    for table in tables:
        validate(table, max_gpus=8, num_models=4)
        assert set(np.diff(table["submit_time"]).tolist()) == {0, 10, 30}
        np.testing.assert_array_equal(table["duration"], 100 * table["num_gpus"])
        np.testing.assert_array_equal(2 ** table["model"], table["num_gpus"])
    gaps = np.concatenate([np.diff(table["submit_time"]) for table in tables])
    assert np.mean(gaps) == pytest.approx(40 / 3, rel=0.1)
    again = sample_traces(stream, seed=1, num_traces=2, num_jobs=500)
    assert digest_tables(again) == digest_tables(tables[:2])


def test_cutting_leaves_the_jobs_alone():
    stream = import_trace(RAW, mode="cut", num_jobs=4).stream
    assert cut_traces(stream, num_jobs=4)[0].digest() == stream.digest()
    assert len(cut_traces(stream, num_jobs=3)) == 1
    for size in (0, 5):
        with pytest.raises(JaxschedError, match=f"cannot cut 4 jobs into traces of {size}"):
            cut_traces(stream, num_jobs=size)


def test_unusable_input_is_refused():
    with pytest.raises(JaxschedError, match="trace 'hand': no row has GPUs and a run time"):
        import_trace(raw_trace([0], [0], [5]))
    with pytest.raises(JaxschedError, match="hand: has 1 jobs; accepted: two or more"):
        import_trace(raw_trace([0], [1], [5]))
    with pytest.raises(JaxschedError, match="job 1: submit_time is .* accepted"):
        import_trace(raw_trace([0, 1e14], [1, 1], [5, 5]))
    with pytest.raises(JaxschedError, match="mode is 'shuffle'; accepted: sample, cut"):
        import_trace(RAW, mode="shuffle")
    with pytest.raises(JaxschedError, match="num_jobs is 0"):
        import_trace(RAW, num_jobs=0)
    for changes in (
        {"num_servers": 0},
        {"min_duration_s": 0},
        {"mean_gap_s": -1.0},
        {"load": 0.0, "num_servers": 1},
        {"load": 1.0, "mean_gap_s": 1.0, "num_servers": 1},
    ):
        with pytest.raises(JaxschedError, match="accepted"):
            MappingConfig(**changes)


def test_parts_of_gpus_are_slots_where_gpus_have_some():
    raw = raw_trace([0, 10, 20], [0.46, 0.0001, 2], [100, 100, 100])
    whole, shared = (
        import_trace(raw, mode="cut", num_jobs=3, config=MappingConfig(2, 4, load=0.5, slots=slots))
        for slots in (1, 4)
    )
    assert "gpu_milli" not in whole.stream.columns
    assert shared.stream["gpu_milli"].tolist() == [460, 1, 1000]
    assert shared.stream["num_gpus"].tolist() == [1, 1, 2]
    assert [each.stream["submit_time"][-1] for each in (whole, shared)] == [100, 69]  # 4, 2.75 GPUs
    assert "2 parts of a GPU rounded up" in whole.summary.notes()
    assert "2 parts of a GPU rounded up to slots, 4 to a GPU" in shared.summary.notes()
    assert [each.summary.traces["load"] for each in (whole, shared)] == pytest.approx(
        [0.5, 0.5], rel=0.01
    )
    with pytest.raises(JaxschedError, match="slots is 0; accepted: a whole number from 1 on"):
        MappingConfig(slots=0)
