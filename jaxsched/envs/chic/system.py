"""Chic and Chic-Pair as the rest of the library sees them."""

from dataclasses import replace
from functools import partial

from jaxsched.core.policies import Policy
from jaxsched.elastic.mapping import TYPE_SHARES, chic_jobs
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.heuristics import baseline
from jaxsched.envs.chic.intervals import OptimusIntervals, optimus
from jaxsched.envs.chic.jobs import WORKLOAD
from jaxsched.envs.chic.learn import DEPARTURES, FORMER_SETTINGS, NOTES, PAPER, PRESETS
from jaxsched.envs.chic.show import log
from jaxsched.envs.chic.show.front_end import ChicReader, cluster_arrays
from jaxsched.envs.chic.show.paper import claims
from jaxsched.systems import system
from jaxsched.systems.parts import Network, Rule, TraceSet

HORIZON_S = 10_000.0  # some workloads' times in the system


def _at_intervals(name: str, interval: float) -> Rule:
    def plays_in(env: Chic, num_jobs: int) -> OptimusIntervals:
        del num_jobs
        return OptimusIntervals(capacity=env.capacity, interval=interval)

    def make(env: OptimusIntervals) -> Policy:
        return optimus(env)._replace(name=name)

    words = f"Optimus, decides every {interval:.0f} s"
    return Rule("baseline", words, make, plays_in, knows="iterations left, speeds")


def _network(env: Chic, kind: str) -> Network:
    """The network of the paper's recipe, also as ``paper``, or one of other widths."""
    return system.fully_connected(env, PAPER.network if kind == "paper" else kind)


REFERENCES = {
    "random": ("uniform over units that fit", "what fits"),
    "round_robin": ("next unit to the workload with the fewest", "units held"),
    "optimus_event": ("Optimus' rule at every arrival and finish", "iterations left, speeds"),
    "search": ("best static allocation of the window by search", "iterations left, speeds"),
}
"""What each rule does, and what it knows."""


def _reference(name: str, words: str, knows: str) -> Rule:
    def plays_in(env: Chic, num_jobs: int) -> Chic:
        """Void comes once the allocation is complete; Optimus' rule has no form in Chic-Pair."""
        del num_jobs
        pair = env.pair and name != "optimus_event"
        return replace(env, void_outside="ends", pair=pair)

    make = partial(baseline, name)
    return Rule("reference", words, make, plays_in, knows=knows, best=name == "search")


SYSTEM = system.System(
    name="chic",
    title="Chic, Chic-Pair: experience-driven elastic scheduling",
    decides="workers and parameter servers of the first workloads, at every arrival and finish",
    environment=Chic,
    metrics=system.Metrics(
        "avg_jct",
        shown=(
            "avg_jct",
            "min_jct",
            "median_jct",
            "max_jct",
            "avg_wait",
            "makespan",
            "utilization",
            "steps",
            "phases",
            "finished",
        ),
        own=log.OWN_METRICS,
        unfinished=1e6,  # s, far beyond any that finishes
    ),
    policies={
        "optimus": _at_intervals("optimus", 600.0),
        "optimus_300": _at_intervals("optimus_300", 300.0),
        **{name: _reference(name, *words) for name, words in REFERENCES.items()},
    },
    jobs=system.Jobs(
        WORKLOAD,
        TraceSet("chic-1.80", "chic-1.80", num_test=30),
        num_jobs=30,
        from_rigid=lambda table, _: chic_jobs(table),  # by the rank of their run times (section 11)
        mapping={"model_shares": TYPE_SHARES},
        mean_gap_s=2000.0,  # 1.8 per hour
    ),
    log=system.EpisodeLog(log.recorder, log.summarise, recording=log.recording),
    networks=system.Networks(_network),
    recipes=system.Recipes(PRESETS, NOTES, DEPARTURES, FORMER_SETTINGS),
    training=system.Training(planning_horizon_s=HORIZON_S, horizon_s=HORIZON_S),
    paper=system.Paper("Chic: experience-driven scheduling in machine learning clusters", claims),
    cases=system.Cases(log.read, log.WHOLE, double=True),
    front_end=system.FrontEnd(ChicReader, cluster_arrays),
)
