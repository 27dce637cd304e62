import hashlib

import pytest

from jaxsched.envs.mlfs.jobs import TASK_JOBS
from jaxsched.errors import JaxschedError
from jaxsched.jobs import RIGID_JOBS, digest_tables, validate
from jaxsched.traces import clusters, describe_tables, entries, get, load, names, resolve
from jaxsched.traces.registry import data_file


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("sched2-train-68", "7e38f4e4c43864556015e57564b9065d06cdb27a879fd4143192075fc88183f3"),
        ("sched2-test-68", "8a722cd4d040bfd20c92cdc233d2e4911a23ad0da6f40c4c758ba399f463b496"),
    ],
)
def test_shipped_workloads(name, digest):
    tables = get(name)
    assert digest_tables(tables) == digest
    assert [len(table) for table in tables] == [1000] * 30
    for table in tables:
        rigid = table.schema == RIGID_JOBS
        validate(table, max_gpus=120, num_models=6 if rigid else None)
    statistics = describe_tables(tables, num_servers=15)
    assert statistics["one_gpu_share"] == pytest.approx(0.68, abs=0.02)
    assert 5000 < statistics["duration_s"]["mean"] < 5600
    assert statistics["gap_s"]["cv"] > 2
    assert statistics["load"] == pytest.approx(0.72, abs=0.03)


@pytest.mark.parametrize(
    ("file", "digest"),
    [
        (
            "itp_cluster04_sample.csv.gz",
            "777d8e9c8fb0f435a5ab774426f5b730567ad9255fea061576b105566d6ad94c",
        ),
        (
            "philly_sample.csv.gz",
            "99f778ad1094947ebe2432ccb495100ecba04cb456369018d7221b7d6509eedb",
        ),
    ],
)
def test_shipped_samples_have_known_bytes(file, digest):
    assert hashlib.sha256(data_file(file).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize("name", [entry.name for entry in entries() if entry.seeded])
def test_seeded_traces(name):
    tables = get(name, seed=3, num_traces=2, num_jobs=40)
    assert [len(table) for table in tables] == [40, 40]
    for table in tables:
        rigid = table.schema == RIGID_JOBS
        from_zero = table.schema != TASK_JOBS and name != "cluster-rltune"  # F1 goes by the clock
        validate(table, max_gpus=120, num_models=6 if rigid else None, from_zero=from_zero)
    again = get(name, seed=3, num_traces=2, num_jobs=40)
    assert digest_tables(again) == digest_tables(tables)
    assert digest_tables(get(name, seed=4, num_traces=2, num_jobs=40)) != digest_tables(tables)


def test_variants_have_their_share_of_one_gpu_jobs():
    for name, share in {"sched2-60": 0.60, "sched2-68": 0.68, "sched2-75": 0.75}.items():
        found = describe_tables(get(name, num_traces=10))["one_gpu_share"]
        assert found == pytest.approx(share, abs=0.02)


def test_names_and_files_are_resolved(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("submit_time,num_gpus,duration,model\n0,1,10,5\n")
    assert [table.name for table in resolve(path)] == ["mine"]
    assert len(resolve("sched2-68", num_traces=2, num_jobs=5)) == 2
    assert set(names()) >= {"sched2-train-68", "sched2-test-68", "sched2-68"}
    with pytest.raises(JaxschedError, match="unknown trace 'sched3'; accepted: sched2-"):
        get("sched3")
    with pytest.raises(JaxschedError, match="'dl2-testbd'.* or dl2-testbed, ") as error:
        resolve("dl2-testbd")
    assert str(error.value).endswith(
        f"or one of {len(names()) - 5} others ('jaxsched traces list')"
    )
    with pytest.raises(JaxschedError, match="'sched3' is neither a file nor a known trace"):
        resolve("sched3")


def test_load_takes_names_too(tmp_path):
    drawn = load("sched2-68", seed=3, num_traces=2, num_jobs=5)
    assert digest_tables(drawn) == digest_tables(get("sched2-68", seed=3, num_traces=2, num_jobs=5))
    with pytest.raises(JaxschedError, match="'sched2-86' is neither a file nor a known trace"):
        load("sched2-86")
    file = tmp_path / "own.csv"
    file.write_text("submit_time,num_gpus,duration\n0,1,60\n")
    assert len(load(file)) == 1
    with pytest.raises(JaxschedError, match="num_jobs does not go with a file or frame"):
        load(file, num_jobs=3)


def test_load_takes_workloads_too():
    log = load("philly-like", seed=3, num_jobs=40)
    assert log.digest() == clusters.generate_trace("philly-like", 3, 40).digest()
    with pytest.raises(JaxschedError, match="num_traces does not go with philly-like, which"):
        load("philly-like", num_traces=3)
    with pytest.raises(JaxschedError, match="accepted: a file, or philly-like, "):
        load("philly-lik")
    with pytest.raises(JaxschedError, match="format does not go with the named trace sched2-68"):
        load("sched2-68", format="swf")
