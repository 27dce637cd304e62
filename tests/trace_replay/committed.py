"""A plain event loop of mode ``commit``, written from its rules alone: Python numbers and lists."""

import math

KEYS = {
    "fifo": lambda submit, gpus, run: submit,
    "lifo": lambda submit, gpus, run: -submit,
    "sjf": lambda submit, gpus, run: run,
    "sjf-narrow": lambda submit, gpus, run: (run, gpus),
    "lpf": lambda submit, gpus, run: -run,
    "lrf": lambda submit, gpus, run: gpus,
    "spf": lambda submit, gpus, run: run * gpus,
    "f1": lambda submit, gpus, run: math.log10(run or 0.1) * gpus + 870 * math.log10(submit or 0.1),
}


def committed_starts(jobs, kinds, order, placement):
    """When jobs start, and the first server of each.

    Args:
      jobs: ``(submit, gpus, run time)`` in order of submission.
      kinds: ``(servers, GPUs of each, GPUs of the largest job)``.
      order: one of ``KEYS``.
      placement: the job's remainder goes to the server with the fewest or most free GPUs, or the
        first.
    """
    sizes = [gpus for count, gpus, _ in kinds for _ in range(count)]
    free, queue, running = list(sizes), [], []
    found, time, coming = {}, 0, list(range(len(jobs)))

    def places(gpus):
        for _, size, largest in kinds:
            whole, rest = divmod(gpus, size)
            own = [s for s, each in enumerate(sizes) if each == size]
            taken = dict.fromkeys([s for s in own if free[s] == size][:whole], size)
            able = [s for s in own if s not in taken and free[s] >= rest]
            if gpus > largest or len(taken) < whole or (rest and not able):
                continue
            weight = {"pack": 1, "first_fit": 0, "load_balance": -1}[placement]
            if rest:
                taken[min(able, key=lambda s: (weight * free[s], s))] = rest
            return taken
        return None

    def event():
        nonlocal time
        first = min(running, key=lambda run: run[0], default=None)  # ties: the first to start
        if coming and (first is None or jobs[coming[0]][0] <= first[0]):
            queue.append(coming.pop(0))
            time = max(time, jobs[queue[-1]][0])
        else:
            time = max(time, first[0])
            running.remove(first)
            for server, gpus in first[1].items():
                free[server] += gpus

    while coming or queue:
        while not queue:
            event()
        job = min(queue, key=lambda j: KEYS[order](*jobs[j]))
        while (taken := places(jobs[job][1])) is None:
            event()
        queue.remove(job)
        for server, gpus in taken.items():
            free[server] -= gpus
        running.append((time + jobs[job][2], taken))
        found[job] = time, min(taken)
    return [found[job] for job in range(len(jobs))]
