"""Passes order a queue, do no harm when something goes wrong, and put back what they found."""

import json

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.queues import orders
from jaxsched.queues.control import Control, Settings, run
from jaxsched.queues.decisions import shadow_scores
from jaxsched.queues.slurm import Slurm
from tests.slurm.fake import Fake

USUAL = {"policy": "sjf-est", "every_s": 30.0, "longest_wait_s": 86_400.0, "most_changes": 200}


@pytest.fixture
def fake():
    """Four jobs that wait: 3 is the shortest by its limit, then 4, 2, 1."""
    queue = Fake()
    for number, limit in ((1, 400), (2, 300), (3, 5), (4, 60)):
        queue.submit(number, limit=limit)
        queue.now += 10
    return queue


def control(fake, folder, **settings):
    return Control(
        Slurm(fake.runner), Settings(**USUAL | settings), folder,
        clock=lambda: fake.now,
    )  # fmt: skip


def test_a_pass_gives_the_order_and_the_next_one_changes_nothing(fake, tmp_path):
    found = fake.priorities()
    ours = control(fake, tmp_path)
    done = ours.step()
    assert fake.line() == [3, 4, 2, 1]
    assert (done.waiting, done.running, done.failure) == (4, 0, "")
    assert done.changed == 2  # 3 before 4, as they are
    assert ours.step().changed == 0
    assert ours.restore() == 2
    assert fake.priorities() == found
    assert ours.restore() == 0


def test_all_changes_go_in_one_call(fake, tmp_path):
    control(fake, tmp_path).step()
    assert [words[0] for words, _ in fake.calls] == ["squeue", "scontrol"]


def test_a_dry_run_sets_nothing_and_logs_what_it_would(fake, tmp_path):
    found = fake.priorities()
    done = control(fake, tmp_path, dry_run=True).step()
    assert done.changed == 2
    assert "2 would change" in done.line(Settings(**USUAL, dry_run=True))
    assert fake.priorities() == found
    line = json.loads((tmp_path / "decisions.jsonl").read_text())
    assert line["wanted"] == ["3", "4", "2", "1"]
    assert line["slurm"] == ["1", "2", "3", "4"]


def test_a_later_process_puts_back_what_an_earlier_one_found(fake, tmp_path):
    found = fake.priorities()
    control(fake, tmp_path).step()
    assert control(fake, tmp_path).restore() == 2
    assert fake.priorities() == found


def test_a_process_that_was_killed_while_it_wrote_leaves_decisions_that_can_be_read(fake, tmp_path):
    control(fake, tmp_path, dry_run=True).step()
    path = tmp_path / "decisions.jsonl"
    whole = path.read_text()
    path.write_text(whole + whole[:70])
    control(fake, tmp_path, dry_run=True).step()
    assert len(path.read_text().splitlines()) == 2
    assert len(shadow_scores(tmp_path)["sjf-est"]) == 4


def test_what_somebody_else_has_set_is_left_alone(fake, tmp_path):
    ours = control(fake, tmp_path)
    ours.step()
    fake.jobs[2]["priority"] = 5000
    ours.step()
    assert fake.line() == [2, 3, 4, 1]
    ours.restore()
    assert fake.priorities()[2] == 5000


def test_few_changes_a_pass(fake, tmp_path):
    ours = control(fake, tmp_path, most_changes=1)
    done = ours.step()
    assert (done.changed, done.left) == (1, 1)
    while ours.step().changed:
        pass
    assert fake.line() == [3, 4, 2, 1]


def test_who_has_waited_long_goes_first_by_submission(fake, tmp_path):
    fake.now = 10_000 + 3600
    control(fake, tmp_path, longest_wait_s=3595).step()
    assert fake.line() == [1, 3, 4, 2]
    fake.now += 3600
    control(fake, tmp_path, longest_wait_s=3595).step()
    assert fake.line() == [1, 2, 3, 4]


def test_jobs_of_other_partitions_and_held_ones_are_left_alone(fake, tmp_path):
    fake.submit(5, limit=1, partition="other")
    fake.submit(6, limit=1, dependency="afterok:1")
    before = fake.priorities()
    control(fake, tmp_path, queue="main").step()
    assert fake.line()[0] == 3
    assert {n: fake.priorities()[n] for n in (5, 6)} == {n: before[n] for n in (5, 6)}


def test_a_partition_without_jobs_is_said(fake, tmp_path):
    done = control(fake, tmp_path, queue="mian").step()
    said = done.line(Settings(**USUAL, queue="mian"))
    assert said == "sjf-est: no job is in mian; jobs are in main"


def test_a_job_that_starts_meanwhile_is_no_failure(fake, tmp_path):
    ours = control(fake, tmp_path)
    runner = fake.runner

    def late(words, text=None):
        if words[0] == "scontrol":
            fake.start(2)
        return runner(words, text)

    ours.adapter = Slurm(late)
    done = ours.step()
    assert (done.changed, done.failure) == (1, "")
    assert fake.line() == [3, 4, 1]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ((1, "", "slurm_load_jobs error: Unable to contact slurm controller"), "Unable to contact"),
        ((0, "", ""), "no JSON"),
        ((0, '{"jobs": 3}', ""), "a list of jobs"),
        ((0, "[" * 100_000, ""), "no JSON"),
    ],
)
def test_replies_that_are_none_change_nothing(fake, tmp_path, broken, words):
    ours = control(fake, tmp_path)
    found = fake.priorities()
    fake.broken = broken
    for _ in range(5):
        done = ours.step()
        assert words in done.failure
        assert done.line(ours.settings).startswith("sjf-est: nothing changed")
    assert fake.priorities() == found
    fake.broken = None
    assert ours.step().changed == 2


def test_a_policy_that_fails_gives_up_its_order(fake, tmp_path, monkeypatch):
    found = fake.priorities()
    ours = control(fake, tmp_path)
    ours.step()
    monkeypatch.setattr(orders, "ORDERS", {"sjf-est": lambda *_: [float("nan")] * 4})
    failures = [ours.step().failure for _ in range(3)]
    assert all("scores are no numbers" in failure for failure in failures)
    assert "2 priorities put back" in failures[-1]
    assert fake.priorities() == found


def test_a_policy_that_is_slow_changes_nothing(fake, tmp_path):
    found = fake.priorities()
    done = control(fake, tmp_path, every_s=1e-9).step()
    assert "longer than" in done.failure
    assert fake.priorities() == found


def test_the_loop_puts_back_what_it_found(fake, tmp_path):
    found, passes = fake.priorities(), []
    settings = {"every_s": 5.0}
    back = run(control(fake, tmp_path, **settings), lambda: len(passes) > 0, passes.append)
    assert back == 2
    assert fake.priorities() == found
    assert run(control(fake, tmp_path, **settings), lambda: False, passes.append, once=True) == 0
    assert fake.line() == [3, 4, 2, 1]


def test_forecasts_come_from_ended_jobs(tmp_path):
    """Who has run short jobs so far goes before who has run long ones."""
    fake = Fake()
    for k in range(12):
        number, user = k + 1, "short" if k % 2 else "long"
        fake.submit(number, user=user)
        fake.start(number)
        fake.now += 30 if user == "short" else 30_000
        fake.end(number)
    fake.submit(21, user="long")
    fake.submit(22, user="short")
    for policy in ("qssf", "learned-once"):
        done = control(fake, tmp_path / policy, policy=policy).step()
        assert done.failure == ""
        assert fake.line() == [22, 21]


def test_unknown_words_and_damaged_files(fake, tmp_path):
    with pytest.raises(JaxschedError, match="accepted: fifo, lrf"):
        control(fake, tmp_path, policy="magic")
    (tmp_path / "found.json").write_text('{"found": 3}')
    with pytest.raises(JaxschedError, match="holds no priorities"):
        control(fake, tmp_path)


def test_commands_that_are_not_there():
    from jaxsched.queues.commands import run as run_command

    with pytest.raises(JaxschedError, match="is it installed"):
        run_command(["no-such-command-at-all"])


def test_metrics(fake, tmp_path):
    pytest.importorskip("prometheus_client")
    from prometheus_client import generate_latest

    from jaxsched.queues.metrics import Metrics

    metrics = Metrics(0, "slurm")
    metrics(control(fake, tmp_path).step())
    fake.broken = (1, "", "gone")
    metrics(control(fake, tmp_path).step())
    text = generate_latest(metrics.registry).decode()
    assert "jaxsched_slurm_waiting 4.0" in text
    assert "jaxsched_slurm_changes_total 2.0" in text
    assert "jaxsched_slurm_failures_total 1.0" in text
    metrics.server[0].shutdown()
    metrics.server[0].server_close()
    metrics.server[1].join()
