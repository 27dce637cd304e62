"""Named recipes of DAS, its learned rivals and the linear rule, on clusters of three sizes.

A recipe may begin with supervised learning from a heuristic (``imitation``), which the paper does
not have. Its rivals begin at what they replace: DL2 regresses first-come-first-served priorities
(section 9), RIFLING may learn to rank machines by load balance. Below them stands how each differs
from the paper's recipe.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import jax.numpy as jnp

from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.algorithms.ppo import PPOConfig
from jaxsched.algorithms.regression import RegressionConfig
from jaxsched.core.training import LoopConfig
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics.weighted import policy_named
from jaxsched.envs.das.jobs import CLUSTERS
from jaxsched.envs.das.learn import DASNetwork, kind_of, read_kind
from jaxsched.envs.das.learn.policies import RANKING_SCALE, imitation_losses
from jaxsched.envs.das.rules import Params
from jaxsched.envs.das.show import log
from jaxsched.errors import JaxschedError
from jaxsched.systems.departures import Departures, Words, of_learner
from jaxsched.systems.parts import PresetInfo, TraceSet
from jaxsched.systems.recipe import Episodes, Recipe, Stage
from jaxsched.systems.system import Size


@dataclass(frozen=True)
class RelativeTo:
    """The dense reward counts completion time and fee relative to what a heuristic gets.

    The return of an episode is then minus ``dense_scale`` times (completion time over the
    heuristic's plus ``fee_weight`` times fee over the heuristic's).

    Attributes:
      heuristic: which, or a rule; it plays each training episode once.
      fee_weight: of the relative fee, that of the relative completion time being 1.
    """

    heuristic: str
    fee_weight: float = 1.0

    def __call__(self, env: DAS, params: Params) -> Callable[[], Params]:
        """What makes such parameters.

        Raises:
          JaxschedError: no such heuristic, or another reward.
        """
        if env.reward != "dense":
            raise JaxschedError(
                f"das: adjust is relative to {self.heuristic} and env.reward is {env.reward!r}; "
                "accepted: 'dense'"
            )
        plain = replace(env, sampling="first", events_per_step=2)
        policy = policy_named(self.heuristic, plain)

        def relative() -> Params:
            found: Any = log.play(plain, policy, params)
            return params._replace(
                jct_ref_min=jnp.asarray(found["avg_jct_min"], jnp.float32),
                fee_ref=jnp.asarray(found["avg_fee"] / self.fee_weight, jnp.float32),
            )

        return relative


TRACES = TraceSet("das-mixed", "das-test", validation="das-mixed", num_train=160, num_validation=60)
"""Completion times of episodes differ by a factor of ten, so learning and choosing take many."""

FIRST = {"sampling": "first", "events_per_step": 0}
"""Of the environment that is learned in, as it is tested."""
EPISODES = Episodes(jobs=1000, every=1)

PAPER = Recipe(
    env=DAS(),
    traces=TraceSet("das-train", "das-test", "das-normal", num_validation=12),
    stages=(
        Stage(
            name="mappo",
            learner=PPOConfig(
                total_updates=400,
                epochs=4,
                num_minibatches=4,
                sequence_length=64,
                gamma_per="decision",
                gamma=0.98,
                learning_rate=1e-4,
                final_learning_rate=1e-4,
                entropy_start=0.03,
                entropy_end=0.03,
            ),
            loop=LoopConfig(num_envs=64, rollout_length=64, num_updates=400),
            env={"sampling": "random", "events_per_step": 0},
            episodes=EPISODES,
            network_options={"units": "real"},
            value_network="action",
            evaluate_every=20,
        ),
    ),
    network="das",
    policy="das",
    checkpoint_every=100,
)

IMITATION = Stage(
    name="imitation",
    learner=RegressionConfig(
        total_updates=120,
        losses=imitation_losses("das"),
        gradient_steps=8,
        batch_size=16,
        sequence_length=16,
        learning_rate=2e-3,
        final_learning_rate=1e-4,
        max_gradient_norm=1.0,
        ranking_scale=RANKING_SCALE,
        student_share=0.0,
    ),
    loop=LoopConfig(num_envs=64, rollout_length=32, num_updates=120),
    env=FIRST,
    episodes=EPISODES,
    network_options={"units": "real"},
    teacher="linear",
    adjust=RelativeTo("fifo_loadbalance", fee_weight=3.0),
    evaluate_every=40,
)
MAPPO = Stage(
    name="mappo",
    learner=PPOConfig(
        total_updates=40,
        epochs=2,
        num_minibatches=4,
        sequence_length=32,
        gamma_per="decision",
        gamma=0.98,
        learning_rate=1e-4,
        final_learning_rate=1e-5,
        entropy_start=0.0,
        entropy_end=0.0,
    ),
    loop=LoopConfig(num_envs=64, rollout_length=32, num_updates=40),
    env=FIRST,
    episodes=EPISODES,
    network_options={"units": "real"},
    value_network="state",
    adjust=RelativeTo("fifo_loadbalance", fee_weight=3.0),
    evaluate_every=40,
)
NETWORK = DASNetwork(history=4, walk_length=8, extra_features=True)
QUICK = Recipe(
    env=DAS(reward="dense"),
    traces=TRACES,
    stages=(IMITATION, MAPPO),
    network=kind_of("das", NETWORK),
    policy="das",
    checkpoint_every=40,
)
QUICK_LARGE = replace(
    QUICK,
    stages=(replace(IMITATION, loop=replace(IMITATION.loop, num_updates=40)), MAPPO),
)
"""On 32 machines more updates do not change the score on validation episodes."""

BUSIER = (1.0, 1 / 1.3)
"""Gaps on 16 machines, relative to the paper's workload, where long queues are rare, and matter: a
student that had seen few of them let large jobs wait for hours in one test episode."""


def rival(policy: str, num_updates: int, ranking_scale: float = 1.0) -> Recipe:
    """Of a rival, warm from what it replaces: first come first served, load balance."""
    learner = RegressionConfig(
        total_updates=num_updates,
        losses=imitation_losses(policy),
        gradient_steps=8,
        batch_size=256,
        learning_rate=1e-3,
        ranking_scale=ranking_scale,
        student_share=0.0,
    )
    warm = replace(
        IMITATION,
        learner=learner,
        loop=replace(IMITATION.loop, num_updates=num_updates),
        teacher="fifo_loadbalance",
    )
    mappo = replace(MAPPO, learner=replace(MAPPO.learner, entropy_start=0.03, entropy_end=0.0))
    return replace(QUICK, stages=(warm, mappo), network=policy, policy=policy)


RIFLING = rival("rifling", 40, RANKING_SCALE)
DL2 = rival("dl2", 125)

SEARCH = Recipe(
    env=DAS(reward="dense"),
    traces=TRACES,
    stages=(
        Stage(
            name="search",
            learner=EvolutionConfig(members=64, episodes=16, initial_std=0.3),
            loop=LoopConfig(1024, 1400, 40, num_random_streams=16),
            env={"sampling": "first", "events_per_step": 2},
            episodes=EPISODES,
            network_options={"order": "fifo"},
            adjust=RelativeTo("fifo_loadbalance", fee_weight=3.0),
            evaluate_every=4,
        ),
    ),
    network="linear",
    policy="linear",
    checkpoint_every=8,
    departures=("a linear rule found by search in parameter space from {network_options.order}",),
)

(_SEARCH,) = SEARCH.stages
CONTENDED = replace(
    SEARCH,
    env=replace(SEARCH.env, estimates=True),
    traces=TraceSet("das-contended", "das-contended", "das-contended", 512, 128, 128),
    stages=(
        replace(
            _SEARCH,
            learner=EvolutionConfig(
                members=48,
                episodes=12,
                initial_std=0.3,
                follow="gradient",
                learning_rate=0.15,
                final_learning_rate=0.03,
                averaging=0.8,
                relative=1.0,
            ),
            loop=LoopConfig(576, 1520, 50, num_random_streams=12),
            network_options={"begins": "shortest"},
            adjust=RelativeTo("shortest"),
            evaluate_every=10,
        ),
    ),
    network="scored",
    policy="scored",
    checkpoint_every=10,
    departures=("a rule found by search over whole episodes from {network_options.begins}",),
)
"""From the rule ``shortest`` on, order and placement by whole episodes, where users and groups tell
run times."""


def from_linear(learner: Stage, network: DASNetwork, evaluate_every: int) -> Recipe:
    """Networks without the walk process, which takes four times as long.

    They imitate the linear rule, then learn what users and groups tell of run times.
    """
    shared: dict[str, Any] = {
        "network_options": {"units": "effective"},
        "adjust": RelativeTo("linear"),
        "evaluate_every": evaluate_every,
    }
    return replace(
        QUICK,
        env=CONTENDED.env,
        traces=CONTENDED.traces._replace(num_train=128, num_validation=60),
        stages=(replace(IMITATION, **shared), replace(learner, **shared)),
        network=kind_of("das", network),
        checkpoint_every=evaluate_every,
    )


_SIMPLER = replace(NETWORK, variant="DA+MC")
_LONGER = replace(
    MAPPO,
    learner=replace(
        MAPPO.learner,
        epochs=1,
        gamma=0.99,
        lambda_=0.9,
        learning_rate=3e-4,
        final_learning_rate=3e-5,
        normalise_targets=True,
    ),
    loop=LoopConfig(num_envs=128, rollout_length=32, num_updates=1600),
)
CONTENDED_MAPPO = from_linear(_LONGER, _SIMPLER, 160)

_SEES_ALL = replace(_LONGER, loop=replace(_LONGER.loop, num_updates=1000), critic="state")
CONTENDED_MAPPO_SMALL = replace(
    from_linear(_SEES_ALL, _SIMPLER, 100),
    traces=CONTENDED_MAPPO.traces._replace(num_train=1024, num_validation=128),
    checkpoint_every=500,
)
"""On 8 machines: more episodes and a critic that sees all work, for fewer updates."""

CONTENDED_MAPPO_MEDIUM = from_linear(
    replace(_LONGER, loop=replace(_LONGER.loop, num_updates=2560)),
    replace(_SIMPLER, initial_std=0.25),
    160,
)
"""With 16 machines less is to be gained: learnt for longer, with less of a spread."""

CONTENDED_BRANCHING = replace(
    from_linear(
        replace(
            MAPPO,
            name="branching",
            learner=BranchingConfig(
                total_updates=900,
                futures=2,
                alternatives=5,
                max_steps=64,
                gradient_steps=4,
                batch_size=128,
                learning_rate=3e-4,
                final_learning_rate=3e-5,
                exploration=0.1,
                relative=1.0,
                clip=0.5,
            ),
            loop=LoopConfig(num_envs=32, rollout_length=16, num_updates=900),
            rivals=("shortest", "drf_loadbalance"),
        ),
        _SIMPLER,
        100,
    ),
    checkpoint_every=450,
)
"""The same networks by policy iteration: what rules would do and two draws are tried on copies."""


GPU_PPO = replace(
    CONTENDED_MAPPO,
    traces=CONTENDED_MAPPO_SMALL.traces,
    stages=(
        replace(
            _LONGER,
            learner=replace(
                _LONGER.learner,
                sequence_length=None,
                epochs=2,
                learning_rate=1e-3,
                final_learning_rate=0.0,
                entropy_start=0.003,
            ),
            loop=LoopConfig(num_envs=32_768, rollout_length=16, num_updates=400),
            env={**FIRST, "events_per_step": 1},
            episodes=Episodes(jobs=250),
            network_options={"units": "effective"},
            precision="bfloat16",
            adjust=None,
            evaluate_every=50,
        ),
    ),
    checkpoint_every=200,
)
"""From nothing, with as many environments as keep a GPU busy: a step is one event in each of them,
so that none waits for another, and no heuristic plays the tables first."""


def busier(recipe: Recipe) -> Recipe:
    """The same with more arrivals in turn."""
    episodes = replace(EPISODES, scales=BUSIER, until=0.0)
    return replace(
        recipe, stages=tuple(replace(stage, episodes=episodes) for stage in recipe.stages)
    )


PRESETS = {
    "quick": QUICK,
    "paper": PAPER,
    "dl2": DL2,
    "rifling": RIFLING,
    "search": SEARCH,
    "contended": CONTENDED,
    "contended-branching": CONTENDED_BRANCHING,
    "contended-mappo": CONTENDED_MAPPO_SMALL,
    "gpu-ppo": GPU_PPO,
}
"""On 8 machines."""
OF_SIZES: dict[str, dict[str, Recipe]] = {
    "medium": {
        **{name: busier(PRESETS[name]) for name in ("quick", "dl2", "rifling")},
        "contended-mappo": CONTENDED_MAPPO_MEDIUM,
    },
    "large": {"quick": QUICK_LARGE, "contended-mappo": CONTENDED_MAPPO},
}
"""Recipes that differ from those of 8 machines in more than the cluster."""


def on_cluster(recipe: Recipe, size: str) -> Recipe:
    """The same on a cluster of this size, and on contended traces of that size."""
    traces = recipe.traces
    if traces.train == CONTENDED.traces.train:
        name = f"{traces.train}-{size}"
        traces = traces._replace(train=name, test=name, validation=name)
    return replace(recipe, env=replace(recipe.env, num_servers=CLUSTERS[size]), traces=traces)


SIZES = {
    size: Size(
        f"{CLUSTERS[size]} machines",
        {name: on_cluster(recipe, size) for name, recipe in (PRESETS | others).items()},
        {"contended-mappo": "41 min on 2 CPU cores"} if size == "medium" else {},
    )
    for size, others in OF_SIZES.items()
}
NOTES = {
    "quick": PresetInfo("DAS: imitation of linear, then MAPPO, on the paper's workload"),
    "paper": PresetInfo("the paper's recipe: MAPPO from nothing"),
    "dl2": PresetInfo("a rival of the paper: DL2 as an ordering policy, begun at FIFO"),
    "rifling": PresetInfo(
        "a rival of the paper: RIFLING as a placement policy, begun at load balance"
    ),
    "search": PresetInfo("the rule linear, by search over whole episodes of the paper's workload"),
    "contended": PresetInfo(
        "the rule scored, by search over whole episodes of load 0.9", "17 min on 2 CPU cores"
    ),
    "contended-branching": PresetInfo(
        "DAS' networks by branching on copies of states, at load 0.9", "35 min on 2 CPU cores"
    ),
    "contended-mappo": PresetInfo(
        "DAS' networks by MAPPO from linear on, at load 0.9", "30 min on 2 CPU cores"
    ),
    "gpu-ppo": PresetInfo(
        "DAS' networks by MAPPO from nothing with 32,768 environments side by side, for a GPU"
    ),
}
"""What each recipe is for; times as ``benchmarks/results`` has them."""


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
