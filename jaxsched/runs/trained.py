"""What a training run leaves: policies, evaluations, and where its time went."""

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
    """Seconds of this session by what they were spent on.

    Attributes:
      seconds: by name; the first states and what is learnt on, the loop's programs, the loop,
        playing the validation traces (compiled there, too), writing checkpoints.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Count what happens within, less what phases within count."""
        start, before = time.monotonic(), sum(self.seconds.values())
        try:
            yield
        finally:
            counted = sum(self.seconds.values()) - before
            self.seconds[name] += time.monotonic() - start - counted


class Trained(NamedTuple):
    """What a training run leaves.

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
