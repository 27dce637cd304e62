"""A plain event loop for rigid jobs, written from the rules of ``jaxsched.trace_replay`` alone.

Everything is Python numbers, lists and dictionaries; nothing is shared with the library. A job is a
tuple ``(submit, gpus, duration, group, estimate, time to deadline, priority)``, of which the last
four may be missing; jobs come in order of submission. Servers of different sizes are a list of
``(servers, GPUs of each, GPUs of the largest job)`` in place of a size.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

NO_DEADLINE = 2**31 - 1


class Job(NamedTuple):
    submit: int
    gpus: int
    duration: int
    group: int = 0
    estimate: int = 0
    time_to_deadline: int = NO_DEADLINE
    priority: int = 0


class Result(NamedTuple):
    start: int
    end: int
    num_servers: int
    first_server: int
    preemptions: int


def fits(free, gpus, size, locality):
    """Whether a job fits, given the free GPUs of each server."""
    if locality == "any":
        return sum(free) >= gpus
    if isinstance(size, list):
        return any(fits_kind(free, gpus, kind) for kind in size_slices(size))
    if gpus <= size:
        return any(f >= gpus for f in free)
    whole, rest = divmod(gpus, size)
    empty = [s for s, f in enumerate(free) if f == size]
    if len(empty) < whole:
        return False
    others = [f for s, f in enumerate(free) if s not in empty[:whole]]
    return rest == 0 or any(f >= rest for f in others)


def size_slices(kinds):
    """First server, first server behind, GPUs of each and of the largest job of each kind."""
    ends = [sum(kind[0] for kind in kinds[: k + 1]) for k in range(len(kinds))]
    return [
        (end - count, end, size, largest)
        for end, (count, size, largest) in zip(ends, kinds, strict=True)
    ]


def fits_kind(free, gpus, kind):
    first, behind, size, largest = kind
    return gpus <= largest and fits(free[first:behind], gpus, size, "strict")


def choose(free, gpus, size, locality, placement):
    """Where a job goes that fits: GPUs by server."""
    taken = {}
    if locality == "any":
        left = gpus
        while left:
            able = [s for s, f in enumerate(free) if s not in taken and f >= left]
            if able:
                server = min(able, key=lambda s: (free[s], s))
                taken[server] = left
            else:
                others = [s for s in range(len(free)) if s not in taken]
                server = max(others, key=lambda s: (free[s], -s))
                taken[server] = free[server]
            left -= taken[server]
        return taken
    if isinstance(size, list):
        kind = next(kind for kind in size_slices(size) if fits_kind(free, gpus, kind))
        first, behind, own, _ = kind
        found = choose(free[first:behind], gpus, own, locality, placement)
        return {first + server: taken for server, taken in found.items()}
    whole, rest = divmod(gpus, size)
    if whole:
        empty = [s for s, f in enumerate(free) if f == size]
        taken = dict.fromkeys(empty[:whole], size)
    if rest:
        able = [s for s, f in enumerate(free) if f >= rest and s not in taken]
        if placement == "pack":
            server = min(able, key=lambda s: (free[s], s))
        elif placement == "first_fit":
            server = min(able)
        else:
            server = min(able, key=lambda s: (-free[s], s))
        taken[server] = rest
    return taken


EDGES = [30 * 2**k for k in range(16)]


def logarithm(x):
    """The largest ``k`` with ``2 ** (k / 8) <= x``; 0 for 0."""
    return max(0, (x**8).bit_length() - 1)


class History:
    """What is known of the jobs of four scopes that have ended: dictionaries of plain numbers."""

    def __init__(self, jobs):
        self.jobs, self.rows = jobs, {}
        self.rates = {"all": 256, "owner": 64, "size": 128, "stream": 16}

    def scopes(self, j):
        job = self.jobs[j]
        own = {"all": 0, "owner": job.group, "size": job.gpus, "stream": (job.group, job.gpus)}
        return own.items()

    def before(self, j, scope):
        return [other for other in range(j) if scope in self.scopes(other)]

    def end(self, j):
        duration = self.jobs[j].duration
        log = 64 * logarithm(duration)
        for scope in self.scopes(j):
            row = self.rows.setdefault(
                scope,
                {
                    "ended": 0,
                    "fast": 5632,
                    "slow": 5632,
                    "spread": 1024,
                    "mean": 2048,
                    "newest": -1,
                    "log": 5632,
                    "shares": [2**15 // 17] * 17,
                },
            )
            row["ended"] += 1
            rate = min(row["ended"], self.rates[scope[0]])
            row["spread"] += (abs(log - row["slow"]) - row["spread"]) // rate
            row["fast"] += (log - row["fast"]) // min(row["ended"], 3)
            row["slow"] += (log - row["slow"]) // rate
            row["mean"] += (duration - row["mean"]) // rate
            bin_ = sum(duration > edge for edge in EDGES)
            row["shares"] = [
                share + (2**15 * (k == bin_) - share) // rate
                for k, share in enumerate(row["shares"])
            ]
            number = len(self.before(j, scope))
            if number > row["newest"]:
                row["newest"], row["log"] = number, log

    def known(self, j):
        """Rows of the four scopes; of the one before where nothing has ended."""
        nothing = {
            "fast": 5632,
            "slow": 5632,
            "spread": 1024,
            "mean": 2048,
            "log": 5632,
            "shares": [2**15 // 17] * 17,
        }
        found = []
        for scope in self.scopes(j):
            found.append(self.rows.get(scope, found[-1] if found else nothing))
        return found

    def features(self, j, rest):
        job, traits, columns = self.jobs[j], [], []
        for scope, row in zip(self.scopes(j), self.known(j), strict=True):
            before = self.before(j, scope)
            own = self.rows.get(scope, {"ended": 0, "newest": -1})
            gap = job.submit - self.jobs[before[-1]].submit if before else 2**30 - 1
            traits.append((logarithm(len(before) + 1), logarithm(gap + 1)))
            columns += [
                logarithm(own["ended"] + 1),
                logarithm(len(before) - own["ended"] + 1),
                row["fast"],
                row["slow"],
                row["spread"],
                row["log"],
                logarithm(len(before) - own["newest"]),
                *row["shares"],
            ]
        numbers, gaps = zip(*traits, strict=True)
        seconds = [logarithm(value + 1) for value in rest]
        return [logarithm(job.gpus), *numbers, *gaps, *columns, *seconds]


def quotas(jobs, total, share, isolated):
    """GPUs of each group, by the method of largest remainders."""
    groups = sorted({job.group for job in jobs})
    weights = dict.fromkeys(groups, 1)
    if share == "work":
        weights = {g: sum(j.gpus * j.duration for j in jobs if j.group == g) for g in groups}
    exact = {g: Fraction(weights[g] * total, sum(weights.values())) for g in groups}
    given = {g: int(exact[g]) for g in groups}
    for g in sorted(groups, key=lambda g: (given[g] - exact[g], g))[: total - sum(given.values())]:
        given[g] += 1
    largest = {g: max(j.gpus for j in jobs if j.group == g) for g in groups}
    return {g: max(given[g], 1, largest[g] if isolated else 0) for g in groups}


class Simulation:
    """One replay; ``run`` gives a ``Result`` per job."""

    def __init__(self, jobs, num_servers, size, policy, score=None):
        """``score``: from a job's GPUs, submission and features to its levels (``learned``)."""
        self.history = History([Job(*job) for job in jobs])
        self.score_job, self.rows, self.features = score, {}, {}
        self.jobs, self.size, self.policy = [Job(*job) for job in jobs], size, policy
        mixed = isinstance(size, list)
        sizes = [each for count, each, _ in size for _ in range(count)] if mixed else None
        self.sizes = sizes or [size] * num_servers
        self.free = list(self.sizes)
        self.quota = quotas(self.jobs, sum(self.sizes), policy.share, policy.isolated)
        estimated = policy.run_times == "estimates"
        self.believed = [job.estimate if estimated else job.duration for job in self.jobs]
        self.waiting = []
        self.running = {}  # job -> GPUs by server
        self.end, self.since, self.first = {}, {}, {}
        self.left = [job.duration for job in self.jobs]
        self.served = [0] * len(self.jobs)  # seconds, at the last suspension
        self.suspended = [0] * len(self.jobs)
        self.place, self.time = {}, 0
        self.leaving = []  # running jobs that are to make way at this instant
        self.chosen = {}  # waiting jobs that are to start at it -> GPUs by server
        self.standing = {}  # job -> how and when it came to its place in Tiresias' queue
        self.forgiven, self.waited = [0] * len(self.jobs), [0] * len(self.jobs)
        self.stopped = {}  # job -> when it was last suspended
        self.stops = []  # (job, begin, end) of runs that were cut
        self.demand = [(0, 0)]  # (time, GPUs that jobs of the largest priority hold)
        self.promises = {}  # job -> times it was promised
        self.all_gpus = sum(job.gpus for job in self.jobs)
        self.all_work = sum(
            job.gpus * believed for job, believed in zip(self.jobs, self.believed, strict=True)
        )

    def run(self):
        arrived = 0
        while arrived < len(self.jobs) or self.running or self.waiting:
            events = [self.end[j] for j in self.running]
            events += [time for j in self.running for time in self.crossings(j)]
            events += [self.due(j) for j in self.waiting if self.due(j) is not None]
            if arrived < len(self.jobs):
                events.append(self.jobs[arrived].submit)
            self.time = min(events)
            for j in sorted(j for j in self.running if self.end[j] == self.time):
                self.release(j)
                self.history.end(j)
            for j in self.waiting:
                if self.due(j) is not None and self.due(j) <= self.time:
                    self.forgiven[j], self.waited[j] = self.served[j], 0
                    self.standing[j] = "came", self.time
            for j in self.running:
                if self.time in self.queue_changes(j):
                    self.standing[j] = "moved", self.time
            while arrived < len(self.jobs) and self.jobs[arrived].submit == self.time:
                self.look(arrived)
                self.standing[arrived] = "came", self.time
                self.waiting.append(arrived)
                arrived += 1
            self.demand.append((self.time, self.largest_demand()))
            while self.waiting and self.decide():
                self.check()
                self.demand.append((self.time, self.largest_demand()))
        return [
            Result(
                self.first[j],
                self.end[j],
                len(self.place[j]),
                min(self.place[j]),
                self.suspended[j],
            )
            for j in range(len(self.jobs))
        ]

    def check(self):
        held = [size - f for size, f in zip(self.sizes, self.free, strict=True)]
        for places in self.running.values():
            for server, gpus in places.items():
                held[server] -= gpus
        assert not any(held)
        assert all(0 <= f <= size for size, f in zip(self.sizes, self.free, strict=True))

    # Orders

    def service(self, j):
        now = self.time - self.since[j] if j in self.running else 0
        return self.served[j] + now

    def look(self, j):
        """What orders that learn take from the history when a job is submitted."""
        job, order = self.jobs[j], self.policy.order
        if order == "qssf":
            self.rows[j] = [job.gpus * self.history.known(j)[-1]["mean"]]
        elif order in ("learned", "learned-once"):
            siblings = [
                other
                for other in self.running
                if self.jobs[other].gpus == job.gpus and self.jobs[other].group == job.group
            ]
            attained = [0, 0]
            if siblings:
                attained = [self.service(max(siblings)), *map(self.service, siblings)]
            self.features[j] = self.history.features(
                j, [len(siblings), attained[0], max(attained[1:]), len(self.waiting)]
            )
            self.rows[j] = self.score_job(job, self.features[j])

    def index(self, j):
        """The order of a job's queue by Gittins' index, from services of the first 60 %."""
        fitted = self.jobs[: max(1, int(0.6 * len(self.jobs)))]
        services = [job.gpus * job.duration for job in fitted]
        found = []
        for begin in (0, *self.policy.thresholds):
            alive = [service for service in services if service > begin]
            spans = [step for step in (*self.policy.thresholds, max(services)) if step > begin]
            rates = [
                Fraction(
                    sum(service <= step for service in alive),
                    sum(min(service, step) - begin for service in alive),
                )
                for step in spans
                if alive
            ]
            found.append(max(rates, default=Fraction(0)))
        return sum(other > found[self.queue(j)] for other in set(found))

    def due(self, j):
        """When a waiting job is promoted to the first queue; None: never."""
        attained = self.served[j] - self.forgiven[j]
        percent = self.policy.promote_percent
        if not percent or not attained or self.queue(j) == 0:
            return None
        stopped = self.stopped[j]
        return stopped + max(attained * percent // 100 - self.waited[j], 1)

    def place_in_queue(self, j):
        """Running jobs, then suspended ones, then those that came; sorts as they are served."""
        how, when = self.standing[j]
        if how == "moved" and (j not in self.running or when == self.time):
            how = "came"  # behind all who wait
        return {"runs": (0, when), "moved": (0, when), "stopped": (1, -when), "came": (2, when)}[
            how
        ]

    def queue(self, j):
        served = (self.service(j) - self.forgiven[j]) * self.jobs[j].gpus
        return sum(served >= threshold for threshold in self.policy.thresholds)

    def crossings(self, j):
        """Later times at which a running job changes queue."""
        return [time for time in self.queue_changes(j) if time > self.time]

    def queue_changes(self, j):
        """Times at which a job changes queue if it goes on running."""
        if self.policy.order not in ("las", "tiresias", "gittins", "learned"):
            return []
        gpus = self.jobs[j].gpus
        if self.policy.order == "learned":
            return [self.since[j] - self.served[j] + edge for edge in EDGES]
        return [
            self.since[j] - self.served[j] + self.forgiven[j] + -(-threshold // gpus)
            for threshold in self.policy.thresholds
        ]

    def rank(self, j):
        job, order = self.jobs[j], self.policy.order
        if order in ("srtf", "srsf"):
            left = self.end[j] - self.time if j in self.running else self.left[j]
            return left if order == "srtf" else min(left * job.gpus, 2**30), j
        keys = {
            "fifo": lambda: 0,
            "sjf": lambda: self.believed[j],
            "lrf": lambda: job.gpus,
            "spf": lambda: job.gpus * self.believed[j],
            "drf": lambda: self.part_held(job.group),
            "group-fairness": lambda: min(
                self.fairness(other)
                for other in self.waiting
                if self.jobs[other].group == job.group
            ),
            "fairness": lambda: self.fairness(j),
            "edf": lambda: (
                job.submit + job.time_to_deadline
                if job.time_to_deadline < NO_DEADLINE
                else float("inf")
            ),
            "tetris": lambda: -self.score(j),
            "las": lambda: self.queue(j),
            "tiresias": lambda: (self.queue(j), *self.place_in_queue(j)),
            "gittins": lambda: self.index(j),
            "qssf": lambda: self.rows[j][0],
            "learned-once": lambda: self.rows[j][0],
            "learned": lambda: self.rows[j][sum(self.service(j) >= edge for edge in EDGES)],
            "priority": lambda: -job.priority,
            "spot": lambda: -job.priority,
        }
        return keys[order](), j

    def fairness(self, j):
        return -np.float32(self.time - self.jobs[j].submit) / np.float32(self.believed[j])

    def held(self, group):
        return sum(self.jobs[j].gpus for j in self.running if self.jobs[j].group == group)

    def part_held(self, group):
        if self.policy.share == "equal":
            return self.held(group)
        return self.held(group) * 2**15 // self.quota[group]

    def score(self, j):
        job = self.jobs[j]
        places = choose(self.free, job.gpus, self.size, "strict", self.policy.placement)
        alignment = sum(gpus * self.free[server] for server, gpus in places.items())
        unit = max(1, round(max(self.sizes) * (self.all_gpus / len(self.jobs))))
        work = 1000 * job.gpus * self.believed[j] * len(self.jobs) // self.all_work
        return 1000 * alignment // unit - min(work, 2**30)

    # Decisions

    def fits_now(self, j):
        job = self.jobs[j]
        if self.policy.isolated and self.held(job.group) + job.gpus > self.quota[job.group]:
            return False
        return fits(self.free, job.gpus, self.size, self.policy.locality)

    def decide(self):
        """Take one decision; False if there is none to take."""
        if self.policy.order in (
            "srtf",
            "srsf",
            "las",
            "tiresias",
            "spot",
            "gittins",
            "learned",
        ):
            return self.settle()
        if self.policy.mode == "skip":
            able = [j for j in self.waiting if self.fits_now(j)]
            return bool(able) and self.start(min(able, key=self.rank))
        head = min(self.waiting, key=self.rank)
        if self.fits_now(head):
            return self.start(head)
        if self.policy.mode == "block":
            return False
        promised, then_free = self.promise(self.jobs[head].gpus)
        self.promises.setdefault(head, []).append(promised)
        able = [
            j
            for j in self.waiting
            if self.fits_now(j)
            and (
                self.time + self.believed[j] <= promised
                or self.fits_beside(self.jobs[head].gpus, j, then_free)
            )
        ]
        return bool(able) and self.start(min(able, key=self.rank))

    def promise(self, gpus):
        """When a job will fit if nobody else starts, and what each server has free then."""
        ends = {j: self.expected_end(j) for j in self.running}
        for time in sorted({self.time, *ends.values()}):
            free = list(self.free)
            for j in self.running:
                if ends[j] <= time:
                    for server, held in self.running[j].items():
                        free[server] += held
            if fits(free, gpus, self.size, self.policy.locality):
                return time, free
        raise AssertionError("the job does not fit the cluster")

    def expected_end(self, j):
        if self.policy.run_times == "true":
            return self.end[j]
        return max(self.since[j] + self.believed[j], self.time + 1)

    def fits_beside(self, gpus, j, then_free):
        """Whether a job would fit at the time of its promise with job ``j`` started now."""
        policy, free = self.policy, list(then_free)
        places = choose(self.free, self.jobs[j].gpus, self.size, policy.locality, policy.placement)
        for server, taken in places.items():
            free[server] -= taken
        return fits(free, gpus, self.size, policy.locality)

    def settle(self):
        """Who runs at this instant is settled before anybody is suspended; False if all do.

        Walk the order. A waiting job is chosen if it fits once all running jobs after it are gone;
        of those only as many make way as it takes, and whoever still finds its own GPUs free when
        everybody before it has been served goes on as if nothing had been.
        """
        acts = False
        while True:
            ranks = {j: self.rank(j) for j in (*self.waiting, *self.running)}
            first = self.first_to_run(ranks)
            leaving = sorted(self.leaving, key=ranks.get)
            if leaving and (first is None or ranks[leaving[0]] < ranks[first]):
                self.leaving.remove(leaving[0])
                self.suspend(leaving[0])
                acts = True
            elif first is None:
                break
            elif not self.leaving and not self.chosen and self.fits_now(first):
                return self.start(first)
            else:
                self.choose_to_run(first, ranks)
        for j, places in list(self.chosen.items()):
            del self.chosen[j]
            self.start(j, places if self.policy.locality == "strict" else None)
            acts = True
        return acts

    def open_gpus(self, more=()):
        """GPUs of each server that neither those who stay nor chosen jobs have."""
        free = list(self.free)
        for j in (*self.leaving, *more):
            for server, gpus in self.running[j].items():
                free[server] += gpus
        for places in self.chosen.values():
            for server, gpus in places.items():
                free[server] -= gpus
        return free

    def after(self, j, ranks):
        """Running jobs after a waiting one that have not been told to make way."""
        last = (ranks[j][0], float("inf")) if self.policy.order == "spot" else ranks[j]
        return [k for k in self.running if k not in self.leaving and ranks[k] > last]

    def first_to_run(self, ranks):
        """The first waiting job that is not chosen and could run; in mode block only the first."""
        able = [j for j in self.waiting if j not in self.chosen and not self.has_to_leave_room(j)]
        able.sort(key=ranks.get)
        for j in able[:1] if self.policy.mode == "block" else able:
            free = self.open_gpus(self.after(j, ranks))
            if self.fits_in(free, self.jobs[j].gpus):
                return j
        return None

    def fits_in(self, free, gpus):
        return fits(free, gpus, self.size, self.policy.locality)

    def choose_to_run(self, j, ranks):
        gpus, locality = self.jobs[j].gpus, self.policy.locality
        while not self.fits_in(self.open_gpus(), gpus):
            later = self.after(j, ranks)
            servers = set(range(len(self.free)))
            if locality == "strict":
                servers = self.to_clear(gpus, self.open_gpus(later))
            if self.policy.victims == "waste":
                victim = self.least_wasteful(later, gpus, servers, ranks)
            else:
                on_them = [other for other in later if servers & set(self.running[other])]
                victim = max(on_them, key=ranks.get)
            self.leaving.append(victim)
        # with locality any, the servers are chosen when it starts; until then GPUs are counted
        places = {0: gpus}
        if locality == "strict":
            free = self.open_gpus()
            places = choose(free, gpus, self.size, locality, self.policy.placement)
        self.chosen[j] = places
        self.demand.append((self.time, self.largest_demand()))
        for other in sorted(self.leaving, key=lambda k: self.keeping_order(k, ranks)):
            free, own = self.open_gpus(), self.running[other]
            if locality == "any":
                is_left = sum(free) >= self.jobs[other].gpus
            else:
                is_left = all(free[server] >= held for server, held in own.items())
            if is_left:
                self.leaving.remove(other)

    def keeping_order(self, j, ranks):
        if self.policy.victims == "waste":
            return ranks[j][0], -self.waste(j), j
        return ranks[j]

    def waste(self, j):
        return self.jobs[j].gpus * (self.lost(j) + self.policy.restart_s)

    def running_then(self):
        """Jobs that will run once the instant is over, as far as it is settled."""
        return [*(j for j in self.running if j not in self.leaving), *self.chosen]

    def has_to_leave_room(self, j):
        """Whether a spot job would take GPUs that are kept free."""
        if self.is_largest(j) or not self.running_then():
            return False
        all_gpus = sum(self.sizes)
        kept = self.policy.headroom_percent * all_gpus / 100
        left = sum(self.open_gpus())
        if self.policy.forecast_percent:
            spot = sum(self.jobs[k].gpus for k in self.running_then() if not self.is_largest(k))
            kept = self.forecast() - (all_gpus - left - spot)
        return kept > 0 and left - self.jobs[j].gpus < kept

    def is_largest(self, j):
        return self.jobs[j].priority == max(job.priority for job in self.jobs)

    def largest_demand(self):
        return sum(self.jobs[j].gpus for j in self.running_then() if self.is_largest(j))

    def peak(self, window):
        """The largest demand at any second of a window, as far as it has passed."""
        length = self.policy.forecast_window_s
        times = range(window * length, min((window + 1) * length, self.time + 1))
        known = [[gpus for at, gpus in self.demand if at <= time] for time in times]
        return max((demand[-1] for demand in known if demand), default=0)

    def rise(self, window):
        """From the demand just before a window to the peak in it and the next one."""
        begin = window * self.policy.forecast_window_s
        before = [gpus for at, gpus in self.demand if at < begin] or [0]
        return max(0, self.peak(window) - before[-1], self.peak(window + 1) - before[-1])

    def forecast(self):
        now = self.time // self.policy.forecast_window_s
        days = [now - 24 * day for day in range(1, 8) if now - 24 * day >= 0]
        rises = sorted(self.rise(window) for window in (now - 1, *days))
        rank = -(-self.policy.forecast_percent * len(rises) // 100)
        return self.largest_demand() + rises[max(rank, 1) - 1]

    def to_clear(self, gpus, available):
        suited = self.clearable(gpus, available)
        free = self.open_gpus()
        most = max(free[s] for s in suited)
        return {s for s in suited if free[s] == most}

    def clearable(self, gpus, available):
        needed, first, behind = self.needed(gpus, available)
        free = self.open_gpus()
        return [s for s in range(first, behind) if free[s] < needed <= available[s]]

    def needed(self, gpus, available):
        """Free GPUs that a job needs of one server next, and from where to where to look."""
        kinds = [(0, len(self.free), self.size, gpus)]
        if isinstance(self.size, list):
            kinds = size_slices(self.size)
        first, behind, size, _ = next(kind for kind in kinds if fits_kind(available, gpus, kind))
        whole, rest = divmod(gpus, size)
        needed = size if self.open_gpus()[first:behind].count(size) < whole else rest
        return needed, first, behind

    def lost(self, j):
        """Seconds that a running job would lose."""
        interval = self.policy.checkpoint_s
        return (self.time - self.since[j]) % interval if interval else 0

    def least_wasteful(self, later, gpus, servers, ranks):
        """The job to suspend, and for strict locality first the server."""

        def by_waste(jobs):
            return sorted(jobs, key=lambda j: (-ranks[j][0], self.waste(j), -j))

        if self.policy.locality == "any":
            return by_waste(later)[0]
        costs, opened = {}, self.open_gpus()
        available = self.open_gpus(later)
        for server in self.clearable(gpus, available):
            free, costs[server] = opened[server], 0
            for j in by_waste(j for j in later if server in self.running[j]):
                if free < self.needed(gpus, available)[0]:
                    free += self.running[j][server]
                    costs[server] += self.waste(j)
        chosen = min(costs, key=lambda server: (costs[server], -opened[server], server))
        return by_waste(j for j in later if chosen in self.running[j])[0]

    # Changes

    def start(self, j, places=None):
        gpus, policy = self.jobs[j].gpus, self.policy
        if places is None:
            places = choose(self.free, gpus, self.size, policy.locality, policy.placement)
        self.place[j] = places
        for server, gpus in self.place[j].items():
            self.free[server] -= gpus
        self.waiting.remove(j)
        self.running[j] = self.place[j]
        if self.served[j] > self.forgiven[j]:
            self.waited[j] += self.time - self.stopped[j]
        self.standing[j] = "runs", self.time
        self.since[j] = self.time
        self.first.setdefault(j, self.time)
        self.end[j] = self.time + self.left[j]
        return True

    def release(self, j):
        for server, gpus in self.running.pop(j).items():
            self.free[server] += gpus

    def suspend(self, j):
        self.stops.append((j, self.since[j], self.time))
        self.left[j] = self.end[j] - self.time + self.policy.restart_s + self.lost(j)
        self.served[j] = self.service(j)
        self.suspended[j] += 1
        self.stopped[j] = self.time
        if self.standing[j] != ("moved", self.time):
            self.standing[j] = "stopped", self.time
        self.release(j)
        self.waiting.append(j)


def simulate(jobs, num_servers, size, policy, score=None):
    """What becomes of each job under the policy (an object with the fields of ``Policy``)."""
    return Simulation(jobs, num_servers, size, policy, score).run()
