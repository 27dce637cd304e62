"""Rules of MLFS that the simulator applies: priorities, choices, baselines, records, cases."""

import heapq
import random
from collections import deque
from statistics import mean, median

NOT_READY, WAITING, RUNNING, DONE = range(4)
WAVE = (800, 900, 1000, 1100, 1200, 1100, 1000, 900)
NOMINAL = 1000
CAP = 5_000_000
MODELS = 5
SIZES = (1, 2, 4, 8, 16, 32)
HIDDEN_FROM_RL = (14, 17, 18, 26, 32)  # urgency, rat, size, left, priority


def ratio(job):
    """Loss reduction of the current iteration over the sum so far (pm)."""
    i, a = job.it + 1, job.row["curve_a"]
    return 1000 if i <= 2 else 1_000_000 // ((i - 1) * (1000 + a * (i - 2)))


def iterations_after(job):
    return max(0, job.limit - job.it - 1)


def remaining(job):
    """Task-minutes left in a job."""
    return -(-(iterations_after(job) + 1) * job.sum_work // 1000)


def set_priorities(sim):
    """Equations 2-6 for every task of the active jobs."""
    config = sim.config
    alpha, gamma = config["alpha"], config["gamma"]
    unit = {"hour": 60, "day": 1440}[config.get("waiting_unit", "hour")]
    for job in sim.active:
        row, rat, i = job.row, ratio(job), job.it + 1
        urgency = row["urgency"] if config["use_urgency"] else 1
        tr = 600_000 // max(10, remaining(job))
        for task in sorted(job.tasks, key=lambda x: -x.layer):
            ml = urgency * task.size * rat // i // 1000
            spare = iterations_after(job) * job.critical + job.tails[task.layer]
            task.left = row["deadline"] // 60 - spare // 1000 - sim.t
            td = 60_000 // task.left if task.left > 0 and config["use_deadline"] else 0
            tw = (sim.t - task.wait_since) * 1000 // unit if task.state == WAITING else 0
            c = (config["g_d"] * td + config["g_r"] * tr + config["g_w"] * tw) // 100
            ml += gamma * sum(x.ml for x in task.children) // 100
            c += gamma * sum(x.c for x in task.children) // 100
            task.ml, task.c = min(ml, CAP), min(c, CAP)
            task.priority = (alpha * task.ml + (100 - alpha) * task.c) // 100


def local_share(sim, task, server):
    return 1000 * task.job.local(task, server) // max(1, task.tot)


def distance(one, other):
    return sum((x - y) ** 2 for x, y in zip(one, other, strict=True))


def migrant(sim, s, left):
    """The next task to leave an overloaded server."""
    loads, h_r = sim.loads, sim.config["h_r"]
    cpu, mem, bw = loads.caps
    hot = [task for task in left if loads.gpus[s][task.gpu] > h_r]
    pool = left
    if hot:
        hot.sort(key=lambda x: (x.priority, *x.key))
        pool = hot[: max(1, -(-sim.config["p_s"] * len(hot) // 100))]
    vectors = {}
    for task in left:
        row, wave = task.job.row, sim.wave(task)
        vectors[task] = (
            row["gpu_demand"] * wave // 1000 // len(loads.gpus[s]),
            row["cpus"] * wave // cpu,
            1000 * row["mem"] // mem,
            1000 * task.bw // bw,
            local_share(sim, task, s) if sim.config["use_bw"] else 0,
        )
    over = [use > h_r for use in loads.use(s)]
    over[0] = over[0] or max(loads.gpus[s]) > h_r
    columns = list(zip(*vectors.values(), strict=True))[:4]
    ideal = [max(x) if high else min(x) for x, high in zip(columns, over, strict=True)]
    return min(pool, key=lambda x: (distance(vectors[x], [*ideal, 0]), *x.key))


def host(sim, task, valid):
    """MLF-H's server for a task, among the valid ones."""
    move, vectors = sim.config["move_work"], {}
    for s in range(sim.num_servers):
        if not sim.loads.overloaded(s):
            share = local_share(sim, task, s) if sim.config["use_bw"] else 0
            cost = 0 if task.prev in (-1, s) else 1000 * move // (task.work + move)
            vectors[s] = (*sim.loads.use(s), share, cost)
    columns = list(zip(*vectors.values(), strict=True))
    ideal = [*map(min, columns[:4]), max(columns[4]), 0]
    return min(valid, key=lambda s: (distance(vectors[s], ideal), s))


def observation(sim, task=None, valid=None):
    """The features of section 4; without a task, those of the end of an episode."""
    config, loads, servers = sim.config, sim.loads, range(sim.num_servers)
    states = [x.state for job in sim.active for x in job.tasks]
    uses = [loads.use(s) for s in servers]
    features = [
        sim.t / 1440,
        len(sim.active) / config["max_active"],
        states.count(WAITING) / 1000,
        states.count(RUNNING) / 1000,
        float(sim.over_flag),
        sum(use[0] for use in uses) // sim.num_servers / 1000,
        sim.offers / config["max_offers"],
        (sim.submitted() - sim.admitted) / 1000,
    ]
    features += task_features(sim, task) if task else [0.0] * 26
    if not sim.by_priority:
        for i in HIDDEN_FROM_RL:
            features[i] = 0.0
    for s in servers:
        gpus = loads.gpus[s]
        features += [use / 1000 for use in uses[s]]
        features += [min(gpus) / 1000, max(gpus) / 1000]
        features += [local_share(sim, task, s) / 1000 if task else 0.0]
        features += [float(task is not None and task.prev not in (-1, s))]
        features += [float(not loads.overloaded(s)), float(bool(valid and valid[s]))]
    return features


def task_features(sim, task):
    job, row, wave = task.job, task.job.row, sim.estimate(task)
    cpu, mem, _ = sim.loads.caps
    below = job.layers - 1 - task.layer
    waited = 0 if task.candidate else sim.t - task.wait_since
    return [
        *(float(row["model"] == model) for model in range(MODELS)),
        row["num_gpus"] / 32,
        row["urgency"] / 10,
        (job.it + 1) / row["iterations"],
        (job.limit - job.it) / 200,
        ratio(job) / 1000,
        task.size / 1000,
        task.work / 10000,
        (task.rem if task.started else task.work) / 10000,
        task.layer / 16,
        job.layers / 16,
        below * job.width / 32,
        len(task.children) / 32,
        waited / 1440,
        max(-10080, min(10080, task.left)) / 1440,
        remaining(job) / 1440,
        row["gpu_demand"] * wave // 1000 / 1000,
        row["cpus"] * wave // cpu / 1000,
        1000 * row["mem"] // mem / 1000,
        float(task.candidate),
        task.priority / 1e6,
        task.tot / 10000,
    ]


def running_pm(job):
    return job.row["gpu_demand"] * len(job.running())


def job_key(sim, job):
    """A baseline's key of a job's tasks (fair has its own); smaller first."""
    row, n, left = job.row, job.it + 1, job.row["deadline"] // 60 - sim.t
    a, cpm = row["curve_a"], max(1, -(-job.critical // 1000))

    def loss(iterations):
        return 1_000_000 // (1000 + a * iterations)

    if sim.policy == "slaq":
        return (-(loss(n - 1) * (1000 * a // (1000 + a * n)) * 100 // cpm),)
    if sim.policy == "tiresias":
        return (int(60 * job.attained >= sim.config["tiresias_threshold"]),)
    if sim.policy == "graphene":
        cpu, mem, _ = sim.loads.caps
        soon = 10_000 // (10 + (job.limit - job.it) * job.sum_work // 60_000)
        pack = max(row["gpu_demand"], 1000 * row["cpus"] // cpu, 1000 * row["mem"] // mem)
        share = 20_000 * running_pm(job) // (1000 * sum(sim.config["gpus"]))
        return (-(soon + pack + 1000 - min(1000, share)),)
    if sim.policy == "hypersched":
        more = min(row["iterations"] - job.it, max(0, left) // cpm)
        gain = loss(job.it) - loss(job.it + more)
        flat = loss(job.it) - loss(job.it + 1) < 5
        return (2 if left <= 0 else int(flat), -(gain * 1000 // max(1, more * cpm)))
    return ()


def baseline_order(sim, waiting):
    """Waiting tasks in a baseline's order; fair looks again after every placement."""
    if sim.policy != "fair":
        keys = {job: job_key(sim, job) for job in sim.active}
        deepest_last = sim.policy == "graphene"  # most descendants first
        yield from sorted(
            waiting,
            key=lambda x: (keys[x.job], x.job.index, deepest_last and x.layer, x.index),
        )
        return
    queues = {}
    for task in waiting:
        queues.setdefault(task.job, deque()).append(task)
    heap = [(running_pm(job), job.index, job) for job in queues]
    heapq.heapify(heap)
    while heap:
        job = heapq.heappop(heap)[2]
        yield queues[job].popleft()
        if queues[job]:
            heapq.heappush(heap, (running_pm(job), job.index, job))


def least_loaded(loads, servers):
    return min(servers, key=lambda s: (sum(loads.gpus[s]) // len(loads.gpus[s]), s))


def preferred(sim, task, fitting):
    """The servers that a baseline prefers among the fitting ones."""
    job = task.job
    if sim.policy == "tiresias" and job.row["model"] in (0, 2):
        servers = [x.server for x in job.running()]
        most = max(map(servers.count, fitting))
        return [s for s in fitting if servers.count(s) == most]
    if sim.policy == "gandiva":
        peers = [x for x in sim.active if x.row["num_gpus"] == job.row["num_gpus"]]
        hosts = {x.server for peer in peers for x in peer.running()}
        return [s for s in fitting if s in hosts] or fitting
    return fitting


def play_baseline(sim):
    """Step 4 of a baseline, on nominal loads."""
    sim.loads = loads = sim.nominal()
    if sim.policy == "gandiva":
        gandiva_moves(sim, loads)
    placed, passed_over = 0, set()
    for task in baseline_order(sim, sim.tasks(WAITING)):
        if placed == sim.config["max_offers"]:
            break
        if task.job in passed_over:  # a job's tasks all ask for the same
            continue
        fitting = [s for s in range(sim.num_servers) if loads.fits_nominally(task, s)]
        if not fitting:
            passed_over.add(task.job)
            continue
        s = least_loaded(loads, preferred(sim, task, fitting))
        sim.place(task, s, loads.least_gpu(s))
        loads.add(task, NOMINAL)
        placed += 1


def gandiva_moves(sim, nominal):
    """Move a task off every GPU whose measured load is too high."""
    measured, h_r = sim.measured(), sim.config["h_r"]
    gpus = [(s, i) for s, loads in enumerate(measured.gpus) for i in range(len(loads))]
    running = sim.tasks(RUNNING)

    def load(task):
        return task.job.row["gpu_demand"] * sim.wave(task) // 1000

    for s, i in gpus:
        here = [x for x in running if (x.server, x.gpu) == (s, i)]
        if measured.gpus[s][i] <= h_r or not here:
            continue
        task = min(here, key=lambda x: (load(x), *x.key))
        row = task.job.row
        to, gpu = min(gpus, key=lambda x: (measured.gpus[x[0]][x[1]], x))
        fits = (
            (to, gpu) != (s, i)
            and measured.gpus[to][gpu] + load(task) <= h_r
            and nominal.gpus[to][gpu] + row["gpu_demand"] <= 1000
        )
        if to != s:
            cpu, mem, _ = nominal.caps
            fits = fits and nominal.cpus[to] + 1000 * row["cpus"] <= 1000 * cpu
            fits = fits and nominal.mem[to] + row["mem"] <= mem
        if fits:
            measured.add(task, sim.wave(task), -1)
            nominal.add(task, NOMINAL, -1)
            sim.migrations += to != s
            sim.place(task, to, gpu)
            measured.add(task, sim.wave(task))
            nominal.add(task, NOMINAL)


def finish_reward(job, time):
    """The terms of section 6 that a job earns that finishes at a time."""
    row = job.row
    minutes = -(-(time - row["submit_time"]) // 60)
    gain = 0.5 * min(1, 60 / minutes) + 0.55 * (time <= row["deadline"])
    gain += 0.15 * (job.it_by_deadline >= row["req_iter"])
    return gain + 0.15 * job.accuracy(job.it_by_deadline)


def metrics(sim):
    """The metrics of section 8; those of finished jobs are 0 if there are none."""
    done = [job for job in sim.all_jobs if job.finish >= 0]
    jcts = [job.finish - job.row["submit_time"] for job in done]
    urgent = [job for job in done if job.row["urgency"] > 8]

    def average(values):
        values = list(values)
        return float(mean(values)) if values else 0.0

    def met(jobs):
        return average(job.finish <= job.row["deadline"] for job in jobs)

    runs = [60 * job.run_slots for job in done]
    last = max((job.finish for job in done), default=0)
    return {
        "finished": len(done),
        "avg_jct": average(jcts),
        "median_jct": float(median(jcts)) if jcts else 0.0,
        "jct_under_100min": average(jct < 6000 for jct in jcts),
        "makespan": last - sim.rows[0]["submit_time"] if done else 0,
        "avg_wait": average(x - run for x, run in zip(jcts, runs, strict=True)),
        "avg_run": average(runs),
        "deadline_ratio": met(done),
        "urgent_deadline_ratio": met(urgent),
        "avg_accuracy": average(job.accuracy(job.it_by_deadline) for job in done),
        "accuracy_ratio": average(job.it_by_deadline >= job.row["req_iter"] for job in done),
        "bandwidth_mb": sim.bandwidth,
        "overloads": sim.overloads,
        "migrations": sim.migrations,
        "evictions": sim.evictions,
        "iterations": sum(job.it for job in done),
        "return": sim.total,
    }


def job_records(sim):
    return [
        {
            "start": None if job.start < 0 else job.start,
            "finish": None if job.finish < 0 else job.finish,
            "home": job.home,
            "iterations": job.it,
            "iters_by_deadline": job.it_by_deadline,
            "run_slots": job.run_slots,
        }
        for job in sim.all_jobs
    ]


def random_case(
    seed,
    *,
    servers=2,
    num_jobs=8,
    gpus_at_most=4,
    sizes=SIZES,
    iterations_at_most=3,
    max_active=5,
    max_offers=6,
    **options,
):
    """A small legal case in the layout of the golden files; ``options`` go into its config.

    Which resource is scarce, the gaps between submissions and, unless given, a cut by
    ``max_slots`` are drawn. Shapes (servers, jobs, window, offers) are as given.
    """
    draw = random.Random(seed)
    scarce = draw.choice(("none", "cpu", "mem", "bw", "all"))
    flow_rate = draw.choice((1000, 4000, 10_000))
    config = {
        "gpus": [draw.randint(1, gpus_at_most) for _ in range(servers)],
        "cpus_per_server": draw.randint(4, 8) if scarce in ("cpu", "all") else 32,
        "mem_per_server": draw.randint(20, 48) if scarce in ("mem", "all") else 244,
        "bw_per_server": flow_rate * (2 if scarce in ("bw", "all") else 8),
        "flow_rate": flow_rate,
        "comm_rounds": draw.choice((10, 40)),
        "move_work": draw.choice((250, 700)),
        "move_mb": draw.choice((0, 500)),
        "max_active": max_active,
        "max_offers": max_offers,
        "h_r": 900,
        "h_s": draw.choice((300, 900)),
        "p_s": draw.choice((10, 40, 100)),
        **{"alpha": 30, "gamma": 80, "g_d": 30, "g_r": 30, "g_w": 35},
        **{"use_urgency": True, "use_deadline": True, "use_bw": True, "use_migration": True},
        "use_mlfc": False,
        "tiresias_threshold": draw.choice((600, 6000)),
    }
    time = draw.choice((0, 0, 59, 60, 7230))
    cut = draw.random() < 0.2
    config["max_slots"] = time // 60 + draw.randint(5, 60) if cut else 40_000
    jobs = []
    for _ in range(num_jobs):
        jobs.append(random_row(draw, config, time, draw.choice(sizes), iterations_at_most))
        time += draw.choice((0, 0, 1, 59, 60, 61, 180, 400, draw.randint(0, 900), 9000))
    return {
        "system": "mlfs",
        "name": f"random {seed}",
        "config": {**config, **options},
        "jobs": jobs,
    }


def random_row(draw, config, time, num_gpus, iterations_at_most):
    """One legal row, submitted at ``time``."""
    model = draw.randrange(MODELS)
    replicas = num_gpus if model == 4 else 1 if num_gpus <= 2 else 2
    partitions = num_gpus // replicas
    weights = [draw.uniform(0.5, 1.5) for _ in range(partitions)]
    longest = 3500 if partitions <= 4 else 1200
    quiet = draw.random() < 0.1
    iterations = draw.randint(1, iterations_at_most)
    return {
        "submit_time": time,
        "num_gpus": num_gpus,
        "model": model,
        "iterations": iterations,
        "opt_iter": draw.randint(1, iterations),
        "req_iter": draw.randint(1, iterations),
        "work": [draw.choice((1000, draw.randint(300, longest))) for _ in range(partitions)],
        "size": [max(1, int(1000 * weight / sum(weights))) for weight in weights],
        "gpu_demand": draw.choice((100, 200, 250, 300, 350, 400, 450, 450, 600, 750)),
        "cpus": draw.randint(1, min(4, 3 * config["cpus_per_server"] // 4)),
        "mem": draw.randint(1, min(16, 9 * config["mem_per_server"] // 10)),
        "vol_worker": 0 if quiet else draw.randint(50, 100),
        "vol_ps": 0 if quiet else draw.randint(50, 100),
        "deadline": time + draw.randint(60, 12_000),
        "urgency": draw.randint(1, 10),
        "curve_a": draw.randint(10, 60_000) // iterations,
        "acc_max": round(draw.uniform(0.7, 0.99), 4),
        "option": draw.randrange(3),
        "allow": draw.randrange(3),
    }
