"""How DL2 is trained: presets (specification, section 10) and what they build."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import flax.linen as nn

from jaxsched.algorithms.actor_critic import actor_critic
from jaxsched.algorithms.actor_critic_settings import ActorCriticConfig
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.algorithms.imitation import Augment, ImitationConfig, imitation
from jaxsched.algorithms.ppo import PPOConfig, ppo
from jaxsched.core.learner import Learner
from jaxsched.core.policies import Play
from jaxsched.core.training import LoopConfig
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.exploration import (
    forced_actions,
    job_aware,
    shuffle_rows,
    unlabelled_end,
)
from jaxsched.envs.dl2.networks import RowPolicy, RowValue
from jaxsched.envs.dl2.observation import observation_names
from jaxsched.envs.dl2.parameters import Params, SpeedMode
from jaxsched.envs.dl2.shaping import Shaped
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.networks.mlp import MLP, ValueMLP, sizes_of
from jaxsched.systems.base import TraceSet
from jaxsched.types import Array, PRNGKey

SIM = DL2(num_servers=60, window=20)
TESTBED = DL2(num_servers=13, window=10)
LARGE = DL2(num_servers=500, window=40)
ARTEFACT = DL2(
    num_servers=48,
    gpus_per_server=8,
    cpus_per_server=8,
    mem_per_server=0,
    window=20,
    max_workers=32,
    max_ps=32,
    assign_bundle=True,
    demand_table="artefact",
    speed_mode="grid",
    bundle_servers="one",
    placement="least_used",
    rows="window",
    misfit="end_slot",
    observation="artefact",
)
"""The simulator that DL2's authors published; resources are slots."""
PAPER_HIDDEN = (256, 256)
PUBLISHED_STD = 0.02

Algorithm = Literal["actor_critic", "ppo", "none"]
Reward = Literal["slot", "slot_epochs", "shares", "epochs"]
Exploration = Literal["paper", "published"]
Teacher = Literal[
    "none",
    "drf",
    "fifo",
    "srtf",
    "tetris",
    "optimus",
    "optimus_oracle",
    "probe",
    "drf_actions",
    "drf_tasks_actions",
    "optimus_actions",
    "probe_actions",
]


@dataclass(frozen=True)
class Simulator:
    """How jobs progress in the environment that is learnt in.

    Attributes:
      speed_mode: the formula, or the published measurements.
      overlap: share of the hideable communication that is hidden.
      contention: how much other jobs slow a job.
    """

    speed_mode: SpeedMode = "analytic"
    overlap: float = 1.0
    contention: float = 1.0


PUBLISHED = Simulator(speed_mode="grid", contention=0.0)
"""Of the code that DL2's authors published."""


SUPERVISED_RATE = 0.005  # the paper's


@dataclass(frozen=True)
class Supervised:
    """The stage before reinforcement learning: imitate an existing scheduler.

    Attributes:
      teacher: the scheduler; ``none`` leaves the stage out. A rule that acts through the agent's
        actions labels decisions as they come, also the student's (``learner.student_share``).
      num_tables: training tables that the teacher schedules once, for the data.
      learner: settings of the imitation; its ``total_updates`` follows ``num_updates``.
      num_updates: updates of ``learner.batch_size`` decisions each.
      shuffle: put the rows of each decision in random order.
      label_end: the teacher's void is a label like others, and actions that are illegal have
        probability 0. Otherwise decisions to void teach nothing, and the loss is that of the
        softmax over all actions, as in the published learner.
      by_task: a bundle of a teacher that plans whole slots is labelled as a worker and then a
        parameter server, though one action could place both.
      empty_slots: a teacher that acts through the agent's actions starts each slot with nothing,
        whatever the environment gives (``assign_bundle``).
      loop: environments, steps and head start of an update, where a teacher is asked as they play.
      evaluate_every: updates between evaluations.
    """

    teacher: Teacher = "drf"
    num_tables: int = 20
    learner: ImitationConfig = field(
        default_factory=lambda: ImitationConfig(
            3000, student_share=0.0, learning_rate=2e-3, final_learning_rate=1e-4
        )
    )
    num_updates: int = 3000
    shuffle: bool = True
    label_end: bool = True
    by_task: bool = False
    empty_slots: bool = False
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(256, 256, 1))
    evaluate_every: int = 500


@dataclass(frozen=True)
class Search:
    """The last stage, if there is one: search by whole episodes for a lower completion time.

    Attributes:
      learner: settings of the search.
      loop: its sizes; ``rollout_length`` covers an episode.
      reward: what an episode's rewards add up to.
      evaluate_every: updates between evaluations.
    """

    learner: EvolutionConfig = field(
        default_factory=lambda: EvolutionConfig(
            members=64,
            episodes=8,
            initial_std=0.03,
            follow="gradient",
            learning_rate=0.004,
            final_learning_rate=0.001,
            averaging=0.9,
        )
    )
    loop: LoopConfig = field(
        default_factory=lambda: LoopConfig(512, 4000, 100, num_random_streams=8)
    )
    reward: Literal["backlog", "presence"] = "backlog"
    evaluate_every: int = 10


@dataclass(frozen=True)
class Recipe:
    """Everything that a training run of DL2 depends on besides its seed and job tables.

    Attributes:
      env: the environment.
      traces: what is learnt on, chosen on and tested on.
      simulator: how jobs progress while learning.
      supervised: the first stage.
      loop: sizes of the loop of the second stage.
      algorithm: the learner of the second stage; ``none`` leaves the stage out.
      actor_critic: settings of the paper's learner.
      ppo: settings of the other one; ``total_updates`` of both follow ``loop.num_updates``.
      exploration: the learner explores (``actor_critic`` only).
      explores: how: by the ``paper``'s job-aware exploration, or by the actions that the
        ``published`` learner forces (``exploration.py``).
      network: ``paper`` (two layers of 256), ``published`` (one as wide as the observation, a
        learnt factor and summand after its ReLU, weights drawn with deviation 0.02), ``rows`` (a
        variant that shares weights by row), or layers of other widths as ``mlp-128-128``.
      reward: paid at the end of each ``slot`` as in the paper; or there, but by the epochs trained,
        not by shares of each job's (``slot_epochs``); or in parts with each inference, as
        ``shares`` of the epochs expected (the same sum) or as ``epochs`` (``shaping.py``).
      urgency: with ``epochs``, the exponent by which those of jobs near their end count for more.
      search: a third stage, if given.
      play: whether the tested policy takes the best action or draws one.
      evaluate_every: updates between evaluations on the validation traces.
      checkpoint_every: updates between checkpoints of the whole stage.
    """

    env: DL2 = SIM
    traces: TraceSet = TraceSet(
        "dl2-sim", "dl2-sim", "dl2-sim", num_train=100, num_validation=10, num_test=10
    )
    simulator: Simulator = field(default_factory=Simulator)
    supervised: Supervised = field(default_factory=Supervised)
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(16, 32, 2000))
    algorithm: Algorithm = "actor_critic"
    actor_critic: ActorCriticConfig = field(default_factory=lambda: ActorCriticConfig(2000))
    ppo: PPOConfig = field(default_factory=lambda: PPOConfig(2000, gamma=0.9))
    exploration: bool = True
    explores: Exploration = "paper"
    network: str = "paper"
    reward: Reward = "slot"
    urgency: float = 0.0
    search: Search | None = None
    play: Play = "greedy"
    evaluate_every: int = 100
    checkpoint_every: int = 500


def hidden_of(kind: str) -> tuple[int, ...]:
    """The widths of a fully connected network, ``paper`` or as ``mlp-64-32``."""
    return PAPER_HIDDEN if kind == "paper" else sizes_of(kind)


def policy_network(env: DL2, kind: str) -> MLP | RowPolicy:
    """A policy network for this window."""
    if kind == "rows":
        return RowPolicy(env.window)
    if kind == "published":
        return MLP(3 * env.window + 1, (_width(env),), affines=True, initial_std=PUBLISHED_STD)
    return MLP(3 * env.window + 1, hidden_of(kind))


def value_network(env: DL2, kind: str) -> nn.Module:
    """The value network of the same make."""
    if kind == "published":
        return ValueMLP((_width(env),), affines=True, initial_std=PUBLISHED_STD)
    return RowValue(env.window) if kind == "rows" else ValueMLP(hidden_of(kind))


def _width(env: DL2) -> int:
    return len(observation_names(env.window, env.observation))


def learner_of(recipe: Recipe) -> Learner:
    """The learner of the second stage."""
    policy, value = (make(recipe.env, recipe.network) for make in (policy_network, value_network))
    updates = recipe.loop.num_updates
    if recipe.algorithm == "ppo":
        return ppo(policy, value, replace(recipe.ppo, total_updates=updates))
    explore = None
    if recipe.exploration and recipe.env.comm == "ps":
        env = recipe.env
        kind = forced_actions if recipe.explores == "published" else job_aware
        explore = kind(env.window, env.max_workers, env.max_ps, env.observation)
    config = replace(recipe.actor_critic, total_updates=updates)
    return actor_critic(policy, value, config, explore)


def learning_env(recipe: Recipe) -> DL2 | Shaped:
    """The environment of the second stage."""
    if recipe.reward == "slot":
        return recipe.env
    if recipe.reward == "slot_epochs":
        return replace(recipe.env, reward="epochs")
    return Shaped(recipe.env, recipe.reward, recipe.urgency)


def imitator_of(recipe: Recipe) -> Learner:
    """The learner of the first stage."""
    stage = recipe.supervised
    config = replace(stage.learner, total_updates=stage.num_updates)
    augment = _augment(recipe.env, stage)
    return imitation(policy_network(recipe.env, recipe.network), config, augment)


def _augment(env: DL2, stage: Supervised) -> Augment | None:
    """How decisions are changed before they are learnt from."""
    shuffled = shuffle_rows(env.window, env.observation) if stage.shuffle else None
    if stage.label_end:
        return shuffled
    mask_of = unlabelled_end(env.window)

    def augment(
        key: PRNGKey, observation: Array, mask: Array, label: Array
    ) -> tuple[Array, Array, Array]:
        if shuffled is not None:
            observation, mask, label = shuffled(key, observation, mask, label)
        return observation, mask_of(mask, label), label

    return augment


def params_of(recipe: Recipe, tables: Sequence[JobTable]) -> Params:
    """The environment's parameters while learning."""
    simulator = recipe.simulator
    return recipe.env.params(
        list(tables),
        speed_mode=simulator.speed_mode,
        overlap=simulator.overlap,
        contention=simulator.contention,
    )


def gradient_steps(recipe: Recipe) -> int:
    """Gradient steps of each update of the second stage."""
    learner = recipe.ppo if recipe.algorithm == "ppo" else recipe.actor_critic
    return learner.gradient_steps


def variants(recipe: Recipe) -> tuple[str, ...]:
    """What differs from the paper's own recipe, one line each."""
    paper, lines = _paper_of(recipe.env), []
    if recipe.network == "rows":
        lines.append("networks that share weights between the rows")
    elif recipe.network != paper.network:
        lines.append(f"networks of {recipe.network}")
    if recipe.supervised.teacher != paper.supervised.teacher:
        lines.append(f"teacher: {recipe.supervised.teacher}")
    if recipe.supervised.teacher != "none" and recipe.env.demand_table == "paper":
        lines += _supervised_variants(recipe.supervised)
    if recipe.algorithm == "ppo":
        chosen = recipe.ppo
        lines.append(
            f"PPO in place of the replaying actor-critic ({recipe.loop.num_envs} environments, "
            f"lambda {chosen.lambda_:g} by slot and {chosen.step_lambda:g} by inference, entropy "
            f"weight {chosen.entropy_start:g} to {chosen.entropy_end:g})"
        )
        if chosen.gamma != paper.actor_critic.gamma:
            lines.append(f"discount {chosen.gamma:g} per slot")
    elif recipe.algorithm == "none":
        lines.append("no reinforcement learning")
    else:
        if not recipe.exploration:
            lines.append("no job-aware exploration")
        elif recipe.explores != paper.explores:
            lines.append(f"exploration: {recipe.explores}")
        for name in ActorCriticConfig.__dataclass_fields__:
            value = getattr(recipe.actor_critic, name)
            if name != "total_updates" and value != getattr(paper.actor_critic, name):
                lines.append(f"actor-critic {name} {value}")
        if recipe.env.demand_table == "paper":
            decisions = recipe.loop.num_envs * recipe.loop.rollout_length
            if recipe.actor_critic.step_per != "group":
                lines.append(f"an update every {decisions} decisions (the paper: every slot)")
    if recipe.algorithm != "none":
        lines += _reward_variants(recipe)
    if recipe.simulator != paper.simulator:
        simulator = recipe.simulator
        lines.append(
            f"learnt with overlap {simulator.overlap:g}, contention {simulator.contention:g}, "
            f"{simulator.speed_mode} speeds"
        )
    if recipe.search is not None:
        moved = ", ".join(recipe.search.learner.layers) or "all layers"
        lines.append(f"then search over whole episodes for the completion time: {moved}")
    if not recipe.env.bundle_action:
        lines.append("no bundle action")
    if recipe.env.demand_table == "artefact":
        lines += _interface_variants(recipe.env)
        if recipe.algorithm == "actor_critic":
            lines += NOT_AS_PUBLISHED
    return tuple(lines)


def _supervised_variants(stage: Supervised) -> list[str]:
    """How the first stage's rate differs from the paper's."""
    first = stage.learner.learning_rate
    last = stage.learner.final_learning_rate or first
    lines = ["labels: a worker and then a PS for each bundle"] if stage.by_task else []
    if first == last == SUPERVISED_RATE:
        return lines
    return [*lines, f"supervised rate {first:g} to {last:g} (the paper: {SUPERVISED_RATE:g})"]


def _interface_variants(env: DL2) -> list[str]:
    """How the agent's interface differs from the published simulator's."""
    lines = []
    if env.observation != ARTEFACT.observation:
        lines.append(f"the {env.observation}'s observation in place of the simulator's")
    if env.misfit != ARTEFACT.misfit:
        lines.append("actions that do not fit are masked; slots end when nothing fits")
    if env.window != ARTEFACT.window:
        lines.append(f"sees {env.window} jobs in place of {ARTEFACT.window}")
    return lines


NOT_AS_PUBLISHED = (
    "the policy's gradient at today's probabilities (published: at those stored with the decision)",
    "grants that did not fit are decisions (published: they are not stored)",
    "priorities of at most 1, importance weights in all terms (published: 4, the advantage's)",
    "Adam of reinforcement starts at 0 (published: the policy's moments are taken over)",
    "no kind of task is forced when it is rare (published: below 2 % of a sequence's actions)",
)
"""Differences of the learner to DL2's published one that no setting removes."""


PUBLISHED_RECIPE = Recipe(
    env=ARTEFACT,
    traces=TraceSet("dl2-artefact", "dl2-artefact-published", "dl2-artefact", 100, 20),
    simulator=PUBLISHED,
    supervised=Supervised(
        teacher="drf_tasks_actions",
        learner=ImitationConfig(
            2, gradient_steps=50, student_share=0.0, learning_rate=SUPERVISED_RATE
        ),
        num_updates=2,
        label_end=False,
        empty_slots=True,
        loop=LoopConfig(num_envs=64, rollout_length=128, num_updates=2, head_start=4096),
        evaluate_every=2,
    ),
    loop=LoopConfig(num_envs=1, rollout_length=64, num_updates=6000),
    actor_critic=ActorCriticConfig(
        6000,
        gamma=0.0,
        entropy_per_action=True,
        step_per="group",
        fill_first=True,
        held=192,
    ),
    explores="published",
    network="published",
    play="sampled",
    evaluate_every=250,
    checkpoint_every=1000,
)
"""Of DL2's published code, in its own simulator (``docs/dl2_artefact.md``)."""


def _paper_of(env: DL2) -> Recipe:
    """The paper's recipe, or that of its published code."""
    return Recipe() if env.demand_table == "paper" else PUBLISHED_RECIPE


def _reward_variants(recipe: Recipe) -> list[str]:
    if recipe.reward == "slot_epochs":
        return ["reward: epochs trained in a slot, not shares of each job's (Eq. 1)"]
    if recipe.reward == "shares":
        return ["the slot's reward paid in parts, inference by inference (same sum)"]
    if recipe.reward == "epochs":
        words = f", each over remaining epochs ** {recipe.urgency:g}" if recipe.urgency else ""
        return [f"reward: epochs trained{words}, paid in parts, inference by inference"]
    return []


def check(recipe: Recipe) -> Recipe:
    """The recipe itself, if its words are known.

    Raises:
      JaxschedError: one is not.
    """
    hidden_of("paper" if recipe.network in ("rows", "published") else recipe.network)
    if recipe.explores not in get_args(Exploration):
        raise JaxschedError(
            f"dl2: explores is {recipe.explores!r}; accepted: {', '.join(get_args(Exploration))}"
        )
    if recipe.network == "rows" and recipe.env.observation != "paper":
        raise JaxschedError("dl2: network is 'rows'; accepted: with the observation 'paper'")
    teacher = recipe.supervised.teacher
    acts = teacher == "none" or teacher.endswith("_actions")
    if recipe.env.rows == "window" and not acts:
        raise JaxschedError(
            f"dl2: teacher is {teacher!r}; accepted with rows 'window': drf_actions, "
            "drf_tasks_actions, optimus_actions, probe_actions, none"
        )
    if recipe.algorithm not in get_args(Algorithm):
        raise JaxschedError(f"dl2: unknown algorithm {recipe.algorithm!r}")
    if recipe.algorithm == "none" and recipe.search is None:
        raise JaxschedError("dl2: algorithm is 'none'; accepted without a search: a learner")
    if recipe.search is not None and recipe.play != "greedy":
        raise JaxschedError(f"dl2: play is {recipe.play!r}; accepted with a search: 'greedy'")
    return recipe
