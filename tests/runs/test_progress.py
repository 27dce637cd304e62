"""The progress display: right figures, any terminal."""

import io

import pytest
from rich.console import Console

from jaxsched.runs.progress import TrainingProgress, _short


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def make(total=1000, *, terminal=False, width=100, **options):
    clock, out = Clock(), io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=width, legacy_windows=False)
    return TrainingProgress(total, console=console, clock=clock, **options), clock, out


def test_plain_lines_every_few_seconds():
    progress, clock, out = make(interval_s=5)
    with progress:
        for _ in range(11):
            clock.now += 1
            progress.update(progress.env_steps + 50, gradient_steps=progress.env_steps // 10)
    lines = out.getvalue().splitlines()
    assert len(lines) == 3  # after 5 s, after 10 s and at the end
    assert "25%" in lines[0] and "250 steps" in lines[0] and "50 steps/s" in lines[0]
    assert "15 s left" in lines[0]
    assert "\x1b" not in out.getvalue()


def test_rates_count_from_the_resumed_step():
    progress, clock, _ = make(start_steps=500)
    with progress:
        clock.now += 2
        progress.update(600)
        assert progress.steps_per_s() == 50


def test_best_evaluation_is_kept():
    progress, clock, _ = make()
    with progress:
        for value in (-3.0, -1.0, float("nan"), -2.0):
            clock.now += 1
            progress.update(10, evaluation=value)
    assert "evaluation -2 (best -1)" in progress.line()
    lower, _, _ = make(higher_is_better=False)
    with lower:
        for value in (3.0, 1.0, 2.0):
            lower.update(10, evaluation=value)
    assert lower.best == 1.0
    resumed, _, _ = make(higher_is_better=False, best=1.0)
    with resumed:
        resumed.update(10, evaluation=2.0)
    assert resumed.best == 1.0


@pytest.mark.parametrize("width", [1, 2, 10, 40, 200])
def test_live_display_fits_any_width(width):
    progress, clock, out = make(terminal=True, width=width, description="a long name of a run")
    with progress:
        for i in range(5):
            clock.now += 1
            progress.update(i * 250, gradient_steps=i, episode_return=-1e9, evaluation=1e-9)
    assert "\x1b" in out.getvalue()


def test_a_closed_output_does_not_end_the_run():
    for terminal in (False, True):
        progress, clock, out = make(terminal=terminal, interval_s=0)
        with progress:
            out.close()
            clock.now += 1
            progress.update(10)
        assert progress.env_steps == 10


def test_nothing_known_yet():
    progress, _, _ = make(0)
    with progress:
        progress.update(0, episode_return=float("nan"))
    assert "-" in progress.line()


def test_figures():
    assert [_short(x) for x in (0, 950, 12345, 4.56e6, 7e9)] == ["0", "950", "12.3k", "4.56M", "7G"]
    assert _short(float("nan")) == "-"
