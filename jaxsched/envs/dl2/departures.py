"""How recipes of DL2 differ from the paper's, or from its published code's, and words of before."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from jaxsched.algorithms.actor_critic_settings import ActorCriticConfig
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.algorithms.imitation import ImitationConfig
from jaxsched.algorithms.ppo import PPOConfig
from jaxsched.envs.dl2.presets import ARTEFACT, PAPER, PUBLISHED, SPEEDS, SUPERVISED_RATE
from jaxsched.envs.dl2.shaping import Paid
from jaxsched.systems.departures import Departures, Words, of_learner, said
from jaxsched.systems.recipe import Recipe, Stage

NOT_AS_PUBLISHED = (
    "the policy's gradient at today's probabilities (published: at those stored with the decision)",
    "grants that did not fit are decisions (published: they are not stored)",
    "priorities of at most 1, importance weights in all terms (published: 4, the advantage's)",
    "Adam of reinforcement starts at 0 (published: the policy's moments are taken over)",
    "no kind of task is forced when it is rare (published: below 2 % of a sequence's actions)",
)
"""Differences of the learner to DL2's published one that no setting removes."""
THOUSAND = 1000
GAMMA = PAPER.stages[-1].learner.gamma


def _of_network(kind: str) -> tuple[str, ...]:
    return (
        "networks that share weights between the rows" if kind == "rows" else f"networks of {kind}",
    )


def _of_supervised(stage: Stage) -> tuple[str, ...]:
    """How the supervised stage's rate and length differ from the paper's."""
    config, updates = stage.learner, stage.loop.num_updates
    first = config.learning_rate
    last = config.final_learning_rate or first
    lines: tuple[str, ...] = ()
    if not first == last == SUPERVISED_RATE:
        lines += (f"supervised rate {first:g} to {last:g} (the paper: {SUPERVISED_RATE:g})",)
    if updates >= THOUSAND:
        lines += (f"{updates:,} supervised updates (the paper: hundreds)",)
    return lines


def _of_ppo(stage: Stage) -> tuple[str, ...]:
    chosen: PPOConfig = stage.learner
    line = (
        f"PPO in place of the replaying actor-critic ({stage.loop.num_envs} environments, "
        f"lambda {chosen.lambda_:g} by slot and {chosen.step_lambda:g} by inference, entropy "
        f"weight {chosen.entropy_start:g} to {chosen.entropy_end:g})"
    )
    return (line, *((f"discount {chosen.gamma:g} per slot",) if chosen.gamma != GAMMA else ()))


_IN_WORDS: dict[str, Words] = {
    "gamma": "discount {:g} per slot",
    "entropy_per_action": {
        False: "the entropy is summed over the actions, not their mean",
        True: "the entropy is the mean over the actions, not their sum",
    },
    "held": {0: "a slot that a rollout cuts is bootstrapped at the cut, not held until it ends"},
    "held_envs": {},
    "total_updates": {},
}
"""What is said of a setting of the actor-critic; of others its name and value."""


def _of_actor_critic(stage: Stage, paper: ActorCriticConfig) -> tuple[str, ...]:
    """Settings that are others than those."""
    values = {each.name: getattr(stage.learner, each.name) for each in fields(paper)}
    differ = [(name, x) for name, x in values.items() if x != getattr(paper, name)]
    return tuple(
        line
        for name, value in differ
        for line in said(_IN_WORDS.get(name, f"actor-critic {name} {{}}"), value)
    )


def _of_papers_learner(stage: Stage) -> tuple[str, ...]:
    lines = _of_actor_critic(stage, PAPER.stages[-1].learner)
    if stage.learner.step_per == "group":
        return lines
    return (
        *lines,
        f"an update every {stage.loop.steps_per_update} decisions (the paper: every slot)",
    )


def _of_published_learner(stage: Stage) -> tuple[str, ...]:
    return _of_actor_critic(stage, PUBLISHED.stages[-1].learner)


def _of_reward(paid: Paid) -> tuple[str, ...]:
    if paid.unit == "slot_epochs":
        return ("reward: epochs trained in a slot, not shares of each job's (Eq. 1)",)
    if paid.unit == "shares":
        return ("the slot's reward paid in parts, inference by inference (same sum)",)
    if paid.unit == "epochs":
        words = f", each over remaining epochs ** {paid.urgency:g}" if paid.urgency else ""
        return (f"reward: epochs trained{words}, paid in parts, inference by inference",)
    return ()


def _of_speeds(speeds: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"learnt with overlap {speeds['overlap']:g}, contention {speeds['contention']:g}, "
        f"{speeds['speed_mode']} speeds",
    )


def _of_search(stage: Stage) -> tuple[str, ...]:
    moved = ", ".join(stage.learner.layers) or "all layers"
    return (
        "no reinforcement learning",
        f"then search over whole episodes for the completion time: {moved}",
    )


_NO_REINFORCEMENT = {True: "no reinforcement learning"}
_FIRST: dict[str, Words] = {
    "network": _of_network,
    "supervised.skip": {True: "no imitation"},
    "supervised.teacher": "teacher: {}",
}
_LAST: dict[str, Words] = {
    "wrap": _of_reward,
    "params": _of_speeds,
    "search": of_learner(EvolutionConfig, _of_search),
    "search.skip": {True: "no search"},
    "env.bundle_action": {False: "no bundle action"},
}


def _without_learners(recipe: Recipe) -> Recipe:
    """Learners always differ, so that functions say what of them does."""
    return replace(recipe, stages=tuple(replace(each, learner=None) for each in recipe.stages))


OF_PAPER = Departures(
    paper=_without_learners(PAPER),
    words={
        **_FIRST,
        "supervised.data.by_task": {True: "labels: a worker and then a PS for each bundle"},
        "supervised": of_learner(ImitationConfig, _of_supervised),
        "ppo": of_learner(PPOConfig, _of_ppo),
        "ppo.skip": _NO_REINFORCEMENT,
        "actor_critic.skip": _NO_REINFORCEMENT,
        "explore.kind": {
            "none": "no job-aware exploration",
            "published": "exploration: published",
        },
        "actor_critic": of_learner(ActorCriticConfig, _of_papers_learner),
        **_LAST,
    },
)
OF_PUBLISHED = Departures(
    paper=_without_learners(PUBLISHED),
    words={
        **_FIRST,
        "actor_critic.skip": _NO_REINFORCEMENT,
        "explore.kind": {"none": "no job-aware exploration", "paper": "exploration: paper"},
        "actor_critic": of_learner(ActorCriticConfig, _of_published_learner),
        **_LAST,
        "env.observation": "the {}'s observation in place of the simulator's",
        "env.misfit": {"mask": "actions that do not fit are masked; slots end when nothing fits"},
        "env.window": f"sees {{}} jobs in place of {ARTEFACT.window}",
        "actor_critic.learner": lambda _: NOT_AS_PUBLISHED,
    },
)


class ByCluster(Departures):
    """From the paper, or in the published simulator from the published code."""

    def of(self, recipe: Recipe) -> tuple[str, ...]:
        """What differs, one line each."""
        published = recipe.env.demand_table == "artefact"
        return (OF_PUBLISHED if published else OF_PAPER).of(recipe)


_SPEED = "params.{0}, and supervised.params.{0}"
FORMER_SETTINGS = {
    "algorithm": "actor_critic.skip or ppo.skip, or another preset",
    "exploration": "explore.kind",
    "explores": "explore.kind",
    "reward": "wrap.unit",
    "urgency": "wrap.urgency",
    **{f"simulator.{name}": _SPEED.format(name) for name in SPEEDS},
    "supervised.num_updates": "supervised.loop.num_updates",
    "supervised.num_tables": "supervised.data.tables",
    "supervised.by_task": "supervised.data.by_task",
    "supervised.shuffle": "supervised.augment.shuffle",
    "supervised.label_end": "supervised.augment.end",
    "supervised.empty_slots": "supervised.env.assign_bundle",
    "search.reward": "search.env.reward",
    **{
        f"{stage}.{each.name}": f"{stage}.learner.{each.name}"
        for stage, config in (("actor_critic", ActorCriticConfig), ("ppo", PPOConfig))
        for each in fields(config)
    },
}
"""Words of ``--set`` before recipes had named stages -> today's."""
