"""Scheduling policies of rigid jobs; ``named_policies`` has those that a leaderboard compares.

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
    Least attained service, two-dimensional and discretised, with the queues of Tiresias (Gu et al.,
    NSDI'19, section 3.2): a job that has held GPUs for ``threshold`` GPU-seconds moves to the next
    queue; lower queues first. Inside a queue the first submitted goes first, whether it runs or
    waits: that is MLFS' Tiresias baseline, and not what Tiresias does.
``tiresias``
    The same queues, served as in Tiresias' published simulator (github.com/SymbioticLab/Tiresias,
    ``dlas-gpu``). Inside a queue running jobs go before waiting ones, those first that came to run
    there earlier; of the waiting ones first those that were suspended, the last suspended first,
    then all others as they came. A job that moves to the next queue comes behind all who wait
    there, and if it goes on running even so, it is a running job of that queue from then on. Ties
    go to the lower job number. With ``promote_percent`` (100 times the simulator's PROMOTEKNOB) a
    suspended job of a queue but the first goes back to the first, with no service attained, when it
    has waited for so many percent of the time for which it has held GPUs, both since it came or was
    last promoted; waits before a first start do not count.
``fairness``
    Worst finish-time fairness first (Themis; Mahajan et al., NSDI'20, section 4): a job's rho is
    the time to its end, started now, over its time alone on the cluster. That is ``1 + wait / run
    time``, so the order is by ``wait / run time`` in float32, largest first. Themis auctions leases
    of GPUs among the jobs of worst rho; here a lease is a whole run. The mode is ``skip``.
``group-fairness``
    The same between groups (virtual clusters, tenants), which Themis' apps belong to: the group
    with the worst waiting job first, whatever that job needs, and first submitted inside.
``lifo``
    Last submitted.
``sjf-narrow``
    Shortest run time, and of equal ones the fewest GPUs: SJF as RLTune has it (``commit``).
``lpf``
    Longest run time (RLTune's LPF).
``f1``
    The score F1 that Carastan-Santos and de Camargo (SC'17) fitted by regression to simulations:
    ``log10(run time) * GPUs + 870 * log10(submission)``, lowest first, with a zero taken as 0.1 as
    RLTune takes it. Submissions are on the table's own clock (s).
``edf``
    Earliest deadline first, then jobs without one as submitted: the order in which Chronus (Gao et
    al., SoCC'21) serves its SLO jobs and its best-effort jobs, without its admission and leases.
``priority``
    Largest priority first, first submitted inside.
``spot``
    The same, with suspension of running jobs of a lower priority for waiting ones of a higher, and
    of nobody for an equal: high-priority jobs reclaim the GPUs of spot jobs, last submitted first.
    With ``headroom_percent``, jobs below the table's largest priority start only while so many of
    the GPUs stay free, or if all are: a fixed quota of spot jobs. The two ideas of GFS (Duan et
    al., ASPLOS'26) are options. With ``forecast_percent`` the quota follows a forecast of the GPUs
    that high-priority jobs will hold: running ones have their part already, the rest is kept free.
    With ``victims="waste"`` those are suspended that lose the least GPU time. GFS forecasts by a
    trained linear model for each organisation, corrects the quota by the evictions that it sees and
    guarantees spot jobs a time; here the forecast is the demand and a quantile of its earlier rises
    (``demand``), and none is corrected or guaranteed anything.

``run_times="estimates"`` puts the table's column ``estimate`` in the place of run times in every
order and promise: users' requests, as EASY was made for, or what any predictor gives. ``spf`` with
estimates is what remains of Lucid (Hu et al., ASPLOS'23, section 3.4: least estimated GPU time
first, without preemption) where jobs share no GPUs and none is profiled first, and of Helios' QSSF
(Hu et al., SC'21, section 4.2.2): both differ in the predictor.

``share`` and ``isolated`` are about groups (virtual clusters, tenants). Every group has a quota of
GPUs: the cluster over the groups, equal or in proportion to the GPU-seconds that their jobs take in
the whole table (``tables.quotas``). ``drf`` serves the group that holds the smallest part of its
quota: max-min fairness with weights. With ``isolated``, a job starts only if its group then holds
at most its quota: virtual clusters as Philly and Helios run them (Jeon et al., ATC'19, section 2;
Hu et al., SC'21, section 2), but of GPUs rather than servers.

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
``slowdown``
    On GPUs of different types the least relative slowdown: a job's speed on its fastest type over
    that on the type that it would get now, then the first submitted. So of the jobs that would take
    a slow GPU the one goes first that loses least there. A greedy rule of what Gavel (Narayanan et
    al., OSDI'20) has a linear program for; ``gavel`` plays those.

Left out: DSIF delays jobs that would be split, which costs nothing here and cannot happen with
strict locality; Optimus, SLAQ, HyperSched, Graphene and MLF-H need speeds, losses or task graphs;
Gandiva's affinity of equal sizes and MLFS' fair share of tasks need shared GPUs.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value
from jaxsched.options import Bounds, check

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
    "tiresias",
    "gittins",
    "qssf",
    "learned",
    "learned-once",
    "fairness",
    "group-fairness",
    "edf",
    "priority",
    "spot",
    "lifo",
    "sjf-narrow",
    "lpf",
    "f1",
    "slowdown",
]
Mode = Literal["block", "skip", "easy", "commit"]
Placement = Literal["pack", "first_fit", "load_balance"]
Placing = Literal["pack", "first_fit", "load_balance", "fgd"]
Locality = Literal["strict", "any"]
RunTimes = Literal["true", "estimates"]
Share = Literal["equal", "work"]
Victims = Literal["last", "waste"]
TypeChoice = Literal["listed", "fastest"]
Knowledge = Literal["nothing", "estimates", "run times"]

ORDERS: tuple[Order, ...] = get_args(Order)
MODES: tuple[Mode, ...] = get_args(Mode)
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
PLACINGS: tuple[Placing, ...] = get_args(Placing)
"""``PLACEMENTS``, which go by free GPUs of servers, and FGD (``fragmentation``)."""
LOCALITIES: tuple[Locality, ...] = get_args(Locality)
RUN_TIMES: tuple[RunTimes, ...] = get_args(RunTimes)
SHARES: tuple[Share, ...] = get_args(Share)
TYPE_CHOICES: tuple[TypeChoice, ...] = get_args(TypeChoice)
VICTIMS: tuple[Victims, ...] = get_args(Victims)
PREEMPTIVE: tuple[Order, ...] = ("srtf", "srsf", "las", "tiresias", "spot", "gittins", "learned")
QUEUED: tuple[Order, ...] = ("las", "tiresias", "gittins")
"""Orders with queues by attained service."""
LEARNING: tuple[Order, ...] = ("qssf", "learned", "learned-once")
"""Orders that go by the jobs that have ended earlier in the same schedule."""
LEARNED: tuple[Order, ...] = ("learned", "learned-once")
"""Orders with a trained network."""
SHARING: tuple[Order, ...] = ("drf", "group-fairness")
"""Orders of groups, and of jobs inside them."""
FAIR: tuple[Order, ...] = ("fairness", "group-fairness")
"""Orders by waits over run times."""
CLAIRVOYANT: tuple[Order, ...] = (
    "sjf", "spf", "tetris", "srtf", "srsf", "sjf-narrow", "lpf", "f1", *FAIR
)  # fmt: skip
COMMITTING: tuple[Order, ...] = (
    "fifo", "lifo", "sjf", "sjf-narrow", "lpf", "lrf", "spf", "f1", "edf", "priority"
)  # fmt: skip
"""Orders by a fixed number of each job, which ``commit`` is made for."""

WEIGHING: tuple[Order, ...] = ("tetris", "f1")
"""Orders that weigh numbers of GPUs against something else."""

ORDER_NEEDS: dict[Order, tuple[str, ...]] = {
    "edf": ("time_to_deadline",),
    "priority": ("priority",),
    "spot": ("priority",),
}
"""Columns that a table must have for an order, beyond those that all need."""

QUEUE_THRESHOLD = 30_000
"""GPU-seconds of service after which Tiresias demotes a job, as in MLFS' baseline."""

DECADES = (60, 600, 6_000, 60_000, 600_000, 6_000_000)
"""Thresholds (GPU-seconds) of a LAS with a queue for each order of magnitude: where run times
spread over five of them, one threshold leaves most jobs in a queue with others of all lengths."""

LARGEST_OPTION = 2**30
LARGEST_PROMOTION = 2**20
MOST_THRESHOLDS = 7
"""Of ``tiresias``: its queues and the places in them share a number."""

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
      placement: one of ``PLACINGS``; decides nothing but recorded servers with locality ``any``.
      locality: one of ``LOCALITIES``.
      thresholds: ``QUEUED`` orders, GPU-seconds (increasing, at least 1) at which jobs change
        queues; of ``tiresias`` at most ``MOST_THRESHOLDS``.
      restart_s: orders that suspend jobs only, seconds of work that a suspension adds.
      checkpoint_s: likewise, seconds of a run between checkpoints: a suspension loses what was done
        since the last one, or since the run began; 0: nothing.
      run_times: one of ``RUN_TIMES``; whether orders and promises go by true run times or by the
        table's column ``estimate``; ``estimates`` for orders that do not suspend jobs only.
      share: one of ``SHARES``; what a group's quota is in proportion to.
      isolated: whether no group holds more than its quota; mode ``skip`` only.
      headroom_percent: ``spot`` with mode ``skip`` only, percent of the GPUs that are kept free for
        the largest priority.
      forecast_percent: likewise, in place of it: quantile of the rises of the largest priority's
        demand that is kept free for it (``demand``); 0: none is.
      forecast_window_s: length of the windows whose peaks of demand are known (s), of which 24 are
        a day.
      victims: one of ``VICTIMS``, ``spot`` only; which of the jobs of the lowest priority is
        suspended: the last in order, or the one that loses the least GPU time.
      promote_percent: ``tiresias`` only, percent of the time for which a job has held GPUs that it
        waits before it goes back to the first queue; 0: it never does. Suspensions are free then.
      type_choice: one of ``TYPE_CHOICES``; where GPUs have types, the kind of servers that a job
        takes: the first in the list on which it fits, or the one on which it runs fastest.
      least_speed_percent: where GPUs have types, a job takes none on which it runs at less than so
        many percent of its speed on the fastest that can hold it.

    Raises:
      JaxschedError: an unknown name, an option out of range, or options that contradict.
    """

    order: Order = "fifo"
    mode: Mode = "skip"
    placement: Placing = "pack"
    locality: Locality = "strict"
    thresholds: tuple[int, ...] = (QUEUE_THRESHOLD,)
    restart_s: Annotated[int, Bounds(0, LARGEST_OPTION)] = 0
    run_times: RunTimes = "true"
    share: Share = "equal"
    isolated: bool = False
    headroom_percent: Annotated[int, Bounds(0, 100)] = 0
    checkpoint_s: Annotated[int, Bounds(0, LARGEST_OPTION)] = 0
    forecast_percent: Annotated[int, Bounds(0, 100)] = 0
    forecast_window_s: Annotated[int, Bounds(1, LARGEST_OPTION)] = 3600
    victims: Victims = "last"
    promote_percent: Annotated[int, Bounds(0, LARGEST_PROMOTION)] = 0
    type_choice: TypeChoice = "listed"
    least_speed_percent: Annotated[int, Bounds(0, 100)] = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be replayed."""
        check(self, "rigid: ")
        self._check_combination()
        steps = self.thresholds
        if not isinstance(steps, tuple) or not all(_is_whole(step, 1) for step in steps):
            raise JaxschedError(
                f"rigid: thresholds are {describe_value(steps)}; accepted: a tuple of whole "
                f"numbers from 1 to {LARGEST_OPTION} (GPU-seconds)"
            )
        if list(steps) != sorted(set(steps)):
            raise JaxschedError(f"rigid: thresholds are {steps}; accepted: increasing numbers")
        if self.order == "tiresias" and len(steps) > MOST_THRESHOLDS:
            raise JaxschedError(
                f"rigid: order tiresias with {len(steps)} thresholds; accepted: at most "
                f"{MOST_THRESHOLDS}"
            )

    def _check_combination(self) -> None:
        """Refuse options that contradict each other."""
        if self.mode == "commit" and (self.order not in COMMITTING or self.isolated):
            given = "isolated groups" if self.isolated else f"order {self.order}"
            raise JaxschedError(
                f"rigid: {given} with mode commit; accepted: {', '.join(COMMITTING)}, no isolation"
            )
        if self.mode == "easy" and self.keeps_accounts:
            why = "suspends jobs" if self.preemptive else "knows no run times"
            raise JaxschedError(
                f"rigid: order {self.order} {why}, so mode easy has no meaning; accepted: "
                "block, skip"
            )
        if self.placement == "fgd" and not self.takes_shares:
            given = "locality any" if self.locality == "any" else f"order {self.order}"
            raise JaxschedError(
                f"rigid: placement fgd with {given}; accepted: locality strict and an order that "
                f"neither suspends jobs nor learns, but {', '.join(WEIGHING)}"
            )
        if self.order in ("tetris", "slowdown") and (self.mode, self.locality) != (
            "skip",
            "strict",
        ):
            raise JaxschedError(
                f"rigid: order {self.order} with mode {self.mode} and locality {self.locality}; "
                "accepted: skip and strict"
            )
        if self.keeps_accounts and (self.run_times == "estimates" or self.isolated):
            given = "run_times estimates" if self.run_times == "estimates" else "isolated groups"
            why = "suspends jobs" if self.preemptive else "knows no run times"
            raise JaxschedError(
                f"rigid: order {self.order} {why}, which {given} are not made for; "
                "accepted: an order that does not"
            )
        if (self.order == "fairness" or self.isolated) and self.mode != "skip":
            given = "isolated groups" if self.isolated else f"order {self.order}"
            raise JaxschedError(f"rigid: {given} with mode {self.mode}; accepted: skip")
        for field in ("headroom_percent", "forecast_percent"):
            if getattr(self, field) and (self.order, self.mode) != ("spot", "skip"):
                raise JaxschedError(
                    f"rigid: {field} with order {self.order} and mode {self.mode}; accepted: "
                    "spot and skip"
                )
        if self.headroom_percent and self.forecast_percent:
            raise JaxschedError(
                "rigid: headroom_percent with forecast_percent; accepted: one or the other"
            )
        if self.victims != "last" and self.order != "spot":
            raise JaxschedError(
                f"rigid: victims {self.victims} with order {self.order}; accepted: spot"
            )
        if self.promote_percent and self.order != "tiresias":
            raise JaxschedError(
                f"rigid: promote_percent with order {self.order}; accepted: tiresias"
            )
        if self.promote_percent and (self.restart_s or self.checkpoint_s):
            given = "restart_s" if self.restart_s else "checkpoint_s"
            raise JaxschedError(
                f"rigid: promote_percent with {given}: a job that is demoted sooner than its "
                f"suspension costs would never end; accepted: one or the other"
            )
        if self.checkpoint_s and not self.preemptive:
            raise JaxschedError(
                f"rigid: checkpoint_s with order {self.order}, which suspends nobody; accepted: "
                + ", ".join(PREEMPTIVE)
            )
        if self.order == "fairness" and self.isolated:
            raise JaxschedError(
                "rigid: order fairness with isolated groups; accepted: one or the other"
            )

    @property
    def preemptive(self) -> bool:
        """Whether running jobs are suspended for others."""
        return self.order in PREEMPTIVE

    @property
    def learns(self) -> bool:
        """Whether it goes by the jobs that have ended earlier in the same schedule."""
        return self.order in LEARNING

    @property
    def keeps_accounts(self) -> bool:
        """Whether a replay follows what running jobs have attained."""
        return self.preemptive or self.learns

    @property
    def takes_types(self) -> bool:
        """Whether it is made for GPUs of different types."""
        return not self.keeps_accounts and self.locality == "strict"

    @property
    def takes_shares(self) -> bool:
        """Whether it is made for shares of a GPU."""
        return self.takes_types and self.order not in WEIGHING

    @property
    def takes_outages(self) -> bool:
        """Whether it is made for servers that fail, are drained or reserved."""
        return not self.keeps_accounts and self.mode != "commit" and self.order not in FAIR

    @property
    def knows(self) -> Knowledge:
        """What decisions use of how long jobs will run."""
        if self.order not in CLAIRVOYANT and self.mode != "easy":
            return "nothing"
        return self.knows_if_reserved

    @property
    def knows_if_reserved(self) -> Knowledge:
        """The same where servers are reserved: who may start before that, run times tell."""
        return "run times" if self.run_times == "true" else "estimates"

    @property
    def clairvoyant(self) -> bool:
        """Whether decisions use the jobs' true run times, which real schedulers only estimate."""
        return self.knows == "run times"

    @property
    def shares_groups(self) -> bool:
        """Whether groups matter; the table's column ``group`` is then of use, though not needed."""
        return self.order in SHARING or self.isolated

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns that a table must have beyond submission, GPUs and run time."""
        estimates = ("estimate",) if self.knows == "estimates" else ()
        return estimates + ORDER_NEEDS.get(self.order, ())


def _is_whole(value: object, least: int) -> bool:
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return least <= value <= LARGEST_OPTION
