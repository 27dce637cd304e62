"""A small network that scores the window's jobs, for search over whole episodes.

One network scores every position from its outlook (``outlook.py``) and a summary of the window and
the queue beyond it; void has a score of its own. It starts as the ``strict_sif`` heuristic: a
linear part is set to that rule, all other scores begin at 0.
"""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp

from jaxsched.envs.sched2.networks import SQUASH_DIVIDE, SQUASH_MULTIPLY
from jaxsched.envs.sched2.observation import NUM_STATISTICS
from jaxsched.envs.sched2.outlook import OUTLOOK, TIMES
from jaxsched.networks import description as nd
from jaxsched.networks.exportable import ExportableModule
from jaxsched.types import Array

RULE = {"duration": -2.0, "level0": 4.0, "split": -2.0}
"""Weights of the linear part at the start: the shortest of the jobs at level 0, before void."""
ZERO = ("score", "void")  # layers that begin at 0


class ScoringNetwork(ExportableModule):
    """Scores of the positions and of void.

    Attributes:
      window: J.
      hidden_sizes: widths of the layers that read a position in its context.
      void_sizes: widths of the layers that read the summary for void.
    """

    window: int
    hidden_sizes: tuple[int, ...] = (16, 16)
    void_sizes: tuple[int, ...] = (8,)

    def describe(self) -> list[nd.Step]:
        """Positions in context, a linear part beside them, and void."""
        num, times = len(OUTLOOK), len(TIMES)
        last = nd.last_of("joined", "hidden", self.hidden_sizes)
        last_of_void = nd.last_of("summary", "void_hidden", self.void_sizes)
        return [
            nd.take(nd.OBSERVATION, "flat", start=-num * self.window),
            nd.reshape("flat", "raw", (self.window, num)),
            nd.take("raw", "times", stop=times),
            _squash("times", "log_times"),
            nd.take("raw", "others", start=times),
            nd.concat(("log_times", "others"), "positions"),
            nd.take(
                nd.OBSERVATION,
                "statistics",
                start=-num * self.window - NUM_STATISTICS,
                stop=-num * self.window,
            ),
            _squash("statistics", "beyond"),
            nd.mean("positions", "mean_position"),
            nd.concat(("mean_position", "beyond"), "summary"),
            nd.repeat("summary", "summaries", self.window),
            nd.concat(("positions", "summaries"), "joined"),
            *nd.dense_stack("joined", "hidden", self.hidden_sizes),
            nd.dense(last, "score", 1, activation="linear"),
            nd.dense("positions", "rule", 1, activation="linear"),
            nd.add(("score", "rule"), "each"),
            nd.reshape("each", "position_scores", (self.window,)),
            *nd.dense_stack("summary", "void_hidden", self.void_sizes),
            nd.dense(last_of_void, "void", 1, activation="linear"),
            nd.concat(("position_scores", "void"), nd.SCORES),
        ]

    def initialiser(self, layer: str) -> nn.initializers.Initializer:
        """The rule in the linear part, 0 in the last layers."""
        if layer == "rule":
            return _rule
        if layer in ZERO:
            return nn.initializers.zeros_init()
        return nn.initializers.lecun_normal()


def _rule(key: Any, shape: Any, dtype: Any = jnp.float32, **_: Any) -> Array:
    del key, shape
    return jnp.array([[RULE.get(name, 0.0)] for name in OUTLOOK], dtype)


def _squash(source: str, output: str) -> nd.Step:
    return nd.log1p(source, output, multiply=SQUASH_MULTIPLY, divide=SQUASH_DIVIDE)
