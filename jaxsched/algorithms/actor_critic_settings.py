"""Settings of the actor-critic."""

from dataclasses import dataclass
from math import inf
from typing import Annotated, Literal

from jaxsched.algorithms.settings import traced
from jaxsched.errors import JaxschedError
from jaxsched.options import Bounds, Count, Positive, check

Baseline = Literal["value", "ema"]
StepPer = Literal["update", "group"]
Importance = Literal["batch", "memory"]
GradientAt = Literal["current", "stored"]


def _final_value_rate(config: "ActorCriticConfig") -> str:
    """Which rate the value's stays at or moves to where its final one is absent."""
    shared = config.value_learning_rate is None
    return "final_learning_rate" if shared else "value_learning_rate"


@dataclass(frozen=True)
class ActorCriticConfig:
    """Settings; what is not declared ``traced`` is static (:mod:`jaxsched.algorithms.settings`).

    Attributes:
      total_updates: calls of ``update`` over which learning rates and entropy weight move.
      gradient_steps: gradient steps per call of ``update``, or per group (``step_per``).
      step_per: ``"update"``; or ``"group"`` (with replay only): as many for each group that ended
        in the rollout, none where none did.
      batch_size: decisions per gradient step, all clusters together; ``None`` (without replay
        only) for the whole rollout.
      capacity: decisions held in the replay of each cluster; 0 learns from the rollout alone.
      fill_first: no gradient step before the replay of every cluster is full.
      held: with replay, so many decisions of each environment's open group are held over to the
        next rollout, so that a decision is stored when its group has ended, with what the group
        earned. A longer group loses those before them. 0: what a rollout cuts is stored at once
        and bootstraps from the value where it was cut.
      held_envs: environments of the loop, which ``held`` makes room for; in recipes always
        ``loop.num_envs``.
      num_clusters: equal parts of the environments, see the module's heading.
      baseline: ``"value"``, the value network; or ``"ema"``, a moving average of group rewards,
        with the group's reward alone as the target (ablation without a critic).
      normalise_advantages: to mean 0 and deviation 1 in each cluster's batch.
      max_gradient_norm: global norm to which each network's gradient is clipped, if given.
      learning_rate: of Adam on the policy, at the start.
      final_learning_rate: at the end; linear in between; constant if absent.
      value_learning_rate: of Adam on the value; as ``learning_rate`` if absent.
      final_value_learning_rate: at the end; if absent, as ``final_learning_rate`` where
        ``value_learning_rate`` is absent too, else constant.
      gamma: discount per group; unused where ``horizon_s`` is given.
      horizon_s: discount by time, ``exp(-elapsed / horizon_s)`` per step.
      lambda_: weight of later groups in the target (TD(lambda)); without replay only.
      entropy_start: weight of the entropy, at the start.
      entropy_end: at the end; linear in between.
      entropy_per_action: the entropy is divided by the number of actions, legal or not, as a mean
        over batch and actions of ``-p log p`` is.
      alpha: exponent of the priorities.
      beta_start: exponent of the importance weights, at the start.
      beta_growth: added to it by each draw of a batch, up to 1.
      importance: importance weights are over the ``"batch"``'s largest, in all terms; or, as in
        DL2's published learner, over the ``"memory"``'s largest, on the policy's advantages alone,
        of draws one from each of equal shares of the priorities.
      gradient_at: the policy's gradient is that at the ``"current"`` probabilities; or, with replay
        only and as in DL2's published learner, its logits are pulled as at the probabilities
        ``"stored"`` with the decision, and the network that carries them is the current one.
      priority_floor: added to each absolute advantage.
      priority_most: largest sum of both that counts. New decisions have priority 1.
      baseline_decay: of the moving average, per group.
    """

    total_updates: Count
    gradient_steps: Count = 1
    step_per: StepPer = "update"
    batch_size: Count | None = 256
    capacity: Annotated[int, Bounds(0)] = 8192
    fill_first: bool = False
    held: Annotated[int, Bounds(0)] = 0
    held_envs: Count = 1
    num_clusters: Count = 1
    baseline: Baseline = "value"
    normalise_advantages: bool = False
    max_gradient_norm: float | None = None
    learning_rate: float = traced(1e-4)
    final_learning_rate: float | None = traced(None, absent="learning_rate")
    value_learning_rate: float | None = traced(None, absent="learning_rate")
    final_value_learning_rate: float | None = traced(None, absent=_final_value_rate)
    gamma: float = traced(0.9)
    horizon_s: float | None = traced(None, absent=inf)
    lambda_: float = traced(0.0)
    entropy_start: float = traced(0.1)
    entropy_end: float = traced(0.1)
    entropy_per_action: bool = False
    alpha: float = traced(0.9)
    beta_start: float = traced(0.1)
    beta_growth: float = traced(1e-4)
    importance: Importance = "batch"
    gradient_at: GradientAt = "current"
    priority_floor: Positive = traced(0.01)
    priority_most: Positive = traced(1.0)
    baseline_decay: float = traced(0.99)

    @property
    def stores_scores(self) -> bool:
        """Log-probabilities of all actions are stored with each decision."""
        return self.gradient_at == "stored"

    def __post_init__(self) -> None:
        """Check that the settings are possible and fit together."""
        check(self)
        if self.held and not self.capacity:
            raise JaxschedError(
                f"ActorCriticConfig.held is {self.held}; it must be 0, or more with replay "
                "(capacity above 0)"
            )
        of_replay = {"fill_first": False, "step_per": "update", "gradient_at": "current"}
        for name, usual in of_replay.items():
            if not self.capacity and getattr(self, name) != usual:
                raise JaxschedError(
                    f"ActorCriticConfig.{name} is {getattr(self, name)!r}; it needs replay "
                    "(capacity above 0)"
                )
        if self.batch_size is None:
            if self.capacity:
                raise JaxschedError(
                    "ActorCriticConfig.batch_size is None; replay (capacity above 0) needs a number"
                )
        elif self.batch_size % self.num_clusters:
            raise JaxschedError(
                f"ActorCriticConfig.batch_size is {self.batch_size}; it must be a positive "
                f"multiple of num_clusters ({self.num_clusters})"
            )
        if self.lambda_ and (self.capacity or self.baseline == "ema"):
            raise JaxschedError(
                f"ActorCriticConfig.lambda_ is {self.lambda_}; it must be 0 with replay "
                "(capacity above 0) and with the ema baseline"
            )
