"""Settings of policy iteration by branching (:mod:`jaxsched.algorithms.branching`)."""

from dataclasses import dataclass
from typing import Annotated

from jaxsched.algorithms.settings import traced
from jaxsched.core.monte_carlo import LookAhead
from jaxsched.options import Bounds, Count, Positive, Share, check

inf = float("inf")


@dataclass(frozen=True)
class BranchingConfig:
    """Settings; what is not declared ``traced`` is static (:mod:`jaxsched.algorithms.settings`).

    Attributes:
      total_updates: calls of ``update`` over which the learning rate moves.
      futures: resampled futures on which a state's candidates are valued; 0: the true one.
      alternatives: candidates of a state, the policy's own action and others drawn; None: all.
        In a recipe for agents those of its rivals are among them; None: no others.
      max_steps: of each rollout; None: the environment's own bound.
      capacity: states kept, at least one of each environment.
      gradient_steps: minibatches per call of ``update``.
      batch_size: states per minibatch.
      max_gradient_norm: global norm to which gradients are clipped, if given.
      learning_rate: of Adam, at the start.
      final_learning_rate: at the end; linear in between; constant if absent.
      horizon_s: simulated seconds over which a candidate's rewards count; all if absent.
      discount_s: time constant of the discount within; none if absent.
      exploration: probability that a legal action drawn uniformly is taken instead.
      relative: 1 compares relative to what the policy's own action earns, 0 absolute.
      clip: bound of scaled advantages; none if absent.
      critic: whether rollouts bootstrap from a value network where they stop.
      critic_updates: calls of ``update`` at the start in which the critic alone learns, if there is
        one.
      value_learning_rate: of the critic's Adam, at the start.
      final_value_learning_rate: at the end; constant if absent.
      temperature: of the softmax.
      entropy_weight: of the softmax's entropy.
    """

    total_updates: Count
    futures: int = 0
    alternatives: int | None = None
    max_steps: int | None = None
    capacity: Count = 8192
    gradient_steps: Count = 4
    batch_size: Count = 256
    max_gradient_norm: float | None = 1.0
    critic: bool = False
    critic_updates: Annotated[int, Bounds(0)] = 0
    learning_rate: float = traced(1e-3)
    final_learning_rate: float | None = traced(None, absent="learning_rate")
    value_learning_rate: float = traced(1e-3)
    final_value_learning_rate: float | None = traced(None, absent="value_learning_rate")
    horizon_s: Positive | None = traced(None, absent=inf)
    discount_s: Positive | None = traced(None, absent=inf)
    exploration: Share = traced(0.0)
    relative: Share = traced(0.0)
    clip: Positive | None = traced(None, absent=inf)
    temperature: Positive = traced(1.0)
    entropy_weight: float = traced(0.0)

    def __post_init__(self) -> None:
        """Check sizes and options."""
        check(self)
        _ = self.look_ahead

    @property
    def look_ahead(self) -> LookAhead:
        """The static settings of the rollouts."""
        return LookAhead(self.futures, self.alternatives, self.max_steps)
