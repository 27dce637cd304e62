"""SCHED2 once more, in slow plain Python, written from the specification's text alone.

It shares nothing with the library and holds no clever data structure: every job is an object in a
list, every GPU remembers which job it holds. Tests compare the library with it step by step.
"""

# Section 2: slowdown in tenths at locality levels 0..3, by model.
SLOWDOWN10 = [
    [10, 40, 70, 100],  # AlexNet
    [10, 14, 18, 22],  # InceptionV3
    [10, 15, 20, 25],  # ResNet-50
    [10, 59, 108, 157],  # VGG16
    [10, 16, 22, 28],  # DeepSpeech
    [10, 27, 44, 61],  # Transformer
]
SENSITIVE = [True, False, False, True, False, True]


def level_of(extra):
    """Locality level of a placement with that many more servers than necessary."""
    if extra == 0:
        return 0
    if extra == 1:
        return 1
    return 2 if extra <= 3 else 3


def ceil_div(a, b):
    return (a + b - 1) // b


def choose_gpus(free, wanted):
    """The packing loop of section 3: server -> GPUs taken, ``free`` GPUs per server."""
    free = list(free)
    taken = {}
    left = wanted
    while left > 0:
        able = [s for s in range(len(free)) if free[s] >= left]
        if able:
            server = min(able, key=lambda s: (free[s], s))
            count = left
        else:
            server = min(range(len(free)), key=lambda s: (-free[s], s))
            count = free[server]
        taken[server] = taken.get(server, 0) + count
        free[server] -= count
        left -= count
    return taken


class Job:
    """A row of the table and what became of it."""

    def __init__(self, index, submit, num_gpus, duration, model):
        self.index = index
        self.submit = submit
        self.g = num_gpus
        self.d = duration
        self.model = model
        self.start = None  # None until it is started
        self.finish = None
        self.level = None
        self.gpus = None  # (server, gpu) pairs
        self.reused = None

    def run_at(self, level):
        return (self.d * SLOWDOWN10[self.model][level] + 5) // 10

    @property
    def wait(self):
        return self.start - self.submit

    @property
    def effectiveness(self):
        return self.d / (self.finish - self.submit)


class Gpu:
    """One GPU: the job it holds, if any, and whether the last finished one was packed."""

    def __init__(self):
        self.job = None
        self.good = False


class Cluster:
    """An episode of one job table (rows ``submit_time, num_gpus, duration, model``)."""

    def __init__(
        self,
        rows,
        num_servers,
        gpus_per_server,
        window,
        *,
        profile="time",
        auto_advance=False,
        reward="literal",
        extras=False,
        time_scale=3600.0,
        invalid_penalty=0.0,
    ):
        self.N, self.M, self.J = num_servers, gpus_per_server, window
        self.profile, self.reward_kind, self.auto_advance = profile, reward, auto_advance
        self.extras, self.time_scale, self.penalty = extras, time_scale, invalid_penalty
        self.jobs = [Job(i, *row) for i, row in enumerate(rows)]
        self.t = 0
        self.gpus = [[Gpu() for _ in range(self.M)] for _ in range(self.N)]
        self.coming = list(self.jobs)
        self.queue = []
        self.running = []
        self.order = []
        self.fragmentation_curve = []
        self.queue_gpus_curve = []
        self.invalid_actions = 0
        self.admit()

    # Section 3: dynamics

    def admit(self):
        while self.coming and self.coming[0].submit <= self.t:
            self.queue.append(self.coming.pop(0))

    def free_counts(self):
        return [sum(1 for gpu in server if gpu.job is None) for server in self.gpus]

    def fits(self, job):
        return job.g <= sum(self.free_counts())

    def mask(self):
        positions = [i < len(self.queue) and self.fits(self.queue[i]) for i in range(self.J)]
        return [*positions, bool(self.running or self.coming)]

    @property
    def done(self):
        return not self.queue and not self.coming

    def level_now(self, job):
        return level_of(len(choose_gpus(self.free_counts(), job.g)) - ceil_div(job.g, self.M))

    def start(self, job):
        taken = choose_gpus(self.free_counts(), job.g)
        job.level = level_of(len(taken) - ceil_div(job.g, self.M))
        job.start = self.t
        job.finish = self.t + job.run_at(job.level)
        job.gpus = []
        for server in sorted(taken):
            idle = [i for i in range(self.M) if self.gpus[server][i].job is None]
            job.gpus += [(server, i) for i in idle[: taken[server]]]
        used = [self.gpus[s][i] for s, i in job.gpus]
        job.reused = job.g > 1 and job.level == 0 and all(gpu.good for gpu in used)
        for gpu in used:
            gpu.job = job
        self.queue.remove(job)
        self.running.append(job)
        self.order.append(job.index)
        self.fragmentation_curve.append(self.fragmentation())
        self.queue_gpus_curve.append(sum(waiting.g for waiting in self.queue))

    def advance(self):
        """To the next instant; returns what waiting cost (section 6, dense)."""
        instants = [job.finish for job in self.running] + [job.submit for job in self.coming]
        instant = min(instants)
        assert instant > self.t
        cost = 0.0
        for job in self.queue:
            w, more, d = self.t - job.submit, instant - self.t, job.d
            cost += d / (w + d) - d / (w + more + d)
        self.t = instant
        for job in [job for job in self.running if job.finish == instant]:
            self.running.remove(job)
            for s, i in job.gpus:
                self.gpus[s][i].job = None
                self.gpus[s][i].good = job.g > 1 and job.level == 0
        self.admit()
        return cost

    def step(self, action):
        """``(reward, done, invalid, elapsed)``; a finished episode stays as it is."""
        if self.done:
            return 0.0, True, False, 0
        before, mask, void = self.t, self.mask(), self.J
        invalid = not 0 <= action <= self.J or not mask[action]
        if invalid:
            self.invalid_actions += 1
            action = void if mask[void] else 0
        gain = cost = 0.0
        if action == void:
            cost += self.advance()
        else:
            job = self.queue[action]
            self.start(job)
            gain = job.effectiveness
            cost += job.d / (job.wait + job.d) - job.effectiveness
        while self.auto_advance and not self.done and not any(self.mask()[:void]):
            cost += self.advance()
        reward = gain if self.reward_kind == "literal" else -cost
        if invalid:
            reward -= self.penalty
        return reward, self.done, invalid, self.t - before

    # Section 4: observation

    def observation(self):
        scale = self.time_scale
        values = []
        for server in self.gpus:
            for gpu in server:
                values.append((gpu.job.finish - self.t) / scale if gpu.job else 0.0)
        for q in range(self.J):
            if q >= len(self.queue):
                values += [0.0] * 6
                continue
            job = self.queue[q]
            least = ceil_div(job.g, self.M)
            worst = level_of(max(min(job.g, self.N), least) - least)
            for level in range(4):
                level = min(level, worst)
                if self.profile == "time":
                    values.append(job.run_at(level) / scale)
                else:
                    values.append(SLOWDOWN10[job.model][level] / 10)
            values += [job.g / self.M, (self.t - job.submit) / scale]
        beyond = self.queue[self.J :]
        if beyond:
            n = len(beyond)
            values += [
                n / self.J,
                sum(job.g for job in beyond) / n / self.M,
                sum(job.d for job in beyond) / n / scale,
                sum(self.t - job.submit for job in beyond) / n / scale,
            ]
        else:
            values += [0.0] * 4
        if self.extras:
            mask = self.mask()
            for q in range(self.J):
                if mask[q]:
                    job, level = self.queue[q], self.level_now(self.queue[q])
                    jct = self.t - job.submit + job.run_at(level)
                    values += [level / 3, job.d / jct]
                else:
                    values += [0.0, 0.0]
        return values

    # Section 8: metrics

    def fragmentation(self):
        total = 0.0
        for server in self.gpus:
            x = [gpu.job.finish - self.t if gpu.job else 0 for gpu in server]
            if any(x):
                total += 1 - sum(x) ** 2 / (self.M * sum(v * v for v in x))
        return total / self.N

    def metrics(self):
        started = [job for job in self.jobs if job.start is not None]
        multi = [job for job in started if job.g > 1]
        sensitive = [job for job in multi if SENSITIVE[job.model]]
        insensitive = [job for job in multi if not SENSITIVE[job.model]]
        makespan = max((job.finish for job in started), default=0)
        used = sum(job.g * (job.finish - job.start) for job in started)
        return {
            "finished": len(started),
            "avg_jct": mean(job.finish - job.submit for job in started),
            "makespan": makespan,
            "avg_wait": mean(job.wait for job in started),
            "avg_run": mean(job.finish - job.start for job in started),
            "avg_slowdown": mean((job.finish - job.submit) / job.d for job in started),
            "avg_effectiveness": mean(job.effectiveness for job in started),
            "utilization": used / (self.N * self.M * makespan) if makespan else 0.0,
            "fragmentation": mean(self.fragmentation_curve),
            "relaxed_sensitive": mean(job.level > 0 for job in sensitive),
            "relaxed_insensitive": mean(job.level > 0 for job in insensitive),
            "wait_sensitive": mean(job.wait for job in sensitive),
            "wait_insensitive": mean(job.wait for job in insensitive),
            "reuse_fraction": mean(job.reused for job in multi),
        }


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def play_baseline(cluster, name, mode, baseline_window):
    """The loop of section 9; ``baseline_window`` 0 is the whole queue."""
    delays = {}

    def key(job):
        rank = {
            "fifo": lambda: 0,
            "sif": lambda: job.d,
            "dsif": lambda: job.d,
            "saf": lambda: job.run_at(cluster.level_now(job)),
            "lrf": lambda: job.g,
            "spf": lambda: job.g * job.d,
        }[name]()
        return rank, job.index

    def choose(held):
        """The job to start now, or None."""
        while True:
            seen = cluster.queue[: baseline_window or len(cluster.queue)]
            candidates = [job for job in seen if job not in held]
            if mode == "skip" or name == "saf":
                candidates = [job for job in candidates if cluster.fits(job)]
            if not candidates:
                return None
            job = min(candidates, key=key)
            if not cluster.fits(job):
                return None
            delayed = delays.get(job.index, 0)
            if name == "dsif" and cluster.level_now(job) > 0 and delayed < 3:
                delays[job.index] = delayed + 1
                held.append(job)
                continue
            return job

    def strict():
        seen = cluster.queue[: baseline_window or len(cluster.queue)]
        best = [job for job in seen if cluster.fits(job) and cluster.level_now(job) == 0]
        if name == "strict_sif":
            best.sort(key=lambda job: (job.d, job.index))
        return best[0] if best else None

    while not cluster.done:
        held = []
        while (job := strict() if "strict" in name else choose(held)) is not None:
            cluster.start(job)
        if not cluster.done:
            cluster.advance()
