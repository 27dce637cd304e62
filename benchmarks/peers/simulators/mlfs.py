"""MLFS in plain Python, slot by slot and task by task, written from the specification alone."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.peers.simulators import mlfs_rules as rules
from benchmarks.peers.simulators.mlfs_rules import DONE, NOMINAL, NOT_READY, RUNNING, WAITING, WAVE

OFFERING = ("mlf_h", "mlfs")
BASELINES = ("fair", "slaq", "tiresias", "gandiva", "graphene", "hypersched", "fifo")


class Task:
    """One node of a job's graph, with its instance of the current iteration."""

    def __init__(self, job, index):
        row = job.row
        self.job, self.index = job, index
        self.layer = index % job.partitions // job.width
        self.work = row["work"][index % job.partitions]
        self.size = row["size"][index % job.partitions]
        self.root, self.sink = self.layer == 0, self.layer == job.layers - 1
        self.parents, self.children = [], []
        self.server = self.gpu = self.prev = -1
        self.bw = self.priority = self.ml = self.c = self.left = 0
        self.candidate = False

    @property
    def key(self):
        return (self.job.index, self.index)

    def renew(self, slot):
        """Start the instance of the next iteration."""
        self.state = WAITING if self.root else NOT_READY
        self.wait_since, self.rem, self.started = slot, 0, False


class Job:
    """A table row, its task graph and its progress."""

    def __init__(self, row, index, config):
        self.row, self.index = row, index
        g, model = row["num_gpus"], row["model"]
        replicas = g if model == 4 else 1 if g <= 2 else 2
        self.partitions = g // replicas
        wide = model in (1, 3) and self.partitions >= 2
        self.width = min(4, self.partitions // 2) if wide else 1
        self.layers = self.partitions // self.width
        self.tasks = [Task(self, k) for k in range(g)]
        for first in range(0, g, self.partitions):
            replica = self.tasks[first : first + self.partitions]
            for task in replica:
                task.parents = [x for x in replica if x.layer == task.layer - 1]
                task.children = [x for x in replica if x.layer == task.layer + 1]
        self.vol_worker = config["comm_rounds"] * row["vol_worker"]
        self.vol_ps = config["comm_rounds"] * row["vol_ps"]
        for task in self.tasks:
            ends = task.root + task.sink
            task.tot = self.vol_worker * len(task.parents) + self.vol_ps * ends
        w = self.width
        longest = [max(row["work"][layer * w : (layer + 1) * w]) for layer in range(self.layers)]
        self.tails = [sum(longest[layer + 1 :]) for layer in range(self.layers)]
        self.critical = sum(longest)
        self.sum_work = replicas * sum(row["work"])
        self.it = self.it_by_deadline = self.run_slots = self.attained = 0
        self.home = self.start = self.finish = -1
        self.limit = row["iterations"]

    def running(self):
        return [task for task in self.tasks if task.state == RUNNING]

    def accuracy(self, n):
        x = self.row["curve_a"] * n / 1000
        return self.row["acc_max"] * x / (1 + x)

    def local(self, task, server):
        """MB of a task's communication that stay on ``server``."""
        parents = sum(parent.prev == server for parent in task.parents)
        at_home = self.home in (-1, server)
        return self.vol_worker * parents + self.vol_ps * (task.root + task.sink) * at_home


class Loads:
    """Loads of GPUs (pm) and servers (milli-vCPU, GB, MB/min)."""

    def __init__(self, config):
        self.h_r = config["h_r"]
        self.caps = [config[f"{name}_per_server"] for name in ("cpus", "mem", "bw")]
        self.gpus = [[0] * n for n in config["gpus"]]
        self.cpus, self.mem, self.bw = ([0] * len(self.gpus) for _ in range(3))

    def add(self, task, wave, sign=1):
        row, s = task.job.row, task.server
        self.gpus[s][task.gpu] += sign * (row["gpu_demand"] * wave // 1000)
        self.cpus[s] += sign * row["cpus"] * wave
        self.mem[s] += sign * row["mem"]
        self.bw[s] += sign * task.bw

    def least_gpu(self, s):
        return self.gpus[s].index(min(self.gpus[s]))

    def use(self, s):
        """Utilisation of a server: GPU, CPU, memory, bandwidth (pm)."""
        cpu, mem, bw = self.caps
        return (
            sum(self.gpus[s]) // len(self.gpus[s]),
            self.cpus[s] // cpu,
            1000 * self.mem[s] // mem,
            1000 * self.bw[s] // bw,
        )

    def overloaded(self, s):
        return max(*self.use(s), *self.gpus[s]) > self.h_r

    def fits(self, task, s, wave):
        """Whether a task stays within h_r on a server that is not overloaded."""
        row, (cpu, mem, _) = task.job.row, self.caps
        return (
            not self.overloaded(s)
            and min(self.gpus[s]) + row["gpu_demand"] * wave // 1000 <= self.h_r
            and (self.cpus[s] + row["cpus"] * wave) // cpu <= self.h_r
            and 1000 * (self.mem[s] + row["mem"]) // mem <= self.h_r
        )

    def fits_nominally(self, task, s):
        """Whether a task fits by the baselines' test, on nominal loads."""
        row, (cpu, mem, _) = task.job.row, self.caps
        return (
            min(self.gpus[s]) + row["gpu_demand"] <= 1000
            and self.cpus[s] + 1000 * row["cpus"] <= 1000 * cpu
            and self.mem[s] + row["mem"] <= mem
        )


class Offer(NamedTuple):
    """A task to place: the mask has one entry per server and one for the queue."""

    job: int
    task: int
    migrating: bool
    mask: list
    observation: list


@dataclass
class Simulator:
    """One episode, played by ``act`` offer by offer or by ``run``.

    Baseline policies place without offers and play the whole episode at once. ``order`` "fifo"
    offers every waiting task in table order under the baselines' fit, on nominal loads, and pays
    for unfinished jobs (the environment of `rl`). Slots outside ``snapshot_slots`` (None: no slot
    is outside) leave no snapshot.
    """

    config: Mapping
    rows: Sequence
    policy: str = "mlf_h"
    order: str = "priority"
    snapshot_slots: Sequence | None = None
    reward: str = ""
    t: int = 0
    over_flag: bool = False
    offers: int = 0
    offer: Offer | None = None
    trajectory: list = field(default_factory=list)
    snapshots: list = field(default_factory=list)

    def __post_init__(self):
        config = self.config
        self.all_jobs = [Job(row, i, config) for i, row in enumerate(self.rows)]
        self.num_servers = len(config["gpus"])
        self.by_priority = self.order == "priority" and self.policy in OFFERING
        mlfc = self.policy == "mlfs" or (self.policy == "mlf_h" and config["use_mlfc"])
        self.use_mlfc = mlfc and self.by_priority
        volume = sum(j.row["iterations"] * sum(x.tot for x in j.tasks) for j in self.all_jobs)
        self.b_max = max(1, volume)
        self.active, self.admitted, self.finished = [], 0, 0
        self.sent = self.bandwidth = self.overloads = self.migrations = self.evictions = 0
        self.total = self.earned = 0.0
        self.loads = Loads(config)
        self.offered = None
        self.episode = self.play()
        next(self.episode, None)

    def act(self, action):
        """Answer the offer; returns the reward up to the next one."""
        offer, slot = self.offer, self.t
        self.earned, self.offer, self.offered = 0.0, None, None
        try:
            self.episode.send(action)
        except StopIteration:
            assert self.done()
        self.trajectory.append({
            "step": len(self.trajectory), "slot": slot, "time": 60 * slot, "job": offer.job,
            "task": offer.task, "migrating": offer.migrating, "mask": offer.mask,
            "action": action, "reward": self.earned, "done": self.done(),
            "obs": offer.observation,
        })  # fmt: skip
        return self.earned

    def run(self, actions=()):
        """Play ``actions`` and then the policy to the end; the layout of a golden ``expect``."""
        for action in actions:
            if self.offer is not None:
                self.act(action)
        while self.offer is not None:
            self.act(self.answer())
        return {
            "metrics": rules.metrics(self),
            "jobs": rules.job_records(self),
            "slots": self.t,
            "decisions": len(self.trajectory),
            "trajectory": self.trajectory,
            "snapshots": self.snapshots,
        }

    def answer(self):
        """The heuristic's server for the task on offer: 3.3, or least loaded in FIFO order."""
        valid = [s for s in range(self.num_servers) if self.offer.mask[s]]
        if not self.by_priority:
            return rules.least_loaded(self.loads, valid)
        return rules.host(self, self.offered, valid)

    def done(self):
        return self.finished == len(self.all_jobs) or self.t >= self.config["max_slots"]

    def wave(self, task):
        i, k = task.key
        return WAVE[(self.t + 3 * i + 5 * k) % 8]

    def tasks(self, state):
        return [task for job in self.active for task in job.tasks if task.state == state]

    def running_loads(self, wave):
        loads = Loads(self.config)
        for task in self.tasks(RUNNING):
            loads.add(task, wave(task))
        return loads

    def measured(self):
        return self.running_loads(self.wave)

    def nominal(self):
        return self.running_loads(lambda task: NOMINAL)

    def play(self):
        """Slots until the end, handing out offers."""
        while not self.done():
            if not self.active:
                self.t = max(self.t, -(-self.all_jobs[self.admitted].row["submit_time"] // 60))
            self.admit()
            unfinished = self.submitted() - self.finished
            migrants = []
            if self.by_priority:
                self.loads = self.measured()
                rules.set_priorities(self)
                migrants = self.select_migrants()
                self.keep_snapshot(migrants)
                yield from self.decide(self.tasks(WAITING) + migrants)
            elif self.order == "fifo":
                self.loads = self.nominal()
                yield from self.decide(self.tasks(WAITING))
            else:
                rules.play_baseline(self)
            self.evict(migrants)
            self.execute()
            reward = self.complete()
            self.total += reward
            by_jobs = -unfinished / len(self.all_jobs)
            usual = by_jobs if self.order == "fifo" else reward
            self.earned += self.standing if self.reward == "standing" else usual

    def submitted(self):
        return sum(job.row["submit_time"] <= 60 * self.t for job in self.all_jobs)

    def admit(self):
        while self.admitted < len(self.all_jobs) and len(self.active) < self.config["max_active"]:
            job = self.all_jobs[self.admitted]
            if job.row["submit_time"] > 60 * self.t:
                break
            self.admitted += 1
            self.active.append(job)
            if self.use_mlfc:
                job.limit = self.stop_limit(job, busy=False)
            for task in job.tasks:
                task.renew(self.t)

    def limits(self, job):
        row = job.row
        return (row["iterations"], max(row["opt_iter"], row["req_iter"]), row["req_iter"])

    def stop_limit(self, job, busy):
        """Iterations after which MLF-C ends a job; predictions are exact here."""
        row, limits = job.row, self.limits(job)
        early_stop = self.config.get("early_stop", "predicted")
        wide = busy or early_stop != "predicted"
        limit = min(
            limits[row["option"] : row["allow"] + 1] if wide else (), default=limits[row["option"]]
        )
        missing = row["req_iter"] - job.it
        latest = self.t - (-missing * job.critical // 1000)
        late = missing > 0 and latest > row["deadline"] // 60
        if early_stop == "hopeless" and busy and late:
            limit = min(limit, max(1, job.it))
        return limit

    def select_migrants(self):
        """Candidates in the order of their selection; their loads leave L."""
        chosen = []
        if not self.config["use_migration"]:
            return chosen
        running = self.tasks(RUNNING)
        for s in range(self.num_servers):
            left = [task for task in running if task.server == s]
            while left and self.loads.overloaded(s):
                task = rules.migrant(self, s, left)
                self.loads.add(task, self.wave(task), -1)
                task.candidate = True
                left.remove(task)
                chosen.append(task)
        return chosen

    def keep_snapshot(self, migrants):
        if self.snapshot_slots is not None and self.t not in self.snapshot_slots:
            return
        present = [x for job in self.active for x in job.tasks if x.state in (WAITING, RUNNING)]
        self.snapshots.append({
            "slot": self.t,
            "migrants": [list(task.key) for task in migrants],
            "priority": [[*task.key, task.state, task.priority] for task in present],
        })  # fmt: skip

    def decide(self, tasks):
        """Offer tasks one at a time: by priority, or in table order under the baselines' fit."""
        self.offers = 0
        ranked = sorted(tasks, key=lambda x: (-x.priority if self.by_priority else 0, *x.key))
        for task in ranked:
            if self.offers == self.config["max_offers"]:
                break
            mask = [self.valid(task, s) for s in range(self.num_servers)]
            if not any(mask):
                continue
            self.offered = task
            observation = rules.observation(self, task, mask)
            mask = [*map(int, mask), 1]
            self.offer = Offer(*task.key, task.candidate, mask, observation)
            action = yield
            self.offers += 1
            if 0 <= action < self.num_servers and mask[action]:
                self.migrations += task.candidate and task.prev != action
                self.place(task, action, self.loads.least_gpu(action))
                self.loads.add(task, self.estimate(task))
                task.candidate = False

    def estimate(self, task):
        return self.wave(task) if task.candidate else NOMINAL

    def valid(self, task, s):
        if self.by_priority:
            return self.loads.fits(task, s, self.estimate(task))
        return self.loads.fits_nominally(task, s)

    def place(self, task, s, gpu):
        """Put a task on a server's GPU, charging communication once and every move."""
        job = task.job
        if job.home < 0:
            job.home = s
        cross = task.tot - job.local(task, s)
        length = task.work + cross * 1000 // self.config["flow_rate"]
        if not task.started:
            task.started, task.rem = True, length
            self.sent += cross
        if task.prev not in (-1, s):
            task.rem += self.config["move_work"]
            self.sent += self.config["move_mb"]
        task.bw = cross * 1000 // length
        task.server = task.prev = s
        task.gpu, task.state = gpu, RUNNING

    def evict(self, migrants):
        for task in migrants:
            if task.candidate:
                task.candidate, task.state, task.wait_since = False, WAITING, self.t
                self.evictions += 1

    def execute(self):
        loads, h_r = self.measured(), self.config["h_r"]
        uses = [loads.use(s) for s in range(self.num_servers)]
        for task in self.tasks(RUNNING):
            u = max(loads.gpus[task.server][task.gpu], *uses[task.server][1:])
            q = min(1000, 1000 * h_r // u) if u else 1000
            task.rem -= (q * q // 1000) * q // 1000
        self.overloads += sum(loads.overloaded(s) for s in range(self.num_servers))
        norm = sum(math.isqrt(sum(x * x for x in use)) for use in uses)
        busy = norm > self.config["h_s"] * self.num_servers
        self.over_flag = busy or bool(self.tasks(WAITING))
        for job in self.active:
            count = len(job.running())
            job.attained += count
            job.run_slots += count > 0
            if count and job.start < 0:
                job.start = 60 * self.t

    def complete(self):
        """End the slot; returns its reward."""
        self.t += 1
        over = []
        for job in self.active:
            for task in job.running():
                if task.rem <= 0:
                    task.state = DONE
            for task in job.tasks:
                if task.state == NOT_READY and all(x.state == DONE for x in task.parents):
                    task.state, task.wait_since = WAITING, self.t
            if all(task.state == DONE for task in job.tasks) and self.end_iteration(job):
                over.append(job)
        time = 60 * self.t
        standing = sum(rules.finish_reward(job, time) for job in self.active)
        self.active = [job for job in self.active if job.finish < 0]
        self.finished += len(over)
        sent, self.sent = self.sent, 0
        self.bandwidth += sent
        gains = sum(rules.finish_reward(job, time) for job in over)
        traffic = 0.25 * sent / self.b_max
        self.standing = standing / len(self.all_jobs) - traffic
        return gains / len(self.all_jobs) - traffic

    def end_iteration(self, job):
        """Count an iteration; returns whether the job is over."""
        row = job.row
        job.it += 1
        if 60 * self.t <= row["deadline"]:
            job.it_by_deadline = job.it
        if self.use_mlfc:
            job.limit = self.stop_limit(job, self.over_flag)
        if job.it >= job.limit:
            job.finish = 60 * self.t
            return True
        for task in job.tasks:
            task.renew(self.t)
        return False
