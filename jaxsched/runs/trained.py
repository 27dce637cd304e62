"""Results of a training run: policies, evaluations, and time by phase."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from jaxsched.types import PyTree

PREPARING, COMPILING, LEARNING = "preparing", "compiling", "learning"
SCORING, SAVING = "scoring", "saving"
PARTS = (PREPARING, COMPILING, LEARNING, SCORING, SAVING)


class Point(NamedTuple):
    """One evaluation on the validation traces."""

    update: int
    env_steps: int
    episodes: float
    wall_s: float
    score: float


class Phases:
    """Seconds of this session by phase.

    Attributes:
      seconds: by name: first states and training tables, compiling the loop, the loop, evaluations
        on the validation traces (with their compiling), writing checkpoints.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Count the time within, without that of inner phases."""
        start, before = time.monotonic(), sum(self.seconds.values())
        try:
            yield
        finally:
            counted = sum(self.seconds.values()) - before
            self.seconds[name] += time.monotonic() - start - counted


class Trained(NamedTuple):
    """Results of a training run.

    Attributes:
      weights: per seed, the network parameters of the best evaluation.
      best: per seed, that evaluation.
      curves: per seed, all evaluations.
      wall_s: seconds of training over all sessions, evaluations included.
      phases: of all stages of this session.
    """

    weights: list[PyTree]
    best: list[Point]
    curves: list[list[Point]]
    wall_s: float
    phases: Phases


def in_words(seconds: Mapping[str, float]) -> str:
    """Parts of a time, ``compiling 12 s, learning 30 s``; those below half a second left out."""
    parts = [f"{name} {value:.0f} s" for name, value in seconds.items() if value >= 0.5]
    return ", ".join(parts) or "less than a second"
