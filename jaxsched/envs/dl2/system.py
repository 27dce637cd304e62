"""DL2 as the rest of the library sees it."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from typing import Any

from jaxsched.core.policies import Policy
from jaxsched.elastic.mapping import TYPE_SHARES, dl2_jobs
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.heuristics import DL2Slots
from jaxsched.envs.dl2.heuristics.baselines import baseline
from jaxsched.envs.dl2.heuristics.published import action_rule
from jaxsched.envs.dl2.jobs import WORKLOAD
from jaxsched.envs.dl2.learn import policy_network, value_network
from jaxsched.envs.dl2.learn.presets import FORMER_SETTINGS, NOTES, PRESETS, ByCluster
from jaxsched.envs.dl2.show import log
from jaxsched.envs.dl2.show.front_end import DL2Reader, cluster_arrays
from jaxsched.envs.dl2.show.paper import paper_rows, published_claims, published_table
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.systems import system
from jaxsched.systems.cluster_arrays import ClusterArrays
from jaxsched.systems.parts import Kind, Rule, TraceSet

BASELINES = {
    "drf": ("dominant resource fairness", "requests, shares held"),
    "fifo": ("first in, first out, four bundles each", "order of arrival"),
    "srtf": ("shortest remaining time first, four bundles each", "epochs left, usual speeds"),
    "tetris": (
        "packing and short jobs, four bundles each",
        "requests, epochs left, usual speeds",
    ),
    "optimus": (
        "largest gain per share, speeds fitted online",
        "epochs left, speeds measured so far",
    ),
}
REFERENCES = {
    "optimus_oracle": ("Optimus that knows the noise-free speeds", "epochs left, true speeds"),
    "optimus_fill": (
        "the same, going on where a task does not fit",
        "epochs left, speeds measured so far",
    ),
    "probe": ("greedy, knows speeds and contention", "epochs left, true speeds and contention"),
}
PUBLISHED = {
    f"{name}_artefact": (f"{words}, as DL2's published simulator has it", knows)
    for name, words, knows in (
        ("drf", "dominant resource fairness", "requests, shares held"),
        ("optimus", "largest gain in time", "epochs left, true speeds"),
        ("srtf", "smallest share of epochs left first", "share of epochs left"),
        ("fifo", "first in, first out", "order of arrival"),
        ("tetris", "packing and long jobs", "requests, share of epochs left"),
    )
}
BY_ACTIONS = {
    "optimus_actions": ("its Optimus, through the agent's actions", "epochs left, true speeds"),
    "probe_actions": ("greedy by true speeds, through the actions", "epochs left, true speeds"),
    "drf_actions": ("its DRF, through the agent's actions", "requests, shares held"),
    "drf_tasks_actions": (
        "the same, each bundle as a worker and then a parameter server",
        "requests, shares held",
    ),
    "void_actions": ("only what slots start with", "nothing"),
}
"""What each rule does, and what it knows."""
CLAIRVOYANT = ("optimus_oracle", "probe", "probe_actions")
COMPARED = ("optimus_actions", "probe_actions")
"""Rules through actions that play in the published simulator unless others are asked for; the
other ones play only where they are asked for."""


def _slot_by_slot(env: DL2, num_jobs: int) -> DL2Slots:
    """Rules decide slot by slot."""
    del num_jobs
    return DL2Slots(**asdict(env))


def _published(env: DL2 | None) -> bool:
    """Whether it is the cluster of the published simulator."""
    return env is not None and env.demand_table == "artefact"


def _rule(kind: Kind, name: str, words: str, knows: str) -> Rule:
    return Rule(
        kind,
        words,
        partial(baseline, name),
        _slot_by_slot,
        knows=knows,
        clairvoyant=name in CLAIRVOYANT,
        best=name == "probe",
        usual=lambda env: _published(env) == (name in PUBLISHED),
    )


@cache
def _acting(name: str, env: DL2) -> Policy:
    return action_rule(name, env)


def _by_actions(name: str, words: str, knows: str) -> Rule:
    return Rule(
        "reference",
        words,
        partial(_acting, name),
        knows=knows,
        clairvoyant=name in CLAIRVOYANT,
        usual=lambda env: name in COMPARED and _published(env),
    )


def _teacher(env: DL2, name: str) -> Policy:
    """A rule that acts through the agent's actions, asked at every decision.

    Raises:
      JaxschedError: no such rule; others plan whole slots, which are recorded.
    """
    if name not in BY_ACTIONS:
        raise JaxschedError(
            f"dl2: teacher is {name!r}; accepted where it is asked at every decision: "
            f"{', '.join(BY_ACTIONS)}"
        )
    return _acting(name, env)


def _planning(env: DL2) -> DL2:
    """With the backlog as the reward, where a step ends one slot at the most."""
    return env if env.assign_bundle else replace(env, reward="backlog")


def _claims(env: DL2, summary: system.Summary, learned: str) -> list[dict[str, Any]]:
    """Figure 9; in the published simulator the targets of its own saved numbers."""
    return (published_claims if _published(env) else paper_rows)(summary, learned)


def _figures(
    env: DL2, tables: Sequence[JobTable], summary: system.Summary
) -> dict[str, Any] | None:
    """The figures of the published simulator."""
    return published_table(tables, summary) if _published(env) else None


def _arrays(env: DL2) -> ClusterArrays | None:
    """Plain arrays of a cluster, for exports; not of the published simulator's observation."""
    return cluster_arrays(env) if env.observation == "paper" else None


SYSTEM = system.System(
    name="dl2",
    title="DL2: elastic workers and parameter servers, slot by slot",
    decides="workers and parameter servers of every job, slot by slot",
    environment=DL2,
    metrics=system.Metrics(
        "avg_jct_slots",
        shown=(
            "avg_jct_slots",
            "avg_jct_coarse",
            "avg_jct",
            "avg_wait",
            "makespan",
            "makespan_coarse",
            "mean_slot_reward",
            "utilization",
            "cpu_utilization",
            "decisions",
            "slots",
            "finished",
        ),
        own=log.OWN_METRICS,
        unfinished=1000.0,  # slots, the length of an episode that is cut
    ),
    policies={
        **{name: _rule("baseline", name, *words) for name, words in BASELINES.items()},
        **{name: _rule("reference", name, *words) for name, words in REFERENCES.items()},
        **{name: _rule("baseline", name, *words) for name, words in PUBLISHED.items()},
        **{name: _by_actions(name, *words) for name, words in BY_ACTIONS.items()},
    },
    jobs=system.Jobs(
        WORKLOAD,
        TraceSet("dl2-testbed", "dl2-testbed", num_test=10),
        num_jobs=60,
        from_rigid=lambda table, _: dl2_jobs(table),  # by their run times (section 11)
        mapping={"model_shares": TYPE_SHARES},
        mean_gap_s=1400.0,  # of the simulated cluster's workload
    ),
    log=system.EpisodeLog(log.recorder, log.summarise, recording=log.recording),
    networks=system.Networks(policy_network, value_network, default="rows"),
    recipes=system.Recipes(PRESETS, NOTES, ByCluster(), FORMER_SETTINGS),
    training=system.Training(
        planning=_planning,
        learns_in=system.same,  # by the paper's reward: the backlog falls too late for a beginner
        horizon_s=12_000.0,  # ten slots
        episode_steps=6144,  # of 60 jobs on 60 servers
        teacher=_teacher,
    ),
    paper=system.Paper(
        "Peng et al., DL2: A Deep Learning-Driven Scheduler for Deep Learning Clusters",
        _claims,
        _figures,
    ),
    cases=system.Cases(log.read_case, log.WHOLE, double=True),
    front_end=system.FrontEnd(DL2Reader, _arrays),
)
