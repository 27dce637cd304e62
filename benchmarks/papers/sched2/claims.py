"""How the claims of SCHED2 are read, and why some do not come out."""

from benchmarks.papers.verdicts import Claim, Missing, falls
from jaxsched.envs.sched2.show.paper import GAINS

PRIVATE = "the trace is private, and the generator was set to this figure"
NO_SPLITS = (
    "the learned policy splits no job: under slowdowns that go on growing beyond two servers (to "
    "15.7 times) no split can be made up for, so no class of jobs is let go"
)
OWN_RECIPE = "by our recipe `search`, one policy for all mixes; baselines see ten jobs"
BLOCKED = "by our recipe `search`; baselines see ten jobs and wait for the first that does not fit"
WHOLE = "by our recipe `search`; baselines see the whole queue, as the paper's text says"

CLAIMS = (
    Claim("F3", "share of one-GPU jobs", untested=PRIVATE),
    Claim("F3", "mean run time*", untested=PRIVATE),
    Claim("F3", claimed=False),
    Claim("F4", none=1, says="> 1"),
    Claim("F7", "*learned less strict_sif", claimed=False),
    Claim("F7", "effectiveness, times better, falls*", holds=falls, note=OWN_RECIPE),
    Claim("F7", none=1, note=OWN_RECIPE),
    Claim("F8", none=0, says="> 0", note=OWN_RECIPE),
    Claim("F9", "mean fragmentation*", none=1, says="< 1", note=OWN_RECIPE),
    Claim(
        "F9",
        "learned: last starts*",
        untested="means of two parts of the curve cannot show that it falls periodically",
    ),
    Claim("F10", none=1, note=OWN_RECIPE),
    Claim("T3", "*sensitive less insensitive", none=0, why=NO_SPLITS),
    Claim("T3", "share without best locality*", why=NO_SPLITS),
    Claim(
        "T3",
        "wait*",
        why="both classes wait alike, since both are placed at best locality only",
    ),
    Claim("R", "reuse, learned", note=OWN_RECIPE),
    Claim(
        "R",
        "reuse, every baseline*",
        why="the largest of the six is shown; DSIF and FIFO reuse a third, the others 0.21 to 0.25",
    ),
    Claim("Q", "the agent's window, skip*", claimed=False, note="as in row F7"),
    *(
        Claim("Q", f"{view}*{metric}*", none=1, paper=f"{gain:g}", note=note)
        for view, note in (("the agent's window, block", BLOCKED), ("the whole queue", WHOLE))
        for metric, gain in GAINS.items()
    ),
    Claim("L", "cost of the training", untested="another machine, 2,304 episodes a seed"),
    Claim("L", claimed=False),
    Claim("S", claimed=False),
)
MISSING: tuple[Missing, ...] = ()
