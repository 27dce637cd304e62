"""A slow, plain-Python Chic written from the specification alone (sections 2-9)."""

import math

NEEDS = [((1, 2, 8), (0, 3, 9)), ((1, 2, 10), (0, 4, 10)), ((1, 2, 10), (0, 3, 10))]
SPEED = [
    (23.0, 1.9, 1.3, 0.20, 0.42),
    (31.5, 2.1, 2.5, 0.56, 1.10),
    (17.0, 1.3, 0.65, 0.35, 0.56),
]
DEFAULTS = {
    "capacity": (10, 120, 600),
    "window": 3,
    "pair": False,
    "time_unit": 1200.0,
    "p1": 5.0,
    "p2": 1.0,
    "decision_seconds": 0.0,
    "max_decisions": 256,
    "stall_seconds": 1200.0,
    "stop_on_cond2": True,
    "stop_on_one": False,
    "void_outside": "ends",
    "penalty_once": False,
    "iter_scale": 100.0,
    "alloc_scale": 10.0,
    "backlog_scale": 10.0,
    "max_time": 1e7,
}


def seconds(model, w, p):
    """Seconds per iteration."""
    if w == 0 or p == 0:
        return math.inf
    a, b, c, d, e = SPEED[model]
    return a / w + b + c * w / p + d * w + e * p


def needs(model, w, p):
    worker, server = NEEDS[model]
    return [w * worker[k] + p * server[k] for k in range(3)]


def fits(need, free):
    return all(need[k] <= free[k] for k in range(3))


class Workload:
    """One row of the table."""

    def __init__(self, submit, model, iterations):
        self.submit, self.model, self.iterations = submit, model, iterations
        self.rem, self.w, self.p = iterations, 0, 0
        self.start = self.finish = None

    def g(self):
        return seconds(self.model, self.w, self.p)


class Chic:
    """The cluster, one decision at a time; ``rows`` are (submit, model, iterations)."""

    def __init__(self, rows, **options):
        self.__dict__.update(DEFAULTS | options)
        self.jobs = [Workload(*row) for row in sorted(rows, key=lambda row: row[0])]
        self.time = self.jobs[0].submit
        self.decisions = self.phases = self.steps = 0
        self.gpu_seconds = self.total = 0.0
        self.truncated = self.paid = False

    # The system

    def system(self):
        return [j for j in self.jobs if j.submit <= self.time and j.rem > 0]

    def rows(self):
        return self.system()[: self.window]

    def free(self):
        free = list(self.capacity)
        for job in self.jobs:
            used = needs(job.model, job.w, job.p)
            free = [free[k] - used[k] for k in range(3)]
        return free

    def kinds(self):
        """What one action gives, as (workers, PS)."""
        return [(1, 1)] if self.pair else [(1, 0), (0, 1)]

    def unit_fits(self, job, kind):
        return fits(needs(job.model, *kind), self.free())

    def finished(self):
        return all(j.rem == 0 for j in self.jobs)

    def done(self):
        return self.finished() or self.truncated

    def terminal(self):
        rows = self.rows()
        if not rows or self.decisions >= self.max_decisions:
            return True
        if not any(self.unit_fits(j, kind) for j in rows for kind in self.kinds()):
            return True
        if self.stop_on_one and any(self.used_up(rows, k) for k in range(3)):
            return True
        return self.stop_on_cond2 and all(self.settled(j) for j in rows)

    def used_up(self, rows, k):
        amounts = [needs(job.model, *kind)[k] for job in rows for kind in self.kinds()]
        return min(amount for amount in amounts if amount > 0) > self.free()[k]

    def settled(self, job):
        if job.w < 1 or job.p < 1:
            return False
        return all(
            seconds(job.model, job.w + w, job.p + p) >= job.g() - 1e-9 for w, p in self.kinds()
        )

    # What the agent sees

    def mask(self):
        units, rows, terminal = [], self.rows(), self.terminal()
        for place in range(self.window):
            for kind in self.kinds():
                there = place < len(rows)
                units.append(there and not terminal and self.unit_fits(rows[place], kind))
        return [*units, True]

    def observation(self):
        rows, values = self.rows(), []
        for place in range(self.window):
            if place < len(rows):
                job = rows[place]
                values += [float(job.model == m) for m in range(3)]
                values += [job.rem / self.iter_scale, job.w / self.alloc_scale]
                values += [] if self.pair else [job.p / self.alloc_scale]
            else:
                values += [0.0] * (5 if self.pair else 6)
        return [*values, (len(self.system()) - len(rows)) / self.backlog_scale]

    # Dynamics

    def step(self, action):
        """Reward, seconds that passed."""
        if self.done():
            return 0.0, 0.0
        before = self.time
        self.steps += 1
        void = not 0 <= action < self.window * len(self.kinds())
        trains = self.terminal() or (void and self.void_outside == "ends")
        reward = self.train() if trains else self.decide(None if void else action)
        self.total += reward
        return reward, self.time - before

    def decide(self, action):
        self.decisions += 1
        reward = 0.0 if action is None else self.give(*divmod(action, len(self.kinds())))
        if self.decision_seconds > 0:
            reward += self.cost(self.time + self.decision_seconds)
            self.time += self.decision_seconds
        return reward

    def give(self, place, kind):
        rows, reward = self.rows(), 0.0
        if place >= len(rows):
            reward = 0.0 if self.penalty_once and self.paid else -self.p1
            self.paid = True
        elif self.unit_fits(rows[place], self.kinds()[kind]):
            job = rows[place]
            w, p = self.kinds()[kind]
            had = (job.w, job.p)
            job.w, job.p = job.w + w, job.p + p
            if not self.pair:
                if had == (0, 0):
                    reward -= self.p2
                elif 0 in had and job.w and job.p:
                    reward += self.p2
        return reward

    def cost(self, end):
        """r1 from now to ``end``."""
        total = len(self.system()) * (end - self.time)
        total += sum(end - j.submit for j in self.jobs if self.time < j.submit <= end)
        return -total / self.time_unit

    def train(self):
        self.phases += 1
        self.paid = False
        rows = self.rows()
        trains = [j for j in rows if j.w >= 1 and j.p >= 1]
        duration = min((j.rem * j.g() for j in trains), default=math.inf)
        end = self.time + duration
        later = [j.submit for j in self.jobs if j.submit > self.time]
        if len(rows) < self.window and later and later[0] - self.time <= duration + 1e-2:
            duration, end = later[0] - self.time, later[0]
        if math.isinf(duration):
            duration, end = self.stall_seconds, self.time + self.stall_seconds
        ending = [j for j in trains if j.rem * j.g() <= duration + 1e-2]
        reward = self.cost(end)
        for job in trains:
            if job.start is None:
                job.start = self.time
            self.gpu_seconds += job.w * duration
            job.rem = max(job.rem - math.floor(duration / job.g() + 1e-4), 0)
            if job in ending:
                job.rem = 0
        for job in rows:
            if job.rem == 0:
                job.finish = end
        for job in self.jobs:
            job.w = job.p = 0
        self.time, self.decisions = end, 0
        self.truncated = not self.finished() and self.time >= self.max_time
        return reward

    # Rules

    def round_robin(self):
        mask, kinds = self.mask(), len(self.kinds())
        open_rows = [
            (job.w + job.p, place)
            for place, job in enumerate(self.rows())
            if any(mask[place * kinds : (place + 1) * kinds])
        ]
        if not open_rows:
            return self.window * kinds
        _, place = min(open_rows)
        if self.pair:
            return place
        job = self.rows()[place]
        wanted = 0 if job.w <= job.p else 1
        return 2 * place + (wanted if mask[2 * place + wanted] else 1 - wanted)

    def optimus_event(self):
        """The next unit of the allocation that rules (a) and (b) give the window from nothing."""
        if self.terminal():
            return 2 * self.window
        order = allocation_order(self.rows(), self.capacity, [j.rem for j in self.rows()])
        return order[self.decisions] if self.decisions < len(order) else 2 * self.window

    def search(self):
        """The next unit of the best allocation, found by trying all."""
        rows = self.rows()
        best = (-1.0, ())

        def extend(place, free, value, chosen):
            nonlocal best
            if place == len(rows):
                if value > best[0] + 1e-12:
                    best = (value, chosen)
                return
            job = rows[place]
            extend(place + 1, free, value, (*chosen, (0, 0)))
            for w in range(1, free[0] + 1):
                for p in [w] if self.pair else range(1, 13):
                    need = needs(job.model, w, p)
                    if fits(need, free):
                        left = [free[k] - need[k] for k in range(3)]
                        gain = 1 / (seconds(job.model, w, p) * math.sqrt(job.rem))
                        extend(place + 1, left, value + gain, (*chosen, (w, p)))

        extend(0, list(self.capacity), 0.0, ())
        return best

    def play(self, rule):
        while not self.done():
            self.step(rule(self))
        return self

    def metrics(self):
        return summary(self.jobs, self.gpu_seconds, self.capacity[0]) | {
            "total_reward": self.total,
            "steps": self.steps,
            "phases": self.phases,
        }


def summary(jobs, gpu_seconds, num_gpus):
    """Section 8."""
    done = [j for j in jobs if j.finish is not None]
    times = sorted(j.finish - j.submit for j in done) or [0.0]
    makespan = max((j.finish for j in done), default=jobs[0].submit) - jobs[0].submit
    middle = len(times) // 2
    return {
        "finished": len(done),
        "avg_jct": sum(times) / len(times),
        "max_jct": times[-1],
        "min_jct": times[0],
        "median_jct": (times[middle] + times[-middle - 1]) / 2,
        "avg_wait": sum(j.start - j.submit for j in done) / max(len(done), 1),
        "makespan": makespan,
        "utilization": gpu_seconds / (num_gpus * makespan) if makespan else 0.0,
    }


def dominant(need, capacity):
    """Amount of the resource with the largest share, ties to the first."""
    shares = [need[k] / capacity[k] for k in range(3)]
    return need[shares.index(max(shares))]


def allocation_order(jobs, capacity, work, on_block="stop"):
    """Optimus' units in the order given: ``2 * place`` a worker, ``2 * place + 1`` a PS."""
    free, units, order = list(capacity), [[0, 0] for _ in jobs], []

    def give(place, kind):
        nonlocal free
        need = needs(jobs[place].model, *((1, 0) if kind == 0 else (0, 1)))
        free = [free[k] - need[k] for k in range(3)]
        units[place][kind] += 1
        order.append(2 * place + kind)

    for place, job in enumerate(jobs):
        if fits(needs(job.model, 1, 1), free):
            give(place, 0)
            give(place, 1)
    closed = set()
    while True:
        found = None
        for place, job in enumerate(jobs):
            w, p = units[place]
            if not (w and p):
                continue
            now = work[place] * seconds(job.model, w, p)
            for kind in (1, 0):
                dw, dp = (1, 0) if kind == 0 else (0, 1)
                more = work[place] * seconds(job.model, w + dw, p + dp)
                gain = (now - more) / dominant(needs(job.model, dw, dp), capacity)
                if (place, kind) not in closed and (found is None or gain > found[0]):
                    found = (gain, place, kind)
        if found is None or found[0] <= 1e-9:
            return order
        _, place, kind = found
        if fits(needs(jobs[place].model, *((1, 0) if kind == 0 else (0, 1))), free):
            give(place, kind)
        elif on_block == "stop":
            return order
        else:
            closed.add((place, kind))


def play_optimus(rows, capacity, interval, on_block="stop"):
    """Section 9: metrics and, per instant that is not skipped, (time, allocation)."""
    jobs = [Workload(*row) for row in sorted(rows, key=lambda row: row[0])]
    left = [float(j.iterations) for j in jobs]
    first, instant, decisions, gpu_seconds = jobs[0].submit, 0, [], 0.0
    while any(value > 0 for value in left):
        now = first + instant * interval
        active = [i for i, j in enumerate(jobs) if j.submit <= now and left[i] > 0]
        instant += 1
        if not active:
            continue
        order = allocation_order(
            [jobs[i] for i in active], capacity, [left[i] for i in active], on_block
        )
        units = {i: (order.count(2 * k), order.count(2 * k + 1)) for k, i in enumerate(active)}
        decisions.append((now, {i: u for i, u in units.items() if any(u)}))
        for i, (w, p) in units.items():
            if not (w and p):
                continue
            if jobs[i].start is None:
                jobs[i].start = now
            needed = left[i] * seconds(jobs[i].model, w, p)
            gpu_seconds += w * min(needed, interval)
            if needed <= interval * (1 + 1e-9):
                left[i], jobs[i].finish = 0.0, now + needed
            else:
                left[i] -= interval / seconds(jobs[i].model, w, p)
    metrics = summary(jobs, gpu_seconds, capacity[0]) | {"phases": len(decisions)}
    return metrics, decisions, jobs
