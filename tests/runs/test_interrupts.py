"""Signals and time limits: what stops, when, and with which exit status."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.runs import interrupts, trainer
from jaxsched.runs.interrupts import TIME_IS_UP, Limits, requests


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("1h30m", 5400), (" 1D ", 86400)],
)
def test_times_are_read(text, seconds):
    assert interrupts.read_time(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0", "-5", "2 hours", "h", "1h30", "nan", "inf", "1e3", "5x", "1:00:00", "²"]
)
def test_other_times_are_refused(text):
    with pytest.raises(JaxschedError, match="accepted: seconds, or"):
        interrupts.read_time(text)


def test_signals_are_read_by_name():
    assert interrupts.read_signal("SIGUSR1") == interrupts.read_signal("usr1") == signal.SIGUSR1
    for text in ("", "10", "SIGKILL", "STOP", "SIGNONE", "__members__"):
        with pytest.raises(JaxschedError, match="accepted: such as SIGUSR1"):
            interrupts.read_signal(text)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_is_a_request_that_may_come_twice(number):
    if signal.getsignal(number) == signal.SIG_IGN:  # as `nohup` leaves SIGHUP, for good reason
        pytest.skip("the caller ignores this signal, and so do we")
    before = signal.getsignal(number)
    with requests(Limits(signals=(signal.SIGUSR1,))) as asked:
        assert asked() == 0
        os.kill(os.getpid(), number)
        assert asked() == 128 + number
        if number == signal.SIGINT:
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
        else:
            os.kill(os.getpid(), number)
        assert asked() == 128 + number
    assert signal.getsignal(number) == before


def test_words_name_what_has_stopped():
    assert interrupts.by(128 + signal.SIGINT) == ""
    assert interrupts.by(128 + signal.SIGUSR1) == " by SIGUSR1"
    assert "max_time" in interrupts.by(TIME_IS_UP)
    assert str(interrupts.Stopped(143)) == "stopped by SIGTERM"


def test_time_is_up_before_the_work_that_would_pass_it():
    with requests(Limits(deadline=time.monotonic() + 1000)) as asked:
        assert asked(500) == 0 and asked(1001) == TIME_IS_UP
    assert interrupts.limits() == Limits()
    assert 3590 < interrupts.limits("1h").deadline - time.monotonic() <= 3600


def test_other_threads_have_the_time_limit_alone():
    found = []

    def run():
        with requests(Limits(deadline=0.0)) as asked, interrupts.prompt(print):
            found.append(asked())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [TIME_IS_UP]


PROGRAM = """
import hashlib, sys, time
from jaxsched.runs import interrupts
interrupts.PATIENCE_S = 0.2
def say(line):
    print(line, flush=True)
def work(kind):
    print("ready", flush=True)
    if kind == "python":
        while True:
            time.sleep(0.01)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # hears no signal for minutes
try:
    with interrupts.prompt(say):
        work(sys.argv[1])
except interrupts.Stopped as stop:
    say(str(stop))
    sys.exit(stop.status)
"""


@pytest.mark.parametrize("kind", ["python", "compiled"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_saves_nothing_ends_soon_with_one_line(kind, number):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert output == f"stopped{interrupts.by(128 + number)}\n"
    assert process.returncode == 128 + number


def test_prompt_leaves_handlers_as_they_were():
    before = [signal.getsignal(number) for number in interrupts.ENDING]
    with interrupts.prompt(print), pytest.raises(interrupts.Stopped, match="SIGTERM"):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    assert [signal.getsignal(number) for number in interrupts.ENDING] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_long_calls_are_made_shorter_and_checkpoints_come_by_the_clock(monkeypatch):
    now = 0.0
    monkeypatch.setattr(trainer.time, "monotonic", lambda: now)
    pace = trainer._Pace(120)
    assert pace.chunk == 40  # the largest up to 50 that divides the grain
    assert pace.after(20.0, lambda ahead: 0) == (0, False) and pace.chunk == 40
    assert pace.after(80.0, lambda ahead: int(ahead)) == (80, False)
    assert pace.chunk == 10  # 20 s
    pace.after(3000.0, lambda ahead: 0)
    assert pace.chunk == 1
    now = 290.0  # the next call would pass five minutes
    assert pace.after(9.0, lambda ahead: 0) == (0, False)
    assert pace.after(10.0, lambda ahead: 0) == (0, True)
    pace.saved()
    assert pace.after(10.0, lambda ahead: 0) == (0, False)
