"""How recipes of DAS differ from the paper's, and words of before."""

from dataclasses import fields, replace

from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.ppo import PPOConfig
from jaxsched.core.training import LoopConfig
from jaxsched.envs.das.learning.models import RelativeTo
from jaxsched.envs.das.learning.network_kinds import read_kind
from jaxsched.envs.das.learning.networks import DASNetwork
from jaxsched.envs.das.learning.presets import PAPER
from jaxsched.systems.departures import Departures, Words, of_learner
from jaxsched.systems.recipe import Stage

(_PAPER,) = PAPER.stages
_LEARNER: PPOConfig = _PAPER.learner
_FIRST_JOBS = {"first": "the window holds the first jobs in training, too"}
_UNITS = {"effective": "only units of an action that have an effect count in the losses"}
_NO_REINFORCEMENT = {True: "no reinforcement learning"}


def _of_network(kind: str) -> tuple[str, ...]:
    _, network = read_kind(kind)
    usual = DASNetwork()
    changed = [
        f"{name} {value}" for name, value in vars(network).items() if value != getattr(usual, name)
    ]
    return (f"network: {', '.join(changed)}",) if changed else ()


def _of_reward(relative: RelativeTo) -> tuple[str, ...]:
    return (f"reward relative to {relative.heuristic}, fee weighted {relative.fee_weight:g}",)


def _of_imitation(stage: Stage) -> tuple[str, ...]:
    return (f"warm start from {stage.teacher} ({stage.loop.num_updates} updates)",)


def _of_scales(scales: tuple[float, ...]) -> tuple[str, ...]:
    if scales == _PAPER.episodes.scales:
        return ()
    return (f"arrival rates {', '.join(f'{1 / scale:g}' for scale in scales)}",)


def _of_loop(loop: LoopConfig) -> tuple[str, ...]:
    sizes = f"{loop.num_envs} environments x {loop.rollout_length} steps"
    return (f"{loop.num_updates} updates of {sizes}",)


def _of_critic(stage: Stage) -> str:
    """In words."""
    return "critic of whole states" if stage.critic == "state" else "critic of states"


def _of_branching(stage: Stage) -> tuple[str, ...]:
    own = 1 + len(stage.rivals)
    draws = (stage.learner.alternatives or own) - own
    tried = [*stage.rivals, *([f"{draws} draws"] if draws else [])]
    closed = f", closed by a {_of_critic(stage)}" if stage.learner.critic else ""
    return (f"branching over {', '.join(tried)}{closed} in place of MAPPO",)


def _of_mappo(stage: Stage) -> tuple[str, ...]:
    ours, lines = stage.learner, []
    if stage.value_network != _PAPER.value_network:
        lines.append(_of_critic(stage))
    for words, names in (
        ("discount", ("gamma",)),
        ("GAE lambda", ("lambda_",)),
        ("learning rate", ("learning_rate", "final_learning_rate")),
        ("entropy weight", ("entropy_start", "entropy_end")),
        ("epochs", ("epochs",)),
    ):
        values = [getattr(ours, name) for name in names]
        if values != [getattr(_LEARNER, name) for name in names]:
            lines.append(f"{words} {' to '.join(f'{value:g}' for value in dict.fromkeys(values))}")
    if ours.horizon_s is not None:
        lines.append(f"discount by time, horizon {ours.horizon_s:g} s")
    return tuple(lines)


def _of_stages(path: str, words: Words) -> dict[str, Words]:
    """Of each stage that may have it; what is said twice is told once."""
    return {f"{stage}.{path}": words for stage in ("imitation", "mappo", "branching")}


DEPARTURES = Departures(
    paper=replace(PAPER, stages=(replace(_PAPER, learner=None),)),
    words={
        "network": _of_network,
        "env.reward": {"dense": "dense reward"},
        **_of_stages("adjust", _of_reward),
        **_of_stages("env.sampling", _FIRST_JOBS),
        "imitation": _of_imitation,
        **_of_stages("episodes.scales", _of_scales),
        **_of_stages("network_options.units", _UNITS),
        "mappo.loop": _of_loop,
        "branching.loop": _of_loop,
        "mappo": of_learner(PPOConfig, _of_mappo),
        "branching": of_learner(BranchingConfig, _of_branching),
        "mappo.skip": _NO_REINFORCEMENT,
        "branching.skip": _NO_REINFORCEMENT,
    },
)

_OF_EACH = "{0}, and imitation.{0}"
FORMER_SETTINGS = {
    "reinforcement": "mappo.skip, true where that was false",
    "env.sampling": "mappo.env.sampling",
    "env.events_per_step": "search.env.events_per_step",
    "search.events_per_step": "search.env.events_per_step",
    "search.order": "search.network_options.order",
    "search.begins": "search.network_options.begins",
    "episode_jobs": _OF_EACH.format("episodes.jobs"),
    "starts_every": _OF_EACH.format("episodes.every"),
    "scale_rates": "episodes.scales, of gaps, and imitation.episodes.scales",
    "relative_to": _OF_EACH.format("adjust.heuristic"),
    "fee_weight": _OF_EACH.format("adjust.fee_weight"),
    "units": _OF_EACH.format("network_options.units"),
    "draws": "learner.alternatives, the policy's own action and rivals included",
    "critic": "value_network (action or state), or mappo.critic (state) for whole states",
    **{
        f"network.{one.name}": f"network, as das:{one.name}=VALUE with all that differs from the "
        "paper's"
        for one in fields(DASNetwork)
    },
}
"""Words of ``--set`` before recipes had named stages -> today's."""
