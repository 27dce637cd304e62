"""DL2 once more: the specification in plain Python loops, as slow and literal as possible.

Shares no code with the library except the published tables of job types, coefficients and
measurements.
"""

import itertools
import json
import math
from dataclasses import dataclass, field
from importlib import resources

import numpy as np

WORKER = [
    (1, 2, 8), (1, 2, 10), (1, 2, 10), (1, 2, 8), (1, 2, 8), (0, 3, 6), (0, 4, 6), (1, 1, 6)
]  # fmt: skip
PS = [
    (0, 3, 9), (0, 4, 10), (0, 3, 10), (0, 3, 8), (0, 1, 8), (0, 3, 6), (0, 1, 6), (0, 1, 6)
]  # fmt: skip
COEFFICIENTS = [
    (185, 2, 6, 1.8, 1.4), (170, 3, 24, 2.2, 1.8), (160, 5, 9, 3.0, 1.5), (195, 2, 10, 1.6, 1.4),
    (180, 2, 6.5, 1.8, 2.4), (130, 8, 5, 4.5, 2.0), (170, 6, 1, 3.0, 2.0), (140, 4, 18, 3.5, 1.5),
]  # fmt: skip
TYPES = ("resnet50", "vgg16", "resnext110", "inceptionbn", "seq2seq", "ctc", "dssm", "wlm")
PROFILE = [(1, 1), (2, 2), (4, 4), (8, 8), (1, 2), (2, 1), (4, 8), (8, 4)]  # (p, w)
DEFAULTS = {
    "num_servers": 13, "gpus_per_server": 2, "cpus_per_server": 8, "mem_per_server": 48,
    "slot_seconds": 1200, "J": 10, "max_workers": 16, "max_ps": 16, "max_slots": 1000,
    "comm": "ps", "speed_mode": "analytic", "overlap": 1.0, "contention": 1.0,
    "assign_bundle": False, "bundle_action": True, "d_scale": 50, "e_scale": 100,
    "resizing": 0.0,
}  # fmt: skip


def measured():
    text = (resources.files("jaxsched.elastic") / "measured_speed.json").read_text()
    return json.loads(text)["samples_per_second"]


@dataclass
class Job:
    submit: int
    model: int
    epochs: float
    true_epochs: float
    factor: list
    progress: float = 0.0
    w: int = 0
    p: int = 0
    earlier: tuple = (0, 0)
    start: float = -1.0
    finish: float = -1.0
    done: bool = False
    placement: list = field(default_factory=list)


def happened(time):
    """A time, or None for one that never came."""
    return None if time < 0 else time


class Cluster:
    """Servers, jobs and the clock; ``play`` runs actions, ``run`` a policy."""

    def __init__(self, config, jobs):
        self.c = DEFAULTS | config
        c = self.c
        self.jobs = [
            Job(
                j["submit_time"],
                j["model"],
                float(j["epochs"]),
                float(j.get("true_epochs", j["epochs"])),
                list(j.get("speed_factor", [1.0])),
            )
            for j in jobs
        ]
        self.cap = (c["gpus_per_server"], c["cpus_per_server"], c["mem_per_server"])
        self.total = tuple(c["num_servers"] * x for x in self.cap)
        self.load_unit = math.lcm(*(x for x in self.cap if x))
        self.share_unit = math.lcm(*(x for x in self.total if x))
        self.allreduce = c["comm"] == "allreduce"
        self.grids = measured() if c["speed_mode"] == "measured" else None
        self.k, self.batch, self.reward = 0, 0, 0.0
        self.active, self.over, self.truncated = [], False, False
        self.gpu_share, self.cpu_share, self.slot_rewards = [], [], []
        self.last = []  # what progressed in the previous non-empty slot: (model, w, p, rate)

    # Speed

    def tau(self, model, w, p):
        if w == 0 or (p == 0 and not self.allreduce):
            return math.inf
        if self.grids is not None:
            grid = self.grids[TYPES[model]]
            column = w if self.allreduce else p
            return 60 * grid[3][3] / grid[min(column, 16) - 1][min(w, 16) - 1]
        a, b, k, d, f = COEFFICIENTS[model]
        compute = a / w
        comm = 2 * k * (w - 1) / w if self.allreduce else k * w / p
        hidden = self.c["overlap"] * min(comm, 2 / 3 * compute)
        return compute + comm - hidden + b + d * w + (0 if self.allreduce else f * p)

    def cpus(self, job):
        return job.w * WORKER[job.model][1] + job.p * PS[job.model][1]

    def rate(self, job):
        tau = self.tau(job.model, job.w, job.p)
        others = sum(self.cpus(j) for j in self.jobs if j is not job)
        rho = others / self.total[1] if self.total[1] else 0.0
        factor = job.factor[self.k % len(job.factor)]
        return 1 / tau * factor / (1 + self.c["contention"] * rho)

    # Resources

    def clear(self):
        self.used = [[0, 0, 0] for _ in range(self.c["num_servers"])]
        for job in self.jobs:
            job.earlier = (job.w, job.p)
            job.w = job.p = 0
            job.placement = []

    def server_for(self, need, used):
        best = None
        for s, u in enumerate(used):
            if all(u[i] + need[i] <= self.cap[i] for i in range(3)):
                load = sum(u[i] * (self.load_unit // self.cap[i]) for i in range(3) if self.cap[i])
                if best is None or load < best[0]:
                    best = (load, s)
        return None if best is None else best[1]

    def attempt(self, job, kind, commit=True):
        """``kind`` is w, p or b; true if it can be placed (and, unless asked not to, is)."""
        c = self.c
        if kind in "pb" and self.allreduce:
            return False
        if (kind in "wb" and job.w >= c["max_workers"]) or (kind in "pb" and job.p >= c["max_ps"]):
            return False
        used = [list(u) for u in self.used]
        where = []
        for task, needs in (("w", WORKER), ("p", PS)):
            if kind in (task, "b"):
                need = needs[job.model]
                server = self.server_for(need, used)
                if server is None:
                    return False
                used[server] = [used[server][i] + need[i] for i in range(3)]
                where.append([task, server])
        if commit:
            self.used = used
            job.w += kind in "wb"
            job.p += kind in "pb"
            job.placement += where
        return True

    @property
    def bundle(self):
        return "w" if self.allreduce else "b"

    def share(self, job):
        """Integer dominant share."""
        model = job.model
        usage = [job.w * WORKER[model][i] + job.p * PS[model][i] for i in range(3)]
        return max(usage[i] * (self.share_unit // self.total[i]) for i in range(3) if self.total[i])

    # Slots

    def find_slot(self):
        """Move to the next slot with active jobs, or to the end."""
        while True:
            unfinished = [j for j in self.jobs if not j.done]
            if not unfinished:
                self.over, self.active = True, []
                return
            if self.k >= self.c["max_slots"]:
                self.over = self.truncated = True
                self.active = []
                return
            start = self.k * self.c["slot_seconds"]
            self.active = [j for j in unfinished if j.submit <= start]
            if self.active:
                return
            soonest = min(j.submit for j in unfinished)
            self.k = max(self.k + 1, -(-soonest // self.c["slot_seconds"]))

    def begin_slot(self):
        self.find_slot()
        self.clear()
        self.batch = 0
        if self.over:
            return
        if self.c["assign_bundle"]:
            for job in self.active:
                self.attempt(job, self.bundle)

    def rows(self):
        size = self.c["J"]
        rows = self.active[self.batch * size : (self.batch + 1) * size]
        return rows + [None] * (size - len(rows))

    def mask(self):
        bits = []
        for job in self.rows():
            for kind in "wpb":
                allowed = job is not None and (kind != "b" or self.c["bundle_action"])
                bits.append(int(allowed and self.attempt(job, kind, commit=False)))
        return [*bits, 1]

    def settle(self):
        while not self.over:
            if self.batch >= math.ceil(len(self.active) / self.c["J"]):
                self.train()
                self.begin_slot()
            elif any(self.mask()[:-1]):
                return
            else:
                self.batch += 1

    def train(self):
        length = self.c["slot_seconds"]
        rates = [(job, self.rate(job)) for job in self.active]
        total = 0.0
        self.last = []
        for job, rate in rates:
            if rate <= 0:
                continue
            self.last.append((job.model, job.w, job.p, rate))
            if job.start < 0:
                job.start = float(self.k * length)
            resized = job.progress > 0 and (job.w, job.p) != job.earlier
            lost = self.c["resizing"] if resized else 0.0
            possible, left = rate * (length - lost), job.true_epochs - job.progress
            if possible >= left:
                job.finish = self.k * length + lost + (length - lost) * left / possible
                job.done, job.progress, trained = True, job.true_epochs, left
            else:
                job.progress += possible
                trained = possible
            total += trained / job.epochs
        gpus = sum(job.w * WORKER[job.model][0] for job in self.jobs)
        cpus = sum(self.cpus(job) for job in self.jobs)
        self.gpu_share.append(gpus / self.total[0] if self.total[0] else 0.0)
        self.cpu_share.append(cpus / self.total[1] if self.total[1] else 0.0)
        self.reward += total
        self.slot_rewards.append(total)
        self.k += 1

    def observe(self):
        c, rows = self.c, self.rows()
        types = [float(job is not None and job.model == m) for job in rows for m in range(8)]
        slots, left, share, w, p = [], [], [], [], []
        for job in rows:
            if job is None:
                for column in (slots, left, share, w, p):
                    column.append(0.0)
                continue
            slots.append((self.k - math.ceil(job.submit / c["slot_seconds"])) / c["d_scale"])
            left.append(max(job.epochs - job.progress, 0) / c["e_scale"])
            share.append(self.share(job) / self.share_unit)
            w.append(job.w / c["max_workers"])
            p.append(job.p / c["max_ps"])
        return types + slots + left + share + w + p

    def play(self, choose):
        """Steps until the end; ``choose(mask) -> action``. Returns the trajectory."""
        self.begin_slot()
        # The first slot was opened by no step: it stays even if its bundles fill it.
        while self.batch * self.c["J"] < len(self.active) and not any(self.mask()[:-1]):
            self.batch += 1
        if self.batch * self.c["J"] >= len(self.active):
            self.batch = 0
        trajectory = []
        while not self.over:
            mask = self.mask()
            action = choose(mask)
            row = {
                "slot": self.k,
                "batch": self.batch,
                "mask": mask,
                "obs": self.observe(),
                "action": action,
            }
            before = self.reward
            if 0 <= action < 3 * self.c["J"] and mask[action]:
                assert self.attempt(self.rows()[action // 3], "wpb"[action % 3])
            else:
                self.batch += 1
            self.settle()
            trajectory.append(row | {"reward": self.reward - before, "done": self.over})
        return trajectory

    def metrics(self, decisions):
        done = [j for j in self.jobs if j.done]

        def mean(values):
            values = list(values)
            return sum(values) / len(values) if values else 0.0

        jct = mean(j.finish - j.submit for j in done)
        first = min(j.submit for j in self.jobs)
        return {
            "finished": len(done),
            "avg_jct": jct,
            "avg_jct_slots": jct / self.c["slot_seconds"],
            "avg_wait": mean(j.start - j.submit for j in done),
            "makespan": max((j.finish for j in done), default=first) - first,
            "utilization": mean(self.gpu_share),
            "cpu_utilization": mean(self.cpu_share),
            "total_reward": self.reward,
            "decisions": decisions,
            "slots": len(self.slot_rewards),
        }

    def results(self):
        return [
            {"start": happened(j.start), "finish": happened(j.finish), "progress": j.progress}
            for j in self.jobs
        ]

    # Policies

    def run(self, policy, cap=4):
        rule, slots = Rules(self, policy, cap), []
        while True:
            self.find_slot()
            self.clear()
            if self.over:
                return slots
            rule.plan()
            slots.append(
                {
                    "slot": self.k,
                    "time": self.k * self.c["slot_seconds"],
                    "alloc": [
                        {
                            "job": self.jobs.index(j),
                            "workers": j.w,
                            "servers": j.p,
                            "placement": j.placement,
                        }
                        for j in self.active
                    ],
                }
            )
            self.train()
            slots[-1]["reward"] = self.slot_rewards[-1]


class Rules:
    """Section 9, one method per policy."""

    def __init__(self, cluster, policy, cap):
        self.c, self.policy, self.cap = cluster, policy, cap
        self.points = {m: [(w, p, cluster.tau(m, w, p)) for p, w in PROFILE] for m in range(8)}
        self.theta = {}

    def plan(self):
        getattr(self, self.policy)()

    def drf(self):
        live = list(self.c.active)
        while live:
            job = min(live, key=self.c.share)
            if not self.c.attempt(job, self.c.bundle):
                live.remove(job)

    def reference(self, job):
        return max(job.epochs - job.progress, 0) * self.c.tau(job.model, 4, 4)

    def at_limit(self, job):
        full = job.w >= self.c.c["max_workers"]
        return full or (not self.c.allreduce and job.p >= self.c.c["max_ps"])

    def in_order(self, jobs):
        for job in jobs:
            for _ in range(self.cap):
                if self.at_limit(job):
                    break
                if not self.c.attempt(job, self.c.bundle):
                    return

    def fifo(self):
        self.in_order(self.c.active)

    def srtf(self):
        self.in_order(sorted(self.c.active, key=self.reference))

    def tetris(self):
        cluster, live = self.c, list(self.c.active)
        while live:
            used = [sum(u[i] for u in cluster.used) for i in range(3)]
            scores = []
            for job in live:
                align = 0.0
                for i in range(3):
                    if cluster.total[i]:
                        free = (cluster.total[i] - used[i]) / cluster.total[i]
                        need = WORKER[job.model][i]
                        need += 0 if cluster.allreduce else PS[job.model][i]
                        align += free * need / cluster.total[i]
                scores.append((align, 1 / max(self.reference(job), 1)))
            aligns = sum(a for a, _ in scores) / len(scores)
            shorts = sum(s for _, s in scores) / len(scores)
            values = [(a / aligns if aligns else 0.0) + s / shorts for a, s in scores]
            job = live[values.index(max(values))]
            for _ in range(self.cap):
                if not cluster.attempt(job, cluster.bundle):
                    break
            live.remove(job)

    def by_gain(self, tau, fill):
        cluster = self.c
        for job in cluster.active:
            cluster.attempt(job, cluster.bundle)
        closed = set()
        while True:
            best = None
            for index, job in enumerate(cluster.active):
                if job.w == 0 or (job.p == 0 and not cluster.allreduce):
                    continue
                left = max(job.epochs - job.progress, 0)
                now = left * tau(job.model, job.w, job.p)
                for kind, need in (("p", PS), ("w", WORKER)):
                    if (index, kind) in closed or (kind == "p" and cluster.allreduce):
                        continue
                    w, p = job.w + (kind == "w"), job.p + (kind == "p")
                    if w > cluster.c["max_workers"] or p > cluster.c["max_ps"]:
                        continue
                    share = max(
                        need[job.model][i] / cluster.total[i] for i in range(3) if cluster.total[i]
                    )
                    gain = (now - left * tau(job.model, w, p)) / share
                    if best is None or gain > best[0]:
                        best = (gain, index, kind)
            if best is None or best[0] <= 0:
                return
            _, index, kind = best
            if not cluster.attempt(cluster.active[index], kind):
                if not fill:
                    return
                closed.add((index, kind))

    def optimus_oracle(self):
        self.by_gain(self.c.tau, fill=False)

    def optimus_fill(self):
        self.by_gain(self.c.tau, fill=True)

    def optimus(self):
        for model, w, p, rate in self.c.last:
            self.points[model].append((w, p, 1 / rate))
        for model in range(8):
            self.theta[model] = fit(self.points[model])

        def tau(model, w, p):
            return max(float(np.dot(self.theta[model], basis(w, p))), 1e-6)

        self.by_gain(tau, fill=False)


def basis(w, p):
    return np.array([1 / w, 1, w / p, w, p])


def fit(points):
    gram, moment = np.zeros((5, 5)), np.zeros(5)
    for w, p, t in points:
        x = basis(w, p) / t
        gram += np.outer(x, x)
        moment += x
    best, best_value = np.zeros(5), math.inf
    for size in range(1, 6):
        for support in itertools.combinations(range(5), size):
            index = np.array(support)
            normal = gram[np.ix_(index, index)] + 1e-9 * np.trace(gram) * np.eye(size)
            solution = np.linalg.solve(normal, moment[index])
            if (solution < 0).any():
                continue
            theta = np.zeros(5)
            theta[index] = solution
            value = theta @ gram @ theta - 2 * moment @ theta
            if value < best_value - 1e-12:
                best, best_value = theta, value
    return best
