"""How the claims of DAS are read, and why some do not come out."""

from benchmarks.papers.verdicts import Claim, Missing, grows, numbers_in

IMITATED = (
    "networks that imitate our linear rule; the paper's policy gradient did not improve on them"
)
ALIKE = "all four variants imitate the same rule, and are as good as it"
NO_CONTENTION = (
    "without any contention the fee would be 0.3 % below FIFO-LoadBalance's here (row A), where "
    "the paper's is 1.5 % below"
)
PER_JOB = "the test weighs each job alike: 62 % of the jobs take longer, and few save hours (notes)"
MACHINE = "another machine"
IDENTITY = "holds by construction: one job at a time meets no contention"


def _das_least(measured: str) -> bool:
    figures = {name: float(x) for name, x in (part.rsplit(" ", 1) for part in measured.split(", "))}
    return all(figures["DAS"] < x for name, x in figures.items() if name != "DAS")


def _significantly_below(measured: str) -> bool:
    return "not below" not in measured and float(measured.split(",")[0].lstrip("< ")) < 0.05


CLAIMS = (
    Claim("T1", "*first 12 episodes*", claimed=False),
    Claim("T1", "*over random's*", claimed=False),
    Claim("T1", "*over an untrained*", claimed=False),
    Claim("T1", "minutes less than RIFLING*", none=0, note=IMITATED),
    Claim("T1", "$ saved*", none=0, note=IMITATED),
    Claim("T1", "*over FIFO-LoadBalance's, mean", holds=_das_least, why=ALIKE),
    Claim("T1", "large: fee*", none=1, why=NO_CONTENTION, note=IMITATED),
    Claim(
        "T1",
        "small: mean JCT*",
        none=1,
        why="single episodes of 8 machines differ tenfold, so 64 of them leave it open",
        note=IMITATED,
    ),
    Claim(
        "T1",
        "medium: mean JCT*",
        none=1,
        why="DRF-LoadBalance is as good here; no reason is known",
        note=IMITATED,
    ),
    Claim("T1", none=1, note=IMITATED),
    Claim("F5", "JCT at every point*", says="= 0 +- 5 %"),
    Claim(
        "F5",
        "mean JCT, as drawn*",
        says="= 0 +- 5 %",
        why="the long queues of a few episodes on 8 machines decide the mean",
    ),
    Claim(
        "F5",
        "heads with the least fee*",
        holds=lambda found: numbers_in(found) == [4],
        why="no number of heads differs from another beyond noise",
    ),
    Claim(
        "F5",
        "history with the least JCT*",
        holds=lambda found: numbers_in(found) == [8],
        why="no length differs from another beyond noise",
    ),
    Claim("F6", "(a)*", none=1, says="> 1"),
    Claim("F6", none=50, says="> 50 %"),
    Claim("F7", "gain of JCT*", none=0, says="> 0 %"),
    Claim("F7", "load with the largest gain of fee", holds=lambda found: found == "normal"),
    Claim("F7", "minutes less*", holds=grows),
    Claim("T3", "medium: p of JCT*", holds=_significantly_below, why=PER_JOB),
    Claim("T3", holds=_significantly_below),
    Claim("A", "*lazy's fee against that without contention*", claimed=False, note=IDENTITY),
    Claim("A", "*lazy's fee over*", none=1, says="< 1"),
    Claim("A", none=1, says="> 1"),
    Claim("M", claimed=False),
    Claim("F", "*time per decision over DAS's", none=1),
    Claim("F", "*DAS alone*", untested=MACHINE),
    Claim("F", claimed=False),
    Claim("S", claimed=False),
)
MISSING = (
    Missing(
        "Table 1",
        "on the paper's public trace, Alibaba PAI 2020",
        "638.0 min",
        "not run: the package reads the trace, but has no copy of it",
    ),
)
