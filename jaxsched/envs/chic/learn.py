"""Named recipes of Chic and Chic-Pair (specification, section 10).

``paper`` is the paper's recipe: trajectories of at most 1,024 steps. Where ``env.void_outside`` is
inert, as the paper's text has it, they need ``loop.rollout_length=6144``, since one that is cut
teaches nothing (the longest of 512 of random play had 4,147).

What the settings of ``quick`` that differ from the paper's are for, as seen in trials on validation
sequences: with one gradient step per iteration the policy is still near uniform after 100
iterations; dropout and the last layer of four hold it back; while trajectories run different
sequences, the elites are those with easy ones; a larger population finds better elites; pointless
actions only lengthen the trajectories.

``search`` learns one policy for all arrival rates. The cross-entropy method draws trajectories and
repeats the best; an iteration is as noisy as the sequences it met. This recipe first learns to do
as a rule does that sees the same window (the best static allocation, ``search``), then moves all
weights by whole episodes of all rates (:mod:`jaxsched.algorithms.evolution`), each compared on the
same sequences.
"""

from dataclasses import fields, replace

from jaxsched.algorithms.cross_entropy import CrossEntropyConfig
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.algorithms.imitation import ImitationConfig
from jaxsched.core.training import LoopConfig
from jaxsched.envs.chic.environment import Chic
from jaxsched.systems.departures import Departures
from jaxsched.systems.parts import PresetInfo, TraceSet
from jaxsched.systems.recipe import Episodes, Recipe, Stage

EMPTY_ROW_PENALTY = 5.0  # p1
FIRST_UNIT_COST = 1.0  # p2, paid back once the workload can train
MEMBERS, EPISODES = 64, 16

CROSS_ENTROPY = Stage(
    name="cross_entropy",
    learner=CrossEntropyConfig(dropout=True),
    loop=LoopConfig(num_envs=36, rollout_length=1024, num_updates=400),
    params={"p1": EMPTY_ROW_PENALTY, "p2": FIRST_UNIT_COST},
    network_options={"dropout": 0.5},
    evaluate_every=2,
)
PAPER = Recipe(
    env=Chic(free_choice=True),
    traces=TraceSet("chic-1.80", "chic-1.80", "chic-1.80", 1000, 30, 30),
    stages=(CROSS_ENTROPY,),
    network="mlp-64-32-4",
    policy="chic",
    play="sampled",
    checkpoint_every=100,
)
QUICK = replace(
    PAPER,
    env=Chic(),
    stages=(
        replace(
            CROSS_ENTROPY,
            learner=CrossEntropyConfig(num_trajectories=255, rho=0.1, inner_steps=10),
            loop=LoopConfig(num_envs=256, rollout_length=1024, num_updates=140),
            episodes=Episodes(shared=True),
        ),
    ),
    network="mlp-64-32",
    checkpoint_every=70,
)
SEARCH = Recipe(
    env=Chic(),
    traces=TraceSet("chic-mixed", "chic-mixed", "chic-mixed", 1000, 100, 100),
    stages=(
        Stage(
            name="imitation",
            learner=ImitationConfig(
                400,
                gradient_steps=4,
                batch_size=1024,
                learning_rate=1e-3,
                final_learning_rate=1e-4,
            ),
            loop=LoopConfig(num_envs=64, rollout_length=64, num_updates=400),
            params={"p1": 0.0, "p2": 0.0},
            teacher="search",
            evaluate_every=0,
        ),
        Stage(
            name="search",
            learner=EvolutionConfig(
                MEMBERS,
                EPISODES,
                initial_std=0.03,
                follow="gradient",
                learning_rate=0.004,
                final_learning_rate=0.0005,
                averaging=0.9,
            ),
            loop=LoopConfig(MEMBERS * EPISODES, 1024, 100, num_random_streams=EPISODES),
            params={"p1": 0.0, "p2": 0.0},
            evaluate_every=20,
        ),
    ),
    network="mlp-64-64",
    policy="chic",
    checkpoint_every=100,
    departures=(
        "pointless actions are masked",
        "policy network of {network}, without dropout",
        "imitation of {imitation.teacher}, then search over whole episodes for the time in the "
        "system, in place of the cross-entropy method",
        "no penalties",
        "the tested policy takes the most likely action",
    ),
)


def pair(recipe: Recipe) -> Recipe:
    """The same for Chic-Pair."""
    return replace(recipe, env=replace(recipe.env, pair=True), policy="chic_pair")


PRESETS = {
    "quick": QUICK,
    "paper": PAPER,
    "search": SEARCH,
    "quick-pair": pair(QUICK),
    "paper-pair": pair(PAPER),
    "search-pair": pair(SEARCH),
}

DEPARTURES = Departures(
    paper=replace(PAPER, env=replace(PAPER.env, void_outside="inert")),
    words={
        "env.free_choice": {False: "pointless actions are masked"},
        "env.void_outside": {
            "ends": "void ends the decision phase, which in the paper its two conditions alone do"
        },
        "network": "policy network of {}",
        "network_options.dropout": "dropout {:g}",
        "learner.dropout": {False: "dropout 0"},
        "learner.num_trajectories": "trajectories of the policy per iteration: {:g}",
        "learner.num_uniform": "uniformly random trajectories per iteration: {:g}",
        "learner.rho": "share of elites: {:g}",
        "learner.bound_rank": "rank of the elite bound: {:g}",
        "learner.inner_steps": "gradient steps per iteration: {:g}",
        "learner.learning_rate": "learning rate: {:g}",
        "learner.alpha": "smoothing: {:g}",
        "episodes.shared": {True: "all trajectories of an iteration run the same sequence"},
        "play": {"greedy": "the tested policy takes the most likely action"},
    },
)

FORMER_SETTINGS = {
    "hidden": "network, as mlp-64-64",
    "dropout": "network_options.dropout",
    "common_sequence": "episodes.shared",
    "punish_empty": "params.p1",
    "punish_first": "params.p2",
    "teacher": "imitation.teacher",
    "imitation_loop": "imitation.loop",
    **{f"imitation.{one.name}": f"imitation.learner.{one.name}" for one in fields(ImitationConfig)},
}
"""Words of ``--set`` before recipes had named stages -> today's."""

_NOTES = {
    "quick": PresetInfo(
        "the paper's learner (cross-entropy method) with changes that make it learn"
    ),
    "paper": PresetInfo("the paper's learner, but void ends a phase: ends far above Optimus"),
    "search": PresetInfo(
        "the best results: imitation of search, then search over whole episodes at all rates",
        "9 min on 2 CPU cores, five seeds together",
    ),
}
NOTES = {
    **_NOTES,
    **{
        f"{name}-pair": note._replace(purpose=f"Chic-Pair; {note.purpose}")
        for name, note in _NOTES.items()
    },
}
"""What each recipe is for; times as ``benchmarks/results`` has them."""
