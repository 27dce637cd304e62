"""Named recipes of DAS, its learned rivals and the linear rule, on the three clusters."""

from dataclasses import replace

from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.algorithms.ppo import PPOConfig
from jaxsched.algorithms.regression import RegressionConfig
from jaxsched.core.training import LoopConfig
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learning.networks import DASNetwork
from jaxsched.envs.das.learning.recipe import (
    RANKING_SCALE,
    Imitation,
    PolicyName,
    Recipe,
    Search,
    imitation_losses,
)
from jaxsched.envs.das.traces import CLUSTERS
from jaxsched.systems.base import PresetInfo, TraceSet

TRACES = TraceSet("das-mixed", "das-test", validation="das-mixed", num_train=160, num_validation=60)
"""Completion times of episodes differ by a factor of ten, so learning and choosing take many."""

PAPER = Recipe()

QUICK_MAPPO = PPOConfig(
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
)

QUICK = Recipe(
    env=DAS(reward="dense"),
    relative_to="fifo_loadbalance",
    fee_weight=3.0,
    network=DASNetwork(history=4, walk_length=8, extra_features=True),
    traces=TRACES,
    imitation=Imitation(
        teacher="linear",
        loop=LoopConfig(num_envs=64, rollout_length=32, num_updates=120),
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
    ),
    loop=LoopConfig(num_envs=64, rollout_length=32, num_updates=40),
    learner=QUICK_MAPPO,
    critic="state",
    evaluate_every=40,
    checkpoint_every=40,
)


def shorter(recipe: Recipe, num_updates: int) -> Recipe:
    """The same with fewer updates of imitation."""
    imitation = recipe.imitation
    assert imitation is not None
    loop = replace(imitation.loop, num_updates=num_updates)
    learner = replace(imitation.learner, total_updates=num_updates)
    return replace(recipe, imitation=replace(imitation, loop=loop, learner=learner))


QUICK_LARGE = shorter(QUICK, 40)
"""On 32 machines more updates do not change the score on validation episodes."""

BUSIER = (1.0, 1.3)
"""Arrival rates on 16 machines of the paper's workload, where long queues are rare, and matter: a
student that had seen few of them let large jobs wait for hours in one test episode."""

RIVAL = replace(
    QUICK, network=DASNetwork(), learner=replace(QUICK_MAPPO, entropy_start=0.03, entropy_end=0.0)
)
"""What the recipes of both rivals share: all but the warm start."""


def warm_start(policy: PolicyName, num_updates: int, ranking_scale: float = 1.0) -> Imitation:
    """Of a rival, from what it replaces: first come first served, load balance."""
    return Imitation(
        teacher="fifo_loadbalance",
        loop=LoopConfig(num_envs=64, rollout_length=32, num_updates=num_updates),
        learner=RegressionConfig(
            total_updates=num_updates,
            losses=imitation_losses(policy),
            gradient_steps=8,
            batch_size=256,
            learning_rate=1e-3,
            ranking_scale=ranking_scale,
            student_share=0.0,
        ),
    )


RIFLING = replace(RIVAL, policy="rifling", imitation=warm_start("rifling", 40, RANKING_SCALE))
DL2 = replace(RIVAL, policy="dl2", imitation=warm_start("dl2", 125))

SEARCH = Recipe(
    env=DAS(reward="dense"),
    relative_to="fifo_loadbalance",
    fee_weight=3.0,
    policy="linear",
    traces=TRACES,
    search=Search(
        loop=LoopConfig(num_envs=1024, rollout_length=1400, num_updates=40, num_random_streams=16),
        learner=EvolutionConfig(members=64, episodes=16, initial_std=0.3),
    ),
    evaluate_every=4,
    checkpoint_every=8,
)

CONTENDED = replace(
    SEARCH,
    env=replace(SEARCH.env, estimates=True),
    relative_to="shortest",
    fee_weight=1.0,
    policy="scored",
    traces=TraceSet("das-contended", "das-contended", "das-contended", 512, 128, 128),
    search=Search(
        begins="shortest",
        loop=LoopConfig(num_envs=576, rollout_length=1520, num_updates=50, num_random_streams=12),
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
    ),
    evaluate_every=10,
    checkpoint_every=10,
)
"""From the rule ``shortest`` on, order and placement by whole episodes, where users and groups tell
run times."""


CONTENDED_MAPPO = replace(
    QUICK,
    env=CONTENDED.env,
    relative_to="linear",
    fee_weight=1.0,
    network=replace(QUICK.network, variant="DA+MC"),
    traces=CONTENDED.traces._replace(num_train=128, num_validation=60),
    units="effective",
    loop=LoopConfig(num_envs=128, rollout_length=32, num_updates=1600),
    learner=replace(
        QUICK_MAPPO,
        total_updates=1600,
        epochs=1,
        gamma=0.99,
        lambda_=0.9,
        learning_rate=3e-4,
        final_learning_rate=3e-5,
        normalise_targets=True,
    ),
    evaluate_every=160,
    checkpoint_every=160,
)
"""The networks without the walk process, which takes four times as long: they imitate the linear
rule, then learn by MAPPO what users and groups tell of run times."""

CONTENDED_MAPPO_SMALL = replace(
    CONTENDED_MAPPO,
    traces=CONTENDED_MAPPO.traces._replace(num_train=1024, num_validation=128),
    critic="whole",
    loop=replace(CONTENDED_MAPPO.loop, num_updates=1000),
    learner=replace(CONTENDED_MAPPO.learner, total_updates=1000),
    evaluate_every=100,
    checkpoint_every=500,
)
"""On 8 machines: more episodes and a critic that sees all work, for fewer updates."""

CONTENDED_MAPPO_MEDIUM = replace(
    CONTENDED_MAPPO,
    network=replace(CONTENDED_MAPPO.network, initial_std=0.25),
    loop=replace(CONTENDED_MAPPO.loop, num_updates=2560),
    learner=replace(CONTENDED_MAPPO.learner, total_updates=2560),
)
"""With 16 machines less is to be gained: learnt for longer, with less of a spread."""


CONTENDED_BRANCHING = replace(
    CONTENDED_MAPPO,
    rivals=("shortest", "drf_loadbalance"),
    draws=2,
    loop=LoopConfig(num_envs=32, rollout_length=16, num_updates=900),
    learner=BranchingConfig(
        total_updates=900,
        futures=2,
        max_steps=64,
        gradient_steps=4,
        batch_size=128,
        learning_rate=3e-4,
        final_learning_rate=3e-5,
        exploration=0.1,
        relative=1.0,
        clip=0.5,
    ),
    evaluate_every=100,
    checkpoint_every=450,
)
"""The same networks by policy iteration: what rules would do and draws are tried on copies."""


def on_trace(recipe: Recipe, name: str) -> Recipe:
    """The same with all tables drawn from one trace."""
    traces = recipe.traces._replace(train=name, test=name, validation=name)
    return replace(recipe, traces=traces)


def contended(*recipes: Recipe) -> tuple[Recipe, ...]:
    """Recipes of the three clusters, each on the contended trace of its cluster."""
    return tuple(
        on_trace(recipe, f"das-contended{end}")
        for recipe, end in zip(recipes, CLUSTERS, strict=True)
    )


def imitating(recipe: Recipe, large: Recipe | None = None) -> tuple[Recipe, ...]:
    """A recipe of 8 machines, on 16 with more arrivals, too, and that of 32."""
    return recipe, replace(recipe, scale_rates=BUSIER), large or recipe


PRESETS = {
    f"{name}{suffix}": replace(recipe, env=replace(recipe.env, num_servers=size))
    for name, recipes in {
        "quick": imitating(QUICK, QUICK_LARGE),
        "paper": (PAPER,) * 3,
        "dl2": imitating(DL2),
        "rifling": imitating(RIFLING),
        "search": (SEARCH,) * 3,
        "contended": contended(*(CONTENDED,) * 3),
        "contended-branching": contended(*(CONTENDED_BRANCHING,) * 3),
        "contended-mappo": contended(
            CONTENDED_MAPPO_SMALL, CONTENDED_MAPPO_MEDIUM, CONTENDED_MAPPO
        ),
    }.items()
    for recipe, (suffix, size) in zip(recipes, CLUSTERS.items(), strict=True)
}

_PURPOSES = {
    "quick": "DAS: imitation of linear, then MAPPO, on the paper's workload",
    "paper": "the paper's recipe: MAPPO from nothing",
    "dl2": "a rival of the paper: DL2 as an ordering policy, begun at FIFO",
    "rifling": "a rival of the paper: RIFLING as a placement policy, begun at load balance",
    "search": "the rule linear, by search over whole episodes of the paper's workload",
    "contended": "the rule scored, by search over whole episodes of load 0.9",
    "contended-branching": "DAS' networks by branching on copies of states, at load 0.9",
    "contended-mappo": "DAS' networks by MAPPO from linear on, at load 0.9",
}
_TIMES = {
    "contended": "17 min on 2 CPU cores",
    "contended-branching": "35 min on 2 CPU cores",
    "contended-mappo": "30 min on 2 CPU cores",
    "contended-mappo-medium": "41 min on 2 CPU cores",
}
NOTES = {
    f"{name}{suffix}": PresetInfo(f"{purpose} ({size} machines)", _TIMES.get(f"{name}{suffix}", ""))
    for name, purpose in _PURPOSES.items()
    for suffix, size in CLUSTERS.items()
}
"""What each recipe is for; times as ``benchmarks/results`` has them."""
