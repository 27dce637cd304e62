"""What cannot fit into memory is refused before it is made."""

import pytest

import jaxsched.memory
from jaxsched.errors import JaxschedError
from jaxsched.memory import check_jobs_fit, in_words
from jaxsched.traces import clusters, registry
from tests.command_line import refused


@pytest.fixture
def free(monkeypatch):
    monkeypatch.setattr(jaxsched.memory, "free_bytes", lambda: 12_000_000_000)


def test_the_refusal_says_what_is_needed_and_what_fits(free):
    check_jobs_fit(10_000_000, 1000, "num_jobs is 10,000,000")
    with pytest.raises(JaxschedError) as refusal:
        check_jobs_fit(2**31 - 1, 1000, "num_jobs is 2,147,483,647")
    assert str(refusal.value) == (
        "num_jobs is 2,147,483,647: that needs about 2.15 TB of memory, and 12 GB are free; "
        "accepted: up to 12,000,000 jobs in all"
    )


def test_nothing_is_refused_where_the_memory_is_not_known(monkeypatch):
    monkeypatch.setattr(jaxsched.memory, "free_bytes", lambda: None)
    check_jobs_fit(2**31 - 1, 1000, "num_jobs is 2,147,483,647")


def test_generators_refuse_at_once(free, tmp_path, capsys):
    with pytest.raises(JaxschedError, match="accepted: up to 12,000,000 jobs"):
        clusters.generate_trace("philly-like", 0, 2**31 - 1)
    with pytest.raises(JaxschedError, match="30 traces of 2,147,483,647 jobs: that needs"):
        registry.get("sched2-68", num_jobs=2**31 - 1)
    for name in ("philly-like", "sched2-68"):
        out = tmp_path / "x.csv"
        words = ("traces", "generate", name, "--num-jobs", 2**31 - 1, "--out", out)
        assert "jobs in all" in refused(capsys, *words)
        assert not out.exists()


def test_bytes_in_words():
    assert [in_words(x) for x in (512, 1_234_000, 2.147e12)] == ["512 B", "1.23 MB", "2.15 TB"]
