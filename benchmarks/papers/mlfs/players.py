"""Who plays: rules, and policies trained on the small cluster, on any cluster."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from benchmarks.papers.given_runs import load_runs
from benchmarks.papers.lab import Lab, Study
from benchmarks.papers.mlfs.options import MLFSSettings
from benchmarks.papers.settings import Workload
from jaxsched.core.policies import Policy
from jaxsched.envs.mlfs.environment import CLUSTERS, MLFS, PRIORITIES
from jaxsched.envs.mlfs.heuristics.baselines import heuristic as whole_slots
from jaxsched.envs.mlfs.show.paper import BASELINES, MLF_H, MLF_HC, MLF_RL, RL
from jaxsched.envs.mlfs.show.paper import MLFS as MLFS_
from jaxsched.envs.mlfs.system import OWN
from jaxsched.results.comparison import Learned
from jaxsched.systems import functions
from jaxsched.types import PyTree

RULES = (*BASELINES, MLF_H, MLF_HC)
PRESETS = {MLF_RL: "plan", RL: "rl"}
"""What is trained where no run is given."""

SWITCHES = ("use_urgency", "use_deadline", "use_bandwidth", "use_migration")
LEARNT_WITH = (*PRIORITIES, *SWITCHES, "order", "reward", "decide")
"""Options that a policy takes along to another cluster: they decide what it is offered."""

NO_WEIGHTS: Sequence[PyTree] = ((),)


class Player(NamedTuple):
    """A policy on a cluster.

    Attributes:
      name: what tables call it.
      env: where it plays, with the options that are its own.
      policy: the decision rule.
      weights: network parameters of each training seed; one empty set of a rule.
    """

    name: str
    env: MLFS
    policy: Policy
    weights: Sequence[PyTree] = NO_WEIGHTS


def settings_of(lab: Lab) -> MLFSSettings:
    """The lab's settings, with what is MLFS' own."""
    assert isinstance(lab.settings, MLFSSettings)
    return lab.settings


def cluster_env(lab: Lab, name: str | None = None) -> MLFS:
    """The environment of a cluster, that of the settings if absent.

    Slots may end at every step, which is fastest for one episode at a time.
    """
    settings = settings_of(lab)
    size: dict[str, Any] = CLUSTERS[name or settings.cluster]
    env = functions.environment(
        lab.system, **size, slot_every=1, waiting_unit=settings.waiting_unit
    )
    assert isinstance(env, MLFS)
    return env


def by_slot(rule: Player) -> Player:
    """A rule that places a slot's tasks in one step: the same schedule, in less time."""
    env = replace(rule.env, decide="rule")
    return rule._replace(env=env, policy=whole_slots(env, rule.name))


def heuristic(lab: Lab, name: str, env: MLFS, called: str | None = None) -> Player:
    """A heuristic with the environment's switches and weights.

    Args:
      lab: with the system.
      name: one of ``RULES``.
      env: the cluster.
      called: what tables call it; its name if absent.
    """
    chosen = functions.heuristic(lab.system, name, env, 0, {"weights": OWN})
    assert isinstance(chosen.env, MLFS)
    return Player(called or name, chosen.env, chosen.policy)


def learned(lab: Lab, name: str, trained: Learned, env: MLFS, *, control: bool = False) -> Player:
    """A trained policy on a cluster of any size.

    Args:
      lab: with the system.
      name: what tables call it.
      trained: weights, and the environment that they were trained in.
      env: the cluster.
      control: with MLF-C.
    """
    own = replace(on_cluster(trained.env, env), use_mlfc=control)
    policy = functions.network_policy(lab.system, own, trained.network, name, trained.play)
    return Player(name, own, policy, trained.weights)


def on_cluster(learner: Any, env: MLFS) -> MLFS:
    """The cluster of ``env`` with the options that a policy was trained with."""
    return replace(env, **{name: getattr(learner, name) for name in LEARNT_WITH})


def trained_policies(lab: Lab) -> dict[str, Learned]:
    """Policies of the given runs, or trained now; ``MLF-RL``, ``RL`` or both.

    Raises:
      JaxschedError: a run cannot be read, or two of a kind do not fit together.
    """
    runs = settings_of(lab).runs
    if not runs:
        return _train(lab)
    return load_runs(lab, runs, lambda loaded: RL if loaded.network == "rl" else MLF_RL)


def learned_players(lab: Lab, env: MLFS, *, needed: bool = True) -> list[Player]:
    """``RL``, ``MLF-RL`` and ``MLFS``, and MLF-H with the priority weights of MLF-RL.

    Args:
      lab: with the settings.
      env: the cluster.
      needed: train where no run is given.
    """
    if not needed and not settings_of(lab).runs:
        return []
    trained = trained_policies(lab)
    players = [learned(lab, RL, trained[RL], env)] if RL in trained else []
    if MLF_RL not in trained:
        return players
    own = trained[MLF_RL]
    tuned = {name: getattr(own.env, name) for name in PRIORITIES}
    if tuned != {name: getattr(env, name) for name in PRIORITIES}:
        weighted = replace(env, **tuned)
        players += [
            heuristic(lab, name, weighted, with_weights_of(name, MLF_RL))
            for name in (MLF_H, MLF_HC)
        ]
    return [
        *players,
        learned(lab, MLF_RL, own, env),
        learned(lab, MLFS_, own, env, control=True),
    ]


def with_weights_of(rule_name: str, policy: str) -> str:
    """What a rule with the priority weights of another policy is called."""
    return f"{rule_name}, weights of {policy}"


def _train(lab: Lab) -> dict[str, Learned]:
    studies = {}
    for name, preset in PRESETS.items():
        recipe = lab.recipe(preset)
        names = recipe.traces
        studies[name] = Study(
            recipe, Workload(names.train), Workload(names.validation or names.train)
        )
    policies = lab.train_all(studies)
    return {
        name: Learned(name, p.setup.play_env, p.setup.network, p.weights, p.setup.play)
        for name, p in policies.items()
    }
