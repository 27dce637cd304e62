"""Scheduling policies of rigid jobs, and those that a leaderboard compares.

Where the orders come from, and what becomes of each in the rigid view:

``fifo``
    First submitted. SCHED2's, DAS' and DL2's FIFO; DL2's increments of workers are gone.
``sjf``
    Shortest run time. SCHED2's SIF; its SAF goes by the run time at the placement on offer, which
    is the same here.
``lrf``
    Fewest GPUs (SCHED2's LRF). DAS' DRF, which goes by the job's own demand, is the same where
    GPUs are the only resource.
``spf``
    Smallest product of GPUs and run time (SCHED2's SPF).
``drf``
    The group (virtual cluster, tenant) that holds the fewest GPUs, first submitted inside: dominant
    resource fairness (Ghodsi et al., NSDI'11) with one resource and users in place of DL2's jobs.
``tetris``
    Alignment and short work (Grandl et al., SIGCOMM'14, section 3.3), as in DL2's and DAS'
    baselines. A job's alignment is the sum over its servers of the GPUs that it would take times
    those that are free; its score is ``1000 * alignment // (M * mean GPUs) - 1000 * work // mean
    work``, higher first, with work in GPU-seconds and the means over the table (the mean of GPUs
    times M rounded half to even, at least 1; the work's share cut at 2**30). The paper weighs by
    running means; fixed ones keep the score a whole number of the job and the cluster alone. A
    score needs a place, so the mode is ``skip`` and the locality ``strict``.
``srtf``
    Shortest remaining time, with suspension (DL2's SRTF).
``srsf``
    Smallest remaining service, the GPUs of a job times its remaining time, with suspension (SRSF,
    the clairvoyant rule that Tiresias, NSDI'19, section 3.1, compares with); cut at 2**30
    GPU-seconds.
``las``
    Least attained service, two-dimensional and discretised (Tiresias, NSDI'19, section 3.2; MLFS'
    Tiresias baseline): a job that has held GPUs for ``threshold`` GPU-seconds moves to the next
    queue; lower queues first, first submitted inside. Nothing is promoted.

``gittins``
    2D-Gittins, discretised (Tiresias, NSDI'19, section 3.2): as ``las``, but queues in order of the
    Gittins index of the services that jobs of the table's first 60 % turn out to take. So the
    spread of services is known, and nothing of a single job; the last 40 % are a fair test.
``qssf``
    Quasi-shortest service first (Hu et al., SC'21, section 4.2.2), without suspension: the mean
    run time of the jobs of the same owner and size that have ended so far, times GPUs.
``learned``
    The Gittins index per GPU of a network's forecast of the run time, with suspension: made at the
    job's submission from what has happened in this very schedule, for each interval of the time
    that the job has held its GPUs. ``history``, ``scorers``.
``learned-once``
    The same forecast's mean run time times GPUs, without suspension.

Left out: DSIF delays jobs that would be split, which costs nothing here and cannot happen with
strict locality; Optimus, SLAQ, HyperSched, Graphene and MLF-H need speeds, losses, deadlines or
task graphs; Gandiva's affinity of equal sizes and MLFS' fair share of tasks need shared GPUs.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value

Order = Literal[
    "fifo",
    "sjf",
    "lrf",
    "spf",
    "drf",
    "tetris",
    "srtf",
    "srsf",
    "las",
    "gittins",
    "qssf",
    "learned",
    "learned-once",
]
Mode = Literal["block", "skip", "easy"]
Placement = Literal["pack", "first_fit", "load_balance"]
Locality = Literal["strict", "any"]

ORDERS: tuple[Order, ...] = get_args(Order)
MODES: tuple[Mode, ...] = get_args(Mode)
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
LOCALITIES: tuple[Locality, ...] = get_args(Locality)
PREEMPTIVE: tuple[Order, ...] = ("srtf", "srsf", "las", "gittins", "learned")
LEARNING: tuple[Order, ...] = ("qssf", "learned", "learned-once")
"""Orders that go by the jobs that have ended earlier in the same schedule."""
CLAIRVOYANT: tuple[Order, ...] = ("sjf", "spf", "tetris", "srtf", "srsf")

QUEUE_THRESHOLD = 30_000
"""GPU-seconds of service after which Tiresias demotes a job, as in MLFS' baseline."""

DECADES = (60, 600, 6_000, 60_000, 600_000, 6_000_000)
"""Thresholds (GPU-seconds) of a LAS with a queue for each order of magnitude: where run times
spread over five of them, one threshold leaves most jobs in a queue with others of all lengths."""

LARGEST_OPTION = 2**30

MOST_SERVICE = 2**30
"""GPU-seconds beyond which ``srsf`` tells no difference."""

FITTED_SHARE = 0.6
"""The part of a table, from its beginning, whose services ``gittins`` knows the spread of."""


@dataclass(frozen=True)
class Policy:
    """Which job is next and where it runs; ``jaxsched.trace_replay`` states the rules.

    Attributes:
      order: one of ``ORDERS``.
      mode: one of ``MODES``; ``easy`` has no meaning for orders that suspend jobs.
      placement: one of ``PLACEMENTS``; decides nothing but recorded servers with locality ``any``.
      locality: one of ``LOCALITIES``.
      thresholds: ``las`` and ``gittins``, GPU-seconds (increasing, at least 1) at which jobs
        change queues.
      restart_s: orders that suspend jobs only, seconds of work that a suspension adds.

    Raises:
      JaxschedError: an unknown name, an option out of range, or options that contradict.
    """

    order: Order = "fifo"
    mode: Mode = "skip"
    placement: Placement = "pack"
    locality: Locality = "strict"
    thresholds: tuple[int, ...] = (QUEUE_THRESHOLD,)
    restart_s: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be replayed."""
        for field, known in (
            ("order", ORDERS),
            ("mode", MODES),
            ("placement", PLACEMENTS),
            ("locality", LOCALITIES),
        ):
            value = getattr(self, field)
            if value not in known:
                found = describe_value(value)
                raise JaxschedError(f"rigid: {field} is {found}; accepted: {', '.join(known)}")
        if self.mode == "easy" and (self.preemptive or self.learns):
            why = "suspends jobs" if self.preemptive else "knows no run times"
            raise JaxschedError(
                f"rigid: order {self.order} {why}, so mode easy has no meaning; accepted: "
                "block, skip"
            )
        if self.order == "tetris" and (self.mode, self.locality) != ("skip", "strict"):
            raise JaxschedError(
                f"rigid: order tetris with mode {self.mode} and locality {self.locality}; "
                "accepted: skip and strict"
            )
        if not _is_whole(self.restart_s, 0):
            raise JaxschedError(
                f"rigid: restart_s is {describe_value(self.restart_s)}; accepted: a whole number "
                f"from 0 to {LARGEST_OPTION} (s)"
            )
        steps = self.thresholds
        if not isinstance(steps, tuple) or not all(_is_whole(step, 1) for step in steps):
            raise JaxschedError(
                f"rigid: thresholds are {describe_value(steps)}; accepted: a tuple of whole "
                f"numbers from 1 to {LARGEST_OPTION} (GPU-seconds)"
            )
        if list(steps) != sorted(set(steps)):
            raise JaxschedError(f"rigid: thresholds are {steps}; accepted: increasing numbers")

    @property
    def preemptive(self) -> bool:
        """Whether running jobs are suspended for others."""
        return self.order in PREEMPTIVE

    @property
    def learns(self) -> bool:
        """Whether it goes by the jobs that have ended earlier in the same schedule."""
        return self.order in LEARNING

    @property
    def clairvoyant(self) -> bool:
        """Whether decisions use the jobs' true run times, which real schedulers only estimate."""
        return self.order in CLAIRVOYANT or self.mode == "easy"


def _is_whole(value: object, least: int) -> bool:
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return least <= value <= LARGEST_OPTION


POLICIES = MappingProxyType(
    {
        "fifo": Policy("fifo", "block"),
        "fifo-skip": Policy("fifo", "skip"),
        "fifo-easy": Policy("fifo", "easy"),
        "fifo-firstfit": Policy("fifo", "skip", "first_fit"),
        "fifo-loadbalance": Policy("fifo", "skip", "load_balance"),
        "fifo-any": Policy("fifo", "skip", locality="any"),
        "sjf": Policy("sjf", "skip"),
        "sjf-block": Policy("sjf", "block"),
        "sjf-easy": Policy("sjf", "easy"),
        "lrf": Policy("lrf", "skip"),
        "spf": Policy("spf", "skip"),
        "spf-easy": Policy("spf", "easy"),
        "drf": Policy("drf", "skip"),
        "drf-easy": Policy("drf", "easy"),
        "drf-firstfit": Policy("drf", "skip", "first_fit"),
        "drf-loadbalance": Policy("drf", "skip", "load_balance"),
        "tetris": Policy("tetris", "skip", "load_balance"),
        "tetris-pack": Policy("tetris", "skip", "pack"),
        "srtf": Policy("srtf", "skip"),
        "srtf-300s": Policy("srtf", "skip", restart_s=300),
        "srsf": Policy("srsf", "skip"),
        "srsf-300s": Policy("srsf", "skip", restart_s=300),
        "las": Policy("las", "skip"),
        "las-decades": Policy("las", "skip", thresholds=DECADES),
        "las-decades-300s": Policy("las", "skip", thresholds=DECADES, restart_s=300),
        "2d-gittins": Policy("gittins", "skip", thresholds=DECADES),
        "2d-gittins-300s": Policy("gittins", "skip", thresholds=DECADES, restart_s=300),
        "qssf": Policy("qssf", "skip"),
    }
)
"""The policies that a leaderboard compares, by name."""
