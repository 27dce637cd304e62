"""The commands of the page about Kueue, one after the other, on a cluster in memory."""

import json
import shlex
import time

import pytest

from jaxsched.cli import main
from jaxsched.queues import kueue
from tests.docs.commands import ALL, run_words
from tests.kueue import objects
from tests.kueue.fake import Fake

PAGE = "docs/how_to/your_cluster.md"
NOW = int(time.time())
HOUR = 3600
WAITING = range(1101, 1131)


def documented(start, *others):
    return [
        words for page, words in ALL
        if page == PAGE and words.startswith(start) and all(each in words for each in others)
    ]  # fmt: skip


def log(*, later):
    """A hundred workloads that have ended and, later, those of the queue."""
    rows = [(k, NOW - HOUR * (101 - k), 0, HOUR * (1 + k % 3)) for k in range(100)]
    if later:
        rows += [(n, NOW + k, k * HOUR // 2, HOUR) for k, n in enumerate(WAITING)]
    return objects.reply(
        *(
            objects.workload(number, at, gpus=1 + number % 8, namespace="ab"[number % 2],
                             admitted=at + wait, ended=at + wait + ran)
            for number, at, wait, ran in rows
        )
    )  # fmt: skip


@pytest.fixture
def fake(tmp_path, monkeypatch):
    cluster = Fake(NOW)
    cluster.queues += [objects.local_queue(namespace=name) for name in "ab"]
    for number in WAITING:
        cluster.submit(number, gpus=1 + number % 8, namespace="ab"[number % 2])
        cluster.now += 1
    answering = kueue.Kueue(cluster.runner)
    usual = kueue.Kueue
    monkeypatch.setattr(kueue, "Kueue", lambda *runner: usual(*runner) if runner else answering)
    monkeypatch.chdir(tmp_path)
    return cluster


def test_from_the_shadow_to_the_queue_and_back(fake, tmp_path, capsys):
    (shadow,) = documented("jaxsched kueue", "--dry-run")
    (printing,) = documented("jaxsched kueue", "--read")
    (live,) = documented("jaxsched kueue", "--metrics-port")
    (restore,) = documented("jaxsched kueue --restore")
    (judge,) = documented("jaxsched advise", "runs/kueue")
    file = tmp_path / "workloads.json"
    file.write_text(json.dumps(log(later=False)))

    run(f"{shadow} --once --every 600", capsys)
    assert set(fake.priorities().values()) == {0}
    wanted = last_pass(tmp_path)["wanted"]
    assert sorted(wanted) == [objects.uid(number) for number in WAITING] != wanted

    file.write_text(json.dumps(log(later=True)))
    said = run(f"{judge} --policies fifo,lrf --no-capacity --history 0.7", capsys)
    assert "learned-once, shadow: in the order that the policy wanted, mean wait" in said

    file.write_text(json.dumps(log(later=False)))
    (tmp_path / "queues.json").write_text(fake.runner(kueue.READ)[1])
    lines = run(f"{printing} --every 600 --out printed", capsys).splitlines()
    assert set(fake.priorities().values()) == {0}
    for line in lines:
        assert fake.runner(shlex.split(line))[0] == 0
    assert [objects.uid(number) for number in fake.line()] == wanted
    for number in WAITING:
        fake.workloads[number]["spec"]["priority"] = 0

    run(f"{live} --once --every 600 --metrics-port 0", capsys)
    assert [objects.uid(number) for number in fake.line()] == wanted
    changed = len(last_pass(tmp_path)["changes"])
    assert run(restore, capsys) == f"{changed} priorities put back\n"
    assert set(fake.priorities().values()) == {0}


def run(words, capsys):
    assert main(run_words(words)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def last_pass(folder):
    return json.loads((folder / "runs/kueue/decisions.jsonl").read_text().splitlines()[-1])
