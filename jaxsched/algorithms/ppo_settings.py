"""Settings of proximal policy optimisation."""

from dataclasses import dataclass
from math import inf
from typing import Literal

from jaxsched.algorithms.settings import traced
from jaxsched.errors import JaxschedError
from jaxsched.options import Count, Positive, Share, check

GammaPer = Literal["group", "step", "decision"]


@dataclass(frozen=True)
class PPOConfig:
    """Settings; what is not declared ``traced`` is static (:mod:`jaxsched.algorithms.settings`).

    Attributes:
      total_updates: calls of ``update`` over which learning rates and entropy weight move.
      epochs: passes over the rollout per call of ``update``.
      num_minibatches: equal parts of the rollout, one gradient step each.
      sequence_length: minibatches are made of sequences of so many consecutive steps of one
        environment, which divides the rollout's length; of single decisions if absent.
      only_choices: decisions with a single legal action count neither in losses nor in means
        (of one discrete choice; other agents say themselves what is active).
      num_sequences: if given, whole episodes of so many job sequences are played, each by several
        environments, and advantages are measured against the others' returns from the same time on
        in place of values (:mod:`jaxsched.algorithms.common_sequences`).
      normalise_targets: the critic learns targets less their mean over their deviation, both moving
        averages; for returns whose size is unknown or changes.
      average_reward: rewards count less the average reward per simulated second, without discount
        (:mod:`jaxsched.algorithms.average_reward`); ``gamma`` and ``horizon_s`` are unused, and
        ``lambda_`` says how far single rewards are followed.
      normalise_advantages: to mean 0 and deviation 1 over the decisions of each minibatch.
      gamma_per: what ``gamma`` and ``lambda_`` count: groups of decisions at one instant
        (``"group"``), steps (``"step"``), or steps that lead to a decision (``"decision"``, for
        environments that also step where none is due; the agents say where one is).
      max_gradient_norm: global norm to which each network's gradient is clipped, if given.
      learning_rate: of Adam on the policy, at the start.
      final_learning_rate: at the end; linear in between.
      value_learning_rate: of Adam on the value, at the start; as ``learning_rate`` if absent; it
        ends at ``final_learning_rate``, too.
      gamma: discount per group (see ``gamma_per``); unused where ``horizon_s`` is given.
      horizon_s: discount by time, ``exp(-elapsed / horizon_s)`` per step; of the first update.
      final_horizon_s: at the end; in between it grows by the same factor in each update.
      lambda_: weight of later groups in the targets; unused where ``return_span_s`` is given.
      step_lambda: weight of later decisions of the same group; likewise.
      return_span_s: targets are the rewards of so many simulated seconds
        (:func:`jaxsched.algorithms.returns.span_returns`), if given.
      clip: largest change of a probability ratio that is rewarded.
      entropy_start: weight of the entropy, at the start.
      entropy_end: at the end; linear in between.
      reward_scale: rewards are multiplied by it.
    """

    total_updates: Count
    epochs: Count = 4
    num_minibatches: Count = 4
    sequence_length: Count | None = None
    only_choices: bool = False
    num_sequences: Count | None = None
    normalise_targets: bool = False
    average_reward: bool = False
    normalise_advantages: bool = True
    gamma_per: GammaPer = "group"
    max_gradient_norm: float | None = 0.5
    learning_rate: float = traced(3e-4)
    final_learning_rate: float = traced(0.0)
    value_learning_rate: float | None = traced(None, absent="learning_rate")
    gamma: float = traced(0.99)
    horizon_s: Positive | None = traced(None, absent=inf)
    final_horizon_s: Positive | None = traced(None, absent="horizon_s")
    lambda_: Share = traced(0.95)
    step_lambda: Share = traced(1.0)
    return_span_s: Positive | None = traced(None, absent=inf)
    clip: Positive = traced(0.2)
    entropy_start: float = traced(0.01)
    entropy_end: float = traced(0.01)
    reward_scale: float = traced(1.0)

    def __post_init__(self) -> None:
        """Check that the settings are possible."""
        check(self)
        if self.num_sequences is not None and not self.only_choices:
            raise JaxschedError(
                "PPOConfig.only_choices is false; it must be true with num_sequences, whose "
                "episodes are padded with steps that decide nothing"
            )
        self._check_time()

    @property
    def gradient_steps(self) -> int:
        """Gradient steps of each update."""
        return self.epochs * self.num_minibatches

    def _check_time(self) -> None:
        """Check the settings of discount, horizon and span."""
        if self.final_horizon_s is not None and self.horizon_s is None:
            raise JaxschedError(
                f"PPOConfig.final_horizon_s is {self.final_horizon_s}; it must be None without "
                "horizon_s"
            )
        for name in ("horizon_s", "return_span_s", "num_sequences"):
            if self.average_reward and getattr(self, name) is not None:
                raise JaxschedError(
                    f"PPOConfig.{name} is {getattr(self, name)}; it must be None with "
                    "average_reward"
                )
