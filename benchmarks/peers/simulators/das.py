"""DAS in plain Python, event by event, written from the specification alone."""

import math
from dataclasses import dataclass, field


@dataclass
class Job:
    submit: int
    instances: int
    gpus: int
    cpus: int
    mem: int
    duration: int
    alloc: list | None = None
    start: int | None = None
    finish: int | None = None
    rem: int = 0
    speed: int = 0
    base: int = 0

    @property
    def num_gpus(self):
        return self.instances * self.gpus

    @property
    def request(self):
        return (self.gpus, self.cpus, self.mem)


@dataclass
class Simulator:
    """One episode; ``decide`` applies an action and runs on to the next decision."""

    rows: list
    num_servers: int = 8
    gpus_per_server: int = 8
    cpus_per_server: int = 96
    mem_per_server: int = 384
    bandwidth_per_server: int = 32
    window: int = 32
    net_per_gpu: int = 4
    spread_pct: int = 4
    spread_cap: int = 8
    net_pct: int = 8
    cpu_pct: int = 16
    on_no_fit: str = "skip"
    reward_mode: str = "paper"
    lazy: bool = False
    alpha: float = 0.1
    price: float = 2.84
    reward_scale: float = 1.0
    reward_cap: float = 10.0
    jct_ref_min: float = 170.0
    fee_ref: float = 51.0
    dense_scale: float = 100.0
    pending: list = field(default_factory=list)
    running: list = field(default_factory=list)
    finished: int = 0
    decisions: int = 0

    def __post_init__(self):
        first = self.rows[0][0]
        self.jobs = [Job(row[0] - first, *row[1:]) for row in self.rows]
        self.capacity = (self.gpus_per_server, self.cpus_per_server, self.mem_per_server)
        self.free = [list(self.capacity) for _ in range(self.num_servers)]
        self.time = 0
        self.arrived = 0
        self.admit()

    def admit(self):
        while self.arrived < len(self.jobs) and self.jobs[self.arrived].submit <= self.time:
            self.pending.append(self.arrived)
            self.arrived += 1

    def done(self):
        return self.finished == len(self.jobs)

    def positions(self):
        return self.pending[: self.window]

    def fit(self, job):
        fits = []
        for free in self.free:
            fits.append(min(f // r for f, r in zip(free, job.request, strict=True) if r > 0))
        return fits

    def triggers(self):
        if self.lazy and self.running:
            return False
        return any(sum(self.fit(self.jobs[j])) >= self.jobs[j].instances for j in self.positions())

    def network(self):
        net = [0] * self.num_servers
        for j in self.running:
            job = self.jobs[j]
            if sum(x > 0 for x in job.alloc) >= 2:
                for m, x in enumerate(job.alloc):
                    net[m] += x * job.gpus
        return net

    def worst(self, j):
        job, net = self.jobs[j], self.network()
        spread = sum(x > 0 for x in job.alloc)
        per = min(c // r for c, r in zip(self.capacity, job.request, strict=True) if r > 0)
        least = math.ceil(job.instances / per)
        values = []
        for m, x in enumerate(job.alloc):
            if x == 0:
                continue
            h = 100 + self.spread_pct * min(spread - least, self.spread_cap)
            others = self.cpus_per_server - self.free[m][1] - x * job.cpus
            h += self.cpu_pct * others // self.cpus_per_server
            if spread >= 2:
                h += self.net_pct * (net[m] - x * job.gpus)
            values.append(h)
        return max(values)

    def set_speeds(self):
        for j in self.running:
            self.jobs[j].speed = 10000 // self.worst(j)

    def observation(self):
        jobs = []
        for j in self.positions():
            job = self.jobs[j]
            jobs.append([
                job.instances / 64, job.gpus / self.gpus_per_server,
                job.cpus / self.cpus_per_server, job.mem / self.mem_per_server,
                (self.time - job.submit) / 86400,
            ])  # fmt: skip
        machines = []
        for (gpus, cpus, mem), net in zip(self.free, self.network(), strict=True):
            left = max(0, self.bandwidth_per_server - self.net_per_gpu * net)
            machines.append([
                cpus / self.cpus_per_server, gpus / self.gpus_per_server,
                mem / self.mem_per_server, left / self.bandwidth_per_server,
                1 - gpus / self.gpus_per_server,
            ])  # fmt: skip
        return jobs, machines

    def decide(self, priority, affinity):
        """Apply an action (lists; entries beyond real positions are ignored); a trajectory row."""
        positions = self.positions()

        def worth(value):
            return -math.inf if math.isnan(value) else value

        order = sorted(range(len(positions)), key=lambda i: (-worth(priority[i]), i))
        if self.lazy:
            order = order[:1]
        placed, failed, start = [], [], self.time
        for i in order:
            j = positions[i]
            job = self.jobs[j]
            fit = self.fit(job)
            if sum(fit) < job.instances or (failed and self.on_no_fit == "block"):
                failed.append(j)
                continue
            job.alloc, left = [0] * self.num_servers, job.instances
            for m in sorted(range(self.num_servers), key=lambda m: (-worth(affinity[i][m]), m)):
                job.alloc[m] = min(left, fit[m])
                left -= job.alloc[m]
                for r in range(3):
                    self.free[m][r] -= job.alloc[m] * job.request[r]
            job.start, job.rem = self.time, 100 * job.duration
            placed.append(j)
        for j in placed:
            self.pending.remove(j)
            self.running.append(j)
        self.set_speeds()
        self.decisions += 1
        finished, job_seconds, gpu_seconds = [], 0, 0
        wait = self.on_no_fit == "block" and bool(failed)
        while wait or not self.triggers():
            if self.done():
                break
            wait = False
            ends = [self.time + -(-self.jobs[j].rem // self.jobs[j].speed) for j in self.running]
            if self.arrived < len(self.jobs):
                ends.append(self.jobs[self.arrived].submit)
            elapsed = min(ends) - self.time
            job_seconds += elapsed * (len(self.pending) + len(self.running))
            gpu_seconds += elapsed * sum(self.jobs[j].num_gpus for j in self.running)
            self.time += elapsed
            for j in self.running:
                self.jobs[j].rem -= self.jobs[j].speed * elapsed
            over = sorted(j for j in self.running if self.jobs[j].rem <= 0)
            for j in over:
                job = self.jobs[j]
                job.finish = self.time
                self.running.remove(j)
                for m in range(self.num_servers):
                    for r in range(3):
                        self.free[m][r] += job.alloc[m] * job.request[r]
            finished += over
            self.finished += len(over)
            self.admit()
            if over:
                self.set_speeds()
        return {
            "time": start,
            "window": positions,
            "placed": placed,
            "failed": failed,
            "finished": finished,
            "reward": self.reward(finished, failed, job_seconds, gpu_seconds),
            "done": self.done(),
        }

    def reward(self, finished, failed, job_seconds, gpu_seconds):
        if self.reward_mode == "dense":
            jct = job_seconds / (60 * self.jct_ref_min)
            fee = self.price * gpu_seconds / (3600 * self.fee_ref)
            return -self.dense_scale / len(self.jobs) * (jct + fee)
        if not finished + failed:
            return 0.0
        total = -self.alpha * sum(self.jobs[j].num_gpus for j in failed)
        for j in finished:
            job = self.jobs[j]
            jct = (job.finish - job.submit) / 3600
            total += min(self.reward_scale / (self.fee(job) * jct), self.reward_cap)
        return total / (len(finished) + len(failed))

    def fee(self, job):
        return self.price * job.num_gpus * (job.finish - job.start) / 3600
