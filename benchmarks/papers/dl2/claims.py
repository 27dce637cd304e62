"""How the claims of DL2 are read, and why some do not come out."""

from benchmarks.papers.verdicts import Claim, Missing, falls, numbers_in

TESTBED_ONLY = "the paper's Figure 9 is of its testbed, this of 60 servers"
CORES = "jobs here are fastest with few workers, and CPU cores run out before GPUs do"
UNLEARNS = (
    "the row is of a preset that cuts slots and sums the entropy, whose policy unlearns (10.0 to "
    "15.8 slots on validation sequences): what is changed about it cannot be told apart"
)
SLIGHT = "slight is read as 10 % at most"
SHORT = "50 ms, the paper's tens of milliseconds, are 0.004 % of a slot"
TENS = "30 s stand for the paper's tens of seconds"
SAME_TEACHER = (
    "FIFO and SRTF are the same policy here: both give four bundles to each job, and their times "
    "are equal on every test sequence"
)


def _earlier(measured: str) -> bool:
    both, alone = measured.split(" against ")
    return both != "never" and (alone == "never" or float(both) < float(alone))


CLAIMS = (
    Claim("E1", "sim:*", untested=TESTBED_ONLY),
    Claim("E1", none=0),
    Claim("E2", "sim:*", untested=TESTBED_ONLY),
    Claim("E2", "testbed: makespan*", none=0),
    Claim("E2", "testbed: GPU utilisation*", why=CORES),
    Claim(
        "E3",
        "SL off its teacher*",
        says="= 0 +- 10 %",
        why="the curve of the supervised stage still falls at its last update",
    ),
    Claim("E3", "SL+RL reaches DRF earlier*", holds=_earlier),
    Claim("E3", "SL+RL below DRF*", none=0, says="> 0 %"),
    Claim("E4"),
    Claim("E5", none=0),
    Claim("E6", "DL2 below Optimus*", none=0),
    Claim(
        "E6",
        "increase of *",
        untested="the two increases were measured apart, and their intervals overlap",
    ),
    Claim("E7", "increase of DL2's time*", none=0, says="0..10 %", note=SLIGHT),
    Claim("E7", "DL2 below DRF*", none=0),
    Claim("E8", says="= 0 +- 5 %"),
    Claim("E9", "*drf", none=0),
    Claim("E9", untested=SAME_TEACHER),
    Claim("E10", "J = 5 less J = 20*", none=0),
    Claim("E10", "best J", untested="how many jobs are in the system at once is not on file"),
    Claim("E10", "best *neurons*", holds=lambda found: numbers_in(found) == [128], why=UNLEARNS),
    Claim("E10", "best layers*", holds=lambda found: numbers_in(found) == [2], why=UNLEARNS),
    Claim("E11", "no ablation better*", none=0, says="< 0", why=UNLEARNS),
    Claim("E11", "reward *", claimed=False, note="not an ablation of the paper's"),
    Claim("E11", "SL loss*", none=0, says="> 0 %", why=UNLEARNS),
    Claim("E11", none=0, why=UNLEARNS),
    Claim("E12", "largest mean*", says="= 0 +- 10 %", why=UNLEARNS),
    Claim("E12", holds=falls, why=UNLEARNS),
    Claim("E13", claimed=False),
    Claim("E14", claimed=False),
    Claim("E15", "one inference*", untested="another machine, and without the framework around it"),
    Claim("E15", claimed=False),
    Claim(
        "E16",
        none=0,
        says="> 0",
        why="nothing was learnt on 500 servers",
        note="by the shipped policy of 60 servers",
    ),
    Claim("E17", "hot scaling: dl2*", none=0, why=SHORT),
    Claim("E17", "checkpoints: optimus*", none=0, note=TENS),
    Claim("E17", claimed=False),
)
MISSING = (
    Missing(
        "Table 2",
        "each inference is paid its own job's progress (the paper's rejected reward): worse by",
        "29.1 %",
        "among the readings of the text (`own job`): the paper's learner, which unlearns on 60 "
        "servers, ends at 2.3 times the completion time",
    ),
)
