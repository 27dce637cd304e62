"""Recipes of trainings: named stages as data. A training is a recipe, job tables and a seed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from jaxsched.core.policies import Play
from jaxsched.core.training import LoopConfig
from jaxsched.networks.exportable import Precision
from jaxsched.systems.parts import TraceSet


@dataclass(frozen=True)
class Episodes:
    """Episodes that resets draw while learning: segments of job tables, each at several loads.

    Attributes:
      jobs: consecutive jobs that make an episode, of tables that have more; 0: whole tables.
      every: jobs from the start of one episode of a table to that of the next; 0: as many as make
        an episode. A shorter rest of a table is left out.
      scales: factors on the gaps between submissions; one after the other in equal steps.
      until: share of the training after which the last of them is reached; 0: all are drawn at any
        time.
      shared: all environments of an update have the same table, and updates take the tables in
        turn; else each reset draws one.
    """

    jobs: int = 0
    every: int = 0
    scales: tuple[float, ...] = (1.0,)
    until: float = 0.5
    shared: bool = False


@dataclass(frozen=True)
class Stage:
    """One learner and its loop; the next stage starts from the policy that this one chose.

    Attributes:
      name: a word; ``--set NAME.FIELD=VALUE`` changes a field of this stage.
      learner: settings, whose type says which learner it is (:mod:`jaxsched.systems.learners`); its
        ``total_updates`` follows ``loop.num_updates``, its ``held_envs`` ``loop.num_envs``.
      loop: sizes of the loop.
      env: options of the environment that differ while learning.
      params: arguments of the environment's ``params`` beside the job tables.
      episodes: episodes that resets draw.
      network_options: attributes of the policy's network while it learns, such as ``dropout``; or
        arguments of ``Networks.model``.
      value_network: kind of the value network, as ``Networks.value`` knows it, of learners
        that have one; empty: that of the policy's network.
      critic: input of the value network: the ``observation`` alone, or the privileged ``state`` too
        (:mod:`jaxsched.wrappers.privileged_state`).
      precision: precision of both networks' products while learning
        (:class:`jaxsched.networks.exportable.ExportableModule`); the policy plays and is exported
        in float32.
      rivals: heuristics whose actions branching of agents tries beside the policy's own.
      teacher: the imitated policy, a name of ``Training.teacher``; None: none is imitated.
      data: ``data(env, teacher, params)``, a function without arguments that records what the
        teacher does, as :class:`~jaxsched.wrappers.recorded.RecordedParams`, which is then imitated
        in place of the teacher; None: the teacher is asked at every decision.
      augment: ``augment(env)``, augmentation of decisions before they are imitated, a function as
        :mod:`jaxsched.algorithms.imitation` takes it; None: not at all.
      wrap: ``wrap(env)``, the environment that is learned in, such as one with another reward;
        None: ``env`` itself.
      adjust: ``adjust(env, params)``, a function without arguments that changes the parameters when
        they are first needed; None: they are not changed.
      explore: ``explore(env)``, how the learner draws actions that explore, a function as
        :mod:`jaxsched.algorithms.dqn` takes it; None: as the learner does.
      evaluate_every: updates between evaluations on the validation tables; 0: at the end alone.
      checkpoint_every: updates between checkpoints; 0: at the end alone; None: as the recipe's.
      cut: for learners of whole episodes: an episode longer than ``loop.rollout_length`` steps ends
        there, with its rewards until then.
      skip: leave the stage out.
    """

    name: str
    learner: Any
    loop: LoopConfig
    env: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    episodes: Episodes = Episodes()
    network_options: Mapping[str, Any] = field(default_factory=dict)
    value_network: str = ""
    critic: Literal["observation", "state"] = "observation"
    precision: Precision = "float32"
    rivals: tuple[str, ...] = ()
    teacher: str | None = None
    data: Callable[[Any, str, Any], Callable[[], Any]] | None = None
    augment: Callable[[Any], Any] | None = None
    wrap: Callable[[Any], Any] | None = None
    adjust: Callable[[Any, Any], Callable[[], Any]] | None = None
    explore: Callable[[Any], Any] | None = None
    evaluate_every: int = 250
    checkpoint_every: int | None = None
    cut: bool = False
    skip: bool = False

    def __post_init__(self) -> None:
        """Presets are shared: make their mappings read-only."""
        for name in ("env", "params", "network_options"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))


@dataclass(frozen=True)
class Recipe:
    """A training of a policy for an environment, in stages.

    ``--set`` reaches a stage by its name; without one, a field that only stages have is that of the
    last stage, such as ``learner.rho``.

    Attributes:
      env: the environment in which the policy is scored, tested and exported.
      traces: job tables for training, choice and test; the system's if it names none.
      stages: one after the other.
      network: kind of the policy's network, as ``Networks.policy`` knows it.
      policy: name of the learned policy.
      play: whether it takes the best action or draws one.
      checkpoint_every: updates between checkpoints of a whole stage; 0: at its end alone.
      departures: differences from the paper's recipe, one line each, in which ``{PATH}`` is the
        value of a field; None: found by comparing both (:mod:`jaxsched.systems.departures`).
    """

    named_parts: ClassVar[str] = "stages"

    env: Any
    traces: TraceSet
    stages: tuple[Stage, ...]
    network: str
    policy: str
    play: Play = "greedy"
    checkpoint_every: int = 1000
    departures: tuple[str, ...] | None = None

    @property
    def loops(self) -> list[LoopConfig]:
        """Sizes of the loops of the stages that are not left out."""
        return [stage.loop for stage in self.stages if not stage.skip]
