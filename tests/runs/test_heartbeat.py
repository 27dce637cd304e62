"""What takes longer than a few seconds says so."""

import io
import threading

import pytest
from rich.console import Console

from jaxsched.runs.heartbeat import Heartbeat
from jaxsched.runtime import set_quiet


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Lines(io.StringIO):
    """A stream that says when its first line came."""

    def __init__(self):
        super().__init__()
        self.came = threading.Event()

    def flush(self):
        self.came.set()


def beat(what="playing fifo", stream=None, **options):
    return Heartbeat(Console(file=stream or io.StringIO()), what, **options)


def test_the_line_says_what_how_far_how_fast_and_what_is_left():
    clock = Clock()
    said = beat(clock=clock)
    clock.now = 3
    assert said.line() == "playing fifo: 3 s so far"
    said.update("playing sif", 0, 40, "episodes")
    clock.now = 5
    said.update("playing sif", 10, 40, "episodes")
    assert said.line() == ("playing sif: 5 s so far, 10 of 40 episodes, 5 a second, about 6 s left")
    said.update("playing sif", 9000, 0, "steps")
    assert said.line() == "playing sif: 5 s so far, 9,000 steps, 4,500 a second"


def test_what_is_expected_is_left():
    clock = Clock()
    said = beat("drawing jobs", clock=clock)
    said.update("drawing", 0, 2_000_000, "jobs")
    said.expect(20.0)
    clock.now = 5
    assert said.line() == "drawing: 5 s so far, 100,000 jobs a second, about 15 s left"
    clock.now = 50
    assert said.line().endswith("about 0 s left")


def test_short_work_says_nothing_and_long_work_a_line():
    stream = Lines()
    with beat(stream=stream):
        pass
    assert stream.getvalue() == ""
    with beat(stream=stream, first_s=0.01, every_s=0.01):
        assert stream.came.wait(10)
    assert stream.getvalue().startswith("playing fifo: 0 s so far")


def test_quiet_is_quiet_and_a_closed_stream_harmless():
    stream = Lines()
    set_quiet(True)
    try:
        with beat(stream=stream, first_s=0.01):
            assert not stream.came.wait(0.1)
    finally:
        set_quiet(False)
    stream.close()
    with beat(stream=stream, first_s=0.01, every_s=0.01):
        threading.Event().wait(0.05)


def test_an_error_passes_through():
    with pytest.raises(ValueError, match="as it is"), beat():
        raise ValueError("as it is")
