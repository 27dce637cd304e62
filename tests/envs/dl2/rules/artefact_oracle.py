"""DL2's published simulator once more, in plain Python loops (artefact track), with its options.

Shares nothing with the library but the grids of speeds.
"""

import json
import math
from importlib import resources

WORKER = [(2, 2), (2, 2), (2, 2), (2, 2), (0, 2), (2, 2), (0, 2), (2, 1)]
PS = (0, 4)
SAMPLES = [115, 115, 390, 120, 780, 193, 349, 165]
SLOT, ROOM = 1200, 8
DEFAULTS = {
    "num_servers": 48, "J": 20, "max_workers": 32, "max_ps": 32, "assign_bundle": True,
    "bundle_servers": "one", "placement": "least_used", "misfit": "end_slot", "rows": "window",
}  # fmt: skip


def grids():
    text = (resources.files("jaxsched.elastic") / "artefact_speed.json").read_text()
    return json.loads(text)["samples_per_second"]


GRIDS = grids()


def add(one, other):
    return tuple(a + b for a, b in zip(one, other, strict=True))


class Simulator:
    """Servers, jobs and the clock; ``play`` runs actions, ``run`` a heuristic."""

    def __init__(self, config, jobs):
        self.c = DEFAULTS | config
        self.jobs = [
            dict(a=math.ceil(j["submit_time"] / SLOT), model=j["model"], epochs=float(j["epochs"]),
                 submit=j["submit_time"] / SLOT, progress=0.0, fine=None, coarse=None)
            for j in jobs
        ]  # fmt: skip
        self.k, self.batch, self.active = 0, 0, []

    # Servers

    def gain(self, job, w, p):
        if not w or not p:
            return 0.0
        model = self.jobs[job]["model"]
        return GRIDS[model][p - 1][w - 1] * SLOT / SAMPLES[model]

    def fits(self, server, need):
        return all(x <= ROOM for x in add(self.used[server], need))

    def candidate(self, need):
        """Where a task goes, None for nowhere."""
        able = [s for s in range(len(self.used)) if self.fits(s, need)]
        if self.c["placement"] == "least_used":
            least = min(range(len(self.used)), key=lambda s: (sum(self.used[s]), s))
            return least if least in able else None
        return min(able, key=lambda s: (sum(self.used[s]), s), default=None)

    def grant(self, job, kind, dry=False):
        """A worker (0), PS (1) or bundle (2) if it can be placed."""
        worker = WORKER[self.jobs[job]["model"]]
        needs = [[worker], [PS], [worker, PS]][kind]
        if kind == 2 and self.c["bundle_servers"] == "one":
            needs = [add(worker, PS)]
        before, placed = list(self.used), True
        for need in needs:
            server = self.candidate(need) if placed else None
            placed = server is not None
            if placed:
                self.used[server] = add(self.used[server], need)
        if not placed or dry:
            self.used = before
        elif kind != 1:
            self.w[job] += 1
        if placed and not dry and kind != 0:
            self.p[job] += 1
        return placed

    # Slots

    def begin(self):
        """The next slot with jobs; false after the last."""
        waiting = [j for j in self.jobs if j["fine"] is None]
        if not waiting:
            self.active = []
            return False
        self.k = max(self.k, min(j["a"] for j in waiting))
        self.active = [i for i, j in enumerate(self.jobs) if j["fine"] is None and j["a"] <= self.k]
        self.clear()
        return True

    def clear(self):
        self.used = [(0, 0)] * self.c["num_servers"]
        self.w, self.p = [0] * len(self.jobs), [0] * len(self.jobs)

    def end(self):
        """Progress; the slot's reward."""
        reward = 0.0
        for i in self.active:
            job = self.jobs[i]
            gain, share = self.gain(i, self.w[i], self.p[i]), 1.0
            if job["progress"] + gain > job["epochs"]:
                share = (job["epochs"] - job["progress"]) / gain
                gain = job["epochs"] - job["progress"]
                job["progress"] = job["epochs"]
            else:
                job["progress"] += gain
            if job["progress"] >= job["epochs"]:
                job["coarse"] = self.k - job["a"] + 1
                job["fine"] = self.k - job["submit"] + share
            reward += gain / job["epochs"]
        self.k += 1
        return reward

    # The agent

    def open_slot(self):
        """Begin slots until there is something to decide; the rewards of those that pass."""
        reward = 0.0
        while self.begin():
            self.batch = 0
            if self.c["assign_bundle"]:
                for job in self.active:
                    self.grant(job, 2)
            if self.settle():
                break
            reward += self.end()
        return reward

    def settle(self):
        """Whether the slot goes on; batches in which nothing fits are passed over."""
        if self.c["misfit"] == "end_slot":
            return True
        while self.batch < self.num_batches():
            if any(self.mask()[:-1]):
                return True
            self.batch += 1
        return False

    def num_batches(self):
        return 1 if self.c["rows"] == "window" else math.ceil(len(self.active) / self.c["J"])

    def rows(self):
        jobs, size = self.active, self.c["J"]
        if self.c["rows"] == "window":
            limits = (self.c["max_workers"], self.c["max_ps"])
            jobs = [i for i in jobs if (self.w[i], self.p[i]) != limits]
        return jobs[self.batch * size : (self.batch + 1) * size]

    def mask(self):
        bits = []
        for job in self.rows():
            worker, ps = self.w[job] < self.c["max_workers"], self.p[job] < self.c["max_ps"]
            for kind, allowed in enumerate([worker, ps, worker and ps]):
                if allowed and self.c["misfit"] == "mask":
                    allowed = self.grant(job, kind, dry=True)
                bits.append(int(allowed))
        return bits + [0] * (3 * self.c["J"] - len(bits)) + [1]

    def observation(self):
        total = ROOM * self.c["num_servers"]
        columns = []
        for i in self.rows():
            job, tasks = self.jobs[i], (self.w[i], self.p[i])
            worker = WORKER[job["model"]]
            share = max(tasks[0] * worker[r] + tasks[1] * PS[r] for r in range(2)) / total
            left = 1 - job["progress"] / job["epochs"]
            columns.append([job["model"] + 1, self.k - job["a"], left, share, *tasks])
        columns += [[0] * 6] * (self.c["J"] - len(columns))
        return [list(map(float, row)) for row in zip(*columns, strict=True)]

    def step(self, action):
        """Reward, and whether the slot ended."""
        rows, legal = self.rows(), self.mask()
        known = 0 <= action < 3 * self.c["J"] and legal[action]
        placed = known and self.grant(rows[action // 3], action % 3)
        if not placed:
            self.batch += 1
            if known:  # it did not fit
                self.batch = self.num_batches()
        goes_on = self.settle() and self.batch < self.num_batches()
        if goes_on:
            return 0.0, False
        return self.end() + self.open_slot(), True

    def play(self, choose, most=10_000):
        """Steps by ``choose(mask)`` until the end."""
        rows = []
        self.open_slot()
        while self.active and len(rows) < most:
            row = {"step": len(rows), "slot": self.k, "mask": self.mask()}
            row["obs"], row["action"] = self.observation(), choose(row["mask"])
            row["reward"], row["slot_ended"] = self.step(row["action"])
            rows.append(row | {"done": not self.active})
        return rows

    # Heuristics

    def run(self, policy):
        """All slots by one of the five; the allocations ``[job, w, p]`` of each slot."""
        slots = []
        while self.begin():
            getattr(self, policy)()
            slots.append([[i, self.w[i], self.p[i]] for i in self.active])
            self.end()
        return slots

    def limit(self):
        return min(self.c["max_workers"], self.c["max_ps"])

    def share(self, i):
        worker = WORKER[self.jobs[i]["model"]]
        return max(self.w[i] * worker[r] + self.p[i] * PS[r] for r in range(2))

    def left(self, i):
        return 1 - self.jobs[i]["progress"] / self.jobs[i]["epochs"]

    def drf(self):
        while live := [i for i in self.active if self.w[i] < self.limit()]:
            if not self.grant(min(live, key=lambda i: (self.share(i), i)), 2):
                return

    def fifo(self):
        self.in_turn(self.active)

    def srtf(self):
        self.in_turn(sorted(self.active, key=self.left))

    def in_turn(self, jobs):
        for i in jobs:
            while self.w[i] < self.limit():
                if not self.grant(i, 2):
                    return

    def tetris(self):
        for server in range(len(self.used)):
            while True:
                free = [ROOM - x for x in self.used[server]]
                needs = {i: add(WORKER[self.jobs[i]["model"]], PS) for i in self.active}
                align = {i: free[0] * g + free[1] * c for i, (g, c) in needs.items()}
                left = {i: sum(needs[i]) * self.left(i) for i in self.active}
                weight = sum(align.values()) / sum(left.values())
                live = [i for i in self.active if self.w[i] < self.limit()]
                if not live or weight == 0:
                    break
                job = max(live, key=lambda i: (align[i] + weight * left[i], -i))
                if not self.fits(server, needs[job]):
                    break
                self.used[server] = add(self.used[server], needs[job])
                self.w[job] += 1
                self.p[job] += 1

    def wish(self, i):
        """Gain and kind of what a job wants."""
        w, p = self.w[i], self.p[i]
        if w == 0 or p == 0:
            return math.inf, 0 if w == 0 else 1
        rem = self.jobs[i]["epochs"] - self.jobs[i]["progress"]
        now = rem / self.gain(i, w, p)
        worker, ps = now - rem / self.gain(i, w + 1, p), now - rem / self.gain(i, w, p + 1)
        return (ps, 1) if ps >= worker else (worker, 0)

    def optimus(self):
        live = list(self.active)
        while live:
            job = max(live, key=lambda i: (self.wish(i)[0], -i))
            gain, kind = self.wish(job)
            if gain <= 0:
                return
            if (self.p if kind else self.w)[job] >= self.c["max_ps" if kind else "max_workers"]:
                live.remove(job)
            elif not self.grant(job, kind):
                return
