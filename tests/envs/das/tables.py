"""Small random tables for the tests of DAS."""

import numpy as np

from jaxsched.envs.das import DAS, GANG_JOBS
from jaxsched.jobs import JobTable

ENV = DAS(num_servers=3, window=4, reward="dense")


def random_table(seed, jobs=12, gap=40, longest=300):
    """Gangs of up to 12 GPUs that arrive in bursts and queue."""
    random = np.random.default_rng(seed)
    gpus = random.choice([1, 1, 2, 4, 8], jobs)
    instances = np.minimum(random.choice([1, 1, 2, 3], jobs), 12 // gpus).clip(1)
    submit = np.cumsum(random.choice([0, 1, 1], jobs) * random.integers(1, gap, jobs))
    columns = {
        "submit_time": submit - submit[0],
        "num_instances": instances,
        "gpus_per_instance": gpus,
        "cpus_per_instance": random.integers(0, 12, jobs) * gpus,
        "mem_per_instance": random.integers(1, 48, jobs) * gpus,
        "duration": random.integers(5, longest, jobs),
    }
    return JobTable(columns, f"random-{seed}", schema=GANG_JOBS)


def params_of(env, count, jobs=12):
    """Parameters of so many such tables."""
    return env.params([random_table(seed, jobs) for seed in range(count)])
