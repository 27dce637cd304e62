"""A plain event loop for GPUs of different types, written from the rules alone.

Python numbers, lists and dictionaries; nothing is shared with the library. A job is a dictionary
with ``submit``, ``gpus``, ``duration``, ``group``, ``estimate`` and ``speeds`` (type ->
thousandths, 0: not there). Kinds of servers are ``(servers, GPUs of each, GPUs of the largest
job, type)``; behind the type what each has besides, such as CPUs (0: no limit), of which jobs have
a ``demand``, thousandths for a GPU. What is free of a server is a tuple: GPUs, then thousandths.
"""

from fractions import Fraction
from math import ceil
from types import SimpleNamespace

from tests.trace_replay.oracle import choose, quotas


def shown(jobs, kinds, policy):
    """``(start, end, servers, first server)`` of each job under the policy's rules."""
    return Loop(jobs, kinds, policy).run()


class Loop:
    """One replay without suspension, instant by instant (mode ``commit``: event by event)."""

    def __init__(self, jobs, kinds, policy):
        self.jobs, self.policy = jobs, policy
        self.servers = []  # (kind, GPUs)
        for number, (count, gpus, *_) in enumerate(kinds):
            self.servers += [(number, gpus)] * count
        self.limits = [[1000 * limit or 10**15 for limit in kind[4:]] for kind in kinds]
        self.kinds = kinds
        self.free = [self.idle(kind) for kind, _ in self.servers]
        rows = [SimpleNamespace(**job) for job in jobs]
        total = sum(gpus for _, gpus in self.servers)
        self.quota = quotas(rows, total, policy.share, policy.isolated)
        self.time, self.waiting, self.running, self.found = 0, [], {}, {}

    def idle(self, kind):
        """What is free of a server of a kind on which nobody runs."""
        return self.kinds[kind][1], *self.limits[kind]

    def speed(self, j, kind):
        """Of a job on a kind, 0 where it never runs."""
        count, gpus, largest, name, *_ = self.kinds[kind]
        wanted = self.jobs[j]["gpus"]
        if wanted > min(largest, count * gpus):
            return 0
        if self.usable(j, self.idle(kind)) < min(wanted, gpus):
            return 0
        return self.jobs[j]["speeds"][name]

    def usable(self, j, free):
        """The GPUs that a job could use of what is free of a server."""
        needs = zip(free[1:], self.jobs[j].get("demand", ()), strict=False)
        return min([free[0], *(left // need for left, need in needs if need)])

    def after(self, free, j, taken, sign):
        """What is free of servers once a job leaves (1) its GPUs or takes (-1) them."""
        needs = (1, *self.jobs[j].get("demand", (0,) * len(self.limits[0])))
        return [
            tuple(left + sign * taken.get(s, 0) * need for left, need in zip(f, needs, strict=True))
            for s, f in enumerate(free)
        ]

    def best(self, j):
        return max(self.speed(j, kind) for kind in range(len(self.kinds)))

    def order_of_kinds(self, j):
        least = Fraction(self.policy.least_speed_percent, 100) * self.best(j)
        may = [k for k in range(len(self.kinds)) if self.speed(j, k) and self.speed(j, k) >= least]
        if self.policy.type_choice == "fastest":
            may.sort(key=lambda kind: -self.speed(j, kind))
        return may

    def places(self, j, free):
        """``(kind, GPUs by server)`` of a job, None where it does not fit."""
        gpus, free = self.jobs[j]["gpus"], [self.usable(j, f) for f in free]
        if self.policy.locality == "any":
            return (0, choose(free, gpus, 0, "any", "")) if sum(free) >= gpus else None
        for kind in self.order_of_kinds(j):
            size = self.kinds[kind][1]
            own = [s for s, (other, _) in enumerate(self.servers) if other == kind]
            whole, rest = divmod(gpus, size)
            taken = {s: size for s in [s for s in own if free[s] == size][:whole]}
            if len(taken) < whole:
                continue
            if rest:
                able = [s for s in own if s not in taken and free[s] >= rest]
                if not able:
                    continue
                weight = {"pack": 1, "first_fit": 0, "load_balance": -1}[self.policy.placement]
                taken[min(able, key=lambda s: (weight * free[s], s))] = rest
            return kind, taken
        return None

    def seconds(self, j, kind, column="duration"):
        return ceil(Fraction(1000 * self.jobs[j][column], self.speed(j, kind)))

    def believed(self, j):
        column = "estimate" if self.policy.run_times == "estimates" else "duration"
        return self.jobs[j][column]

    def key(self, j):
        run, gpus = self.believed(j), self.jobs[j]["gpus"]
        match self.policy.order:
            case "sjf":
                return run
            case "spf":
                return run * gpus
            case "lrf":
                return gpus
            case "drf":
                group = self.jobs[j]["group"]
                return sum(self.jobs[i]["gpus"] for i in self.running
                           if self.jobs[i]["group"] == group)  # fmt: skip
            case "tetris":
                _, taken = self.places(j, self.free)
                unit = round(max(g for _, g in self.servers)
                             * sum(job["gpus"] for job in self.jobs) / len(self.jobs))  # fmt: skip
                aligned = sum(own * self.free[s][0] for s, own in taken.items())
                work = sum(job["gpus"] * job["duration"] for job in self.jobs)
                return 1000 * len(self.jobs) * gpus * run // work - 1000 * aligned // max(unit, 1)
            case "slowdown":
                kind, _ = self.places(j, self.free)
                return ceil(Fraction(1000 * self.best(j), self.speed(j, kind)))
        return 0

    def start(self, j):
        kind, taken = self.places(j, self.free)
        self.free = self.after(self.free, j, taken, -1)
        end = self.time + self.seconds(j, kind)
        self.waiting.remove(j)
        self.running[j] = end, taken, self.time, kind
        self.found[j] = self.time, end, len(taken), min(taken)

    def release(self, j):
        self.free = self.after(self.free, j, self.running.pop(j)[1], 1)

    def fitting(self):
        return [j for j in self.waiting if self.places(j, self.free) and self.may_hold(j)]

    def may_hold(self, j):
        """Whether the job's group keeps its quota."""
        group, gpus = self.jobs[j]["group"], self.jobs[j]["gpus"]
        held = sum(self.jobs[i]["gpus"] for i in self.running if self.jobs[i]["group"] == group)
        return not self.policy.isolated or held + gpus <= self.quota[group]

    def first(self, jobs):
        return min(jobs, key=lambda j: (self.key(j), j))

    def expected_end(self, i):
        end, _, begun, kind = self.running[i]
        if self.policy.run_times == "true":
            return end
        column = "estimate"
        return max(begun + self.seconds(i, kind, column), self.time + 1)

    def free_at(self, moment):
        """What is free of servers at a moment, as it is expected."""
        free = self.free
        for i in self.running:
            if self.expected_end(i) <= moment:
                free = self.after(free, i, self.running[i][1], 1)
        return free

    def decide(self):
        """Start one job; whether there was one."""
        mode = self.policy.mode
        if mode == "skip":
            able = self.fitting()
            if able:
                self.start(self.first(able))
            return bool(able)
        head = self.first(self.waiting)
        if self.places(head, self.free):
            self.start(head)
            return True
        if mode == "block":
            return False
        promised = None
        for moment in sorted({self.expected_end(i) for i in self.running}):
            free = self.free_at(moment)
            if self.places(head, free):
                promised = moment
                break
        allowed = []
        for j in self.fitting():
            kind, taken = self.places(j, self.free)
            column = "estimate" if self.policy.run_times == "estimates" else "duration"
            beside = self.after(free, j, taken, -1)
            if self.time + self.seconds(j, kind, column) <= promised or self.places(head, beside):
                allowed.append(j)
        if allowed:
            self.start(self.first(allowed))
        return bool(allowed)

    def run(self):
        if self.policy.mode == "commit":
            return self.run_committed()
        coming = list(range(len(self.jobs)))
        while coming or self.waiting:
            events = [self.running[i][0] for i in self.running]
            events += [self.jobs[coming[0]]["submit"]] if coming else []
            self.time = min(events)
            for i in [i for i in self.running if self.running[i][0] == self.time]:
                self.release(i)
            while coming and self.jobs[coming[0]]["submit"] == self.time:
                self.waiting.append(coming.pop(0))
            while self.waiting and self.decide():
                pass
        return [self.found[j] for j in range(len(self.jobs))]

    def run_committed(self):
        coming = list(range(len(self.jobs)))

        def event():
            first = min(self.running, key=lambda i: self.running[i][0], default=None)
            if coming and (
                first is None or self.jobs[coming[0]]["submit"] <= self.running[first][0]
            ):
                self.waiting.append(coming.pop(0))
                self.time = max(self.time, self.jobs[self.waiting[-1]]["submit"])
            else:
                self.time = max(self.time, self.running[first][0])
                self.release(first)

        while coming or self.waiting:
            while not self.waiting:
                event()
            job = self.first(self.waiting)
            while not self.places(job, self.free):
                event()
            self.start(job)
        return [self.found[j] for j in range(len(self.jobs))]
