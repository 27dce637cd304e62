"""How the claims of Chic are read, and why some do not come out."""

from benchmarks.papers.verdicts import Claim, Missing

ALL_RATES = "by our recipe `search`, one policy for all rates"
ONE_RATE = "by our recipe `quick`, trained for each rate"
TRANSFERS = "a policy of one rate loses nothing at the others here"

CLAIMS = (
    Claim("M", "*below Optimus*", none=0, note=ALL_RATES),
    Claim("M", claimed=False),
    Claim("X1", "*below Optimus at every rate*", none=0, note=ONE_RATE),
    Claim("X1", "chic less chic_pair*", none=0, note=ONE_RATE),
    Claim("X1", "seconds saved*", none=0, note=ONE_RATE),
    Claim("X1", claimed=False),
    Claim("X2", "longest*", none=0, says="< 0", note=ONE_RATE),
    Claim("X2", none=0, note=ONE_RATE),
    Claim("X3", "loss of chic(1.8) at rates*", note=ONE_RATE),
    Claim("X3", none=0, says="> 0 %", why=TRANSFERS),
    Claim("X5", "chic: rank correlation*", none=0, says="< 0", note=ONE_RATE),
    Claim("X5", "chic: last gap*", none=1, says="< 1", note=ONE_RATE),
    Claim("X5", "chic: below Optimus at iteration", note=ONE_RATE),
    Claim(
        "X5",
        "chic_pair: below Optimus at iteration",
        none=20,
        says="< 20",
        paper="before chic (20)",
        note=ONE_RATE,
    ),
    Claim("X5", claimed=False),
    Claim(
        "X6",
        "W = 60 over W = 30*",
        none=0,
        says="< 0 %",
        why="training sequences of 30 workloads are as good here; no reason is known",
    ),
    Claim("X6", none=1, says="> 1"),
    Claim(
        "X7",
        "at 0.9 /h*",
        says="= 0 +- 2 %",
        why="a window of 2 is slower by 2.5 % than 3 and 4, which are equal; no reason is known",
    ),
    Claim("X7", "*I = 4 over I = 3*", claimed=False, note="as the row below, in per cent"),
    Claim("X7", none=0),
    Claim("X8", "empty rows chosen*", says="= 0 +- 2 %"),
    Claim("X8", claimed=False),
    Claim("X9", claimed=False),
    Claim("X4", "Optimus every 300 s less every 600 s*", none=0),
    Claim("X4", "* less the better of Optimus*", none=0, note=ALL_RATES),
    Claim(
        "X4",
        "Optimus every 300 s less every 150 s*",
        none=0,
        why="shorter intervals are better here",
    ),
    Claim("X4", "run time*", untested="another machine"),
    Claim("X4", "one inference*", untested="another machine"),
    Claim("X4", claimed=False),
    Claim("X9", claimed=False),
)
MISSING: tuple[Missing, ...] = ()
