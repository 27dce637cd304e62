"""MLFS as the rest of the library sees it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jaxsched.core.policies import Policy, uniform_legal
from jaxsched.envs.mlfs.environment import MLFS, PRIORITIES
from jaxsched.envs.mlfs.heuristics.baselines import heuristic, linear_host
from jaxsched.envs.mlfs.jobs import SMALL_JOBS, SPAN_S, WORKLOAD, task_jobs
from jaxsched.envs.mlfs.learn import (
    DEPARTURES,
    FORMER_SETTINGS,
    NOTES,
    PRESETS,
    TUNED,
    policy_network,
    value_network,
)
from jaxsched.envs.mlfs.plans import OF_SLOTS, PAIRS, policy_model
from jaxsched.envs.mlfs.rules import MLF, ORDERS
from jaxsched.envs.mlfs.rules.tables import SLOT_S
from jaxsched.envs.mlfs.show import cases, log
from jaxsched.envs.mlfs.show.front_end import MLFSReader
from jaxsched.envs.mlfs.show.paper import paper_rows
from jaxsched.errors import JaxschedError
from jaxsched.systems import system
from jaxsched.systems.parts import Kind, Network, Rule, TraceSet

HIGHEST_LOAD = 3  # times the jobs of load 1
NUM_JOBS = HIGHEST_LOAD * SMALL_JOBS
DEFAULT_KIND, PLAIN = "paper", "servers"  # of networks: what benchmarks ask for, and what they get
PAPER, OWN = "paper", "own"
LINEAR_TUNED = "linear_tuned"
TEACHERS = {"heuristic": heuristic, "linear": linear_host}
PLANNING_PACE = 4  # steps from the end of a slot to that of the next, see ``MLFS.slot_every``
PREDICTED = "predicted run times, deadlines, loss curves"


RULES = {
    "fair": ("least running GPU demand first (TensorFlow)", "GPUs in use"),
    "slaq": ("most loss reduction per minute first", "loss curves"),
    "tiresias": ("least attained service, two queues", "service attained"),
    "gandiva": ("first in, first out; moves tasks off hot GPUs", "order of arrival, GPU load"),
    "graphene": ("short, large and under-served jobs first", "predicted run times, requests"),
    "hypersched": (
        "most accuracy gained until the deadline first",
        "accuracy curves, deadlines",
    ),
    "fifo": ("first in, first out", "order of arrival"),
    "mlf_h": ("MLF-H: priorities, host choice, migration", PREDICTED),
    "mlf_hc": ("MLF-H with MLF-C: jobs end early under load", PREDICTED),
    "linear": ("MLF-H's order, linear choice of servers", PREDICTED),
    LINEAR_TUNED: ("linear, in an order of tasks by weights found by search", PREDICTED),
    "random": ("MLF-H's order, uniformly random servers or queue", PREDICTED),
}
"""What each rule does, and what it knows."""
REFERENCES = ("mlf_hc", "linear", LINEAR_TUNED, "random")


def _rule(name: str, words: str, knows: str) -> Rule:
    """A baseline in its own order of tasks, MLF-H, or a reference policy.

    Only ``mlf_hc`` plays with MLF-C, unless the option ``mlfc`` has all of them do so. MLF's
    priorities have the paper's weights and the usual unit, or with ``weights`` "own" those of the
    environment; ``linear_tuned`` always has those found by search.
    """

    def plays_in(env: MLFS, num_jobs: int, *, mlfc: bool, weights: str) -> MLFS:
        del num_jobs
        order: Any = name if name in ORDERS else MLF
        changes: dict[str, Any] = dict(PRIORITIES) if weights == PAPER else {}
        changes |= TUNED if name == LINEAR_TUNED else {}
        changes |= {"order": order, "use_mlfc": mlfc or name == "mlf_hc", "decide": "offer"}
        return replace(env, **changes)

    def make(env: MLFS, **options: Any) -> Policy:
        del options
        if name == "random":
            return uniform_legal(name)
        return (linear_host if name in ("linear", LINEAR_TUNED) else heuristic)(env, name)

    kind: Kind = "reference" if name in REFERENCES else "baseline"
    apart, best = name == "mlf_hc", name == LINEAR_TUNED
    return Rule(kind, words, make, plays_in, knows=knows, apart=apart, best=best)


def _in_words(env: MLFS, chosen: Mapping[str, Any]) -> dict[str, str]:
    """Whether heuristics play with MLF-C."""
    del env
    who = "every heuristic" if chosen["mlfc"] else "mlf_hc only"
    return {"MLF-C (ends jobs early)": f"in force for {who}"}


def _network(env: MLFS, kind: str) -> Network:
    """The policy network, with all inputs or with those of the baseline RL, or weights."""
    plain = PAIRS if env.by_slot else PLAIN
    return policy_network(env, plain if kind == DEFAULT_KIND else kind)


def _value(env: MLFS, kind: str) -> Network:
    """The value network of the same make, with the same inputs."""
    return value_network(env, PLAIN if kind == DEFAULT_KIND else kind)


def _teacher(env: MLFS, name: str) -> Policy:
    """The rule of the environment's order (``heuristic``), or ``linear``.

    Both answer what the environment offers, in its own order with its own weights.

    Raises:
      JaxschedError: another name, or the action is the weights of a slot.
    """
    if env.by_slot:
        raise JaxschedError(OF_SLOTS)
    if name not in TEACHERS:
        raise JaxschedError(f"mlfs: teacher is {name!r}; accepted: {', '.join(TEACHERS)}")
    return TEACHERS[name](env)


def _planning(env: MLFS) -> MLFS:
    """With the backlog reward: its sum is the mean completion time, in slots. At a common pace.

    Of many plays side by side one nearly always ends its slot, which then costs all of them.
    """
    return replace(env, reward="backlog", slot_every=0 if env.by_slot else PLANNING_PACE)


def _at_pace(env: MLFS) -> MLFS:
    """Slots of all episodes ended at the same steps.

    The pace is ``PLAY_PACE`` whatever the number of episodes and the environment's own, so that
    policies that draw play alike alone and beside others.
    """
    return replace(env, slot_every=log.PLAY_PACE)


def _claims(env: MLFS, summary: system.Summary, learned: str) -> list[dict[str, Any]]:
    """Figure 4 at the highest load; with MLF-C the learned policy is MLFS, else MLF-RL."""
    return paper_rows(summary, learned, controls=env.use_mlfc)


SYSTEM = system.System(
    name="mlfs",
    title="MLFS: tasks with deadlines, migration and load control",
    decides="where each task of iterative jobs runs, which tasks migrate, when jobs end",
    environment=MLFS,
    metrics=system.Metrics(
        "avg_jct",
        shown=(
            "avg_jct",
            "median_jct",
            "jct_under_100min",
            "makespan",
            "avg_wait",
            "deadline_ratio",
            "urgent_deadline_ratio",
            "avg_accuracy",
            "accuracy_ratio",
            "bandwidth_mb",
            "overloads",
            "migrations",
            "evictions",
            "iterations",
            "return",
            "steps",
            "slots",
            "finished",
        ),
        own=log.OWN_METRICS,
        unfinished=float(SLOT_S * MLFS.max_slots),  # s, the length of an episode that is cut
    ),
    policies={name: _rule(name, *words) for name, words in RULES.items()},
    jobs=system.Jobs(
        WORKLOAD,
        TraceSet("mlfs-small-mixed", f"mlfs-small-x{HIGHEST_LOAD}", num_test=10),
        num_jobs=NUM_JOBS,
        from_rigid=lambda table, index: task_jobs(table, seed=index),  # section 11
        mapping={
            "min_duration_s": 300,
            "max_duration_s": 86400,  # of a job on an idle cluster (section 11)
        },
        mean_gap_s=SPAN_S / NUM_JOBS,  # of the highest load on 20 GPUs
    ),
    log=system.EpisodeLog(
        log.recorder, log.summarise, recording=log.recording, evaluation=_at_pace
    ),
    options=system.Options(
        {"mlfc": False, "weights": PAPER},
        {"mlfc": (True, False), "weights": (PAPER, OWN)},
        _in_words,
    ),
    networks=system.Networks(_network, _value, default=PLAIN, model=policy_model),
    recipes=system.Recipes(PRESETS, NOTES, DEPARTURES, FORMER_SETTINGS),
    training=system.Training(
        planning=_planning,
        planning_horizon_s=3_600.0,  # an hour of slots
        episode_steps=0,  # a hundred thousand and more
        teacher=_teacher,
    ),
    paper=system.Paper(
        "Wang, Liu, Shen: Job Scheduling for Large-Scale Machine Learning Clusters, CoNEXT '20",
        _claims,
    ),
    cases=system.Cases(cases.read_case, cases.WHOLE),
    front_end=system.FrontEnd(MLFSReader),
)
