"""The commands of the page about one's own cluster, one after the other, on a queue in memory."""

import json
import time
from datetime import UTC, datetime

import pytest

from jaxsched.cli import main
from jaxsched.queues import slurm
from tests.docs.commands import ALL, run_words
from tests.slurm.fake import Fake

PAGE = "docs/how_to/your_cluster.md"
NOW = int(time.time())
HOUR = 3600
WAITING = range(1101, 1151)


def documented(start):
    return [words for page, words in ALL if page == PAGE and words.startswith(start)]


def sacct(*, later):
    """A hundred jobs that have ended and, later, those of the queue, one every half an hour."""
    lines = ["JobID|User|Account|Submit|Start|End|State|AllocTRES"]
    rows = [(1001 + k, NOW - HOUR * (101 - k), 0, HOUR * (1 + k % 3)) for k in range(100)]
    if later:
        rows += [(n, NOW + k, k * HOUR // 2, HOUR) for k, n in enumerate(WAITING)]
    for number, submit, wait, run in rows:
        times = (submit, submit + wait, submit + wait + run)
        texts = (f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%S}" for time in times)
        user = "ab"[number % 2]
        lines.append(f"{number}|{user}|lab|{'|'.join(texts)}|COMPLETED|gres/gpu={1 + number % 8}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    queue = Fake(NOW)
    for number in WAITING:
        queue.submit(number, gpus=1 + number % 8, user="ab"[number % 2], partition="gpu")
        queue.now += 1
    answering = slurm.Slurm(queue.runner)
    monkeypatch.setattr(slurm, "Slurm", lambda: answering)
    monkeypatch.chdir(tmp_path)
    return queue


def test_from_the_shadow_to_the_queue_and_back(fake, tmp_path, capsys):
    shadow, live, restore = documented("jaxsched slurm")
    (judge,) = (words for words in documented("jaxsched advise") if "runs/slurm" in words)
    log, found = tmp_path / "sacct.txt", fake.priorities()
    log.write_text(sacct(later=False))

    run(f"{shadow} --once --every 600", capsys)
    assert fake.priorities() == found
    assert not any(words[0] == "scontrol" for words, _ in fake.calls)
    wanted = numbers(last_pass(tmp_path))
    assert sorted(wanted) == list(WAITING) != wanted

    log.write_text(sacct(later=True))
    said = run(f"{judge} --policies fifo,lrf --no-capacity --history 0.6", capsys)
    assert "learned-once, shadow: in the order that the policy wanted, mean wait" in said

    log.write_text(sacct(later=False))
    run(f"{live} --once --every 600 --metrics-port 0", capsys)
    assert fake.line() == numbers(last_pass(tmp_path)) == wanted
    changed = len(last_pass(tmp_path)["changes"])
    assert run(restore, capsys) == f"{changed} priorities put back\n"
    assert fake.priorities() == found


def run(words, capsys):
    assert main(run_words(words)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def numbers(line):
    return [int(name) for name in line["wanted"]]


def last_pass(folder):
    return json.loads((folder / "runs/slurm/decisions.jsonl").read_text().splitlines()[-1])
