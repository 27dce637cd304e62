"""gpu-choochoo's environment for GPU clusters (Gymnasium, plain Python): uniform actions.

Its generator of scenarios (release 0.1.0) fails, so cluster and jobs are ours: eight servers of
eight GPUs, jobs of 1 to 8 GPUs, at a load of about 80 per cent. Any action is accepted there, and
means nothing where there is no such job.
"""

import random
from typing import Any

from gpu_choochoo.envs.scheduler_env import GPUSchedulerEnv

from jaxsched.bench.peer_workers.protocol import serve, time_alone

SERVERS, GPUS, JOBS = 8, 8, 500
QUEUE = 10  # positions, as many as ours shows by default
MEAN_S, GAP_S = 3600.0, 220.0


def jobs_of(draw: random.Random) -> list[dict[str, Any]]:
    """Jobs in its form, memory being no constraint."""
    jobs, time = [], 0.0
    for number in range(JOBS):
        time += draw.expovariate(1 / GAP_S)
        jobs.append(
            {
                "job_id": number,
                "arrival_time": time,
                "gpus_required": draw.choice((1, 1, 2, 4, 8)),
                "duration_sec": draw.expovariate(1 / MEAN_S),
                "vram_required_gb": 1.0,
            }
        )
    return jobs


def main() -> None:
    """Answer requests."""
    draw = random.Random(0)
    nodes = [
        {"node_id": str(n), "gpu_type": "A100", "total_gpus": GPUS, "total_vram_gb": 80.0 * GPUS}
        for n in range(SERVERS)
    ]
    env = GPUSchedulerEnv(nodes, jobs_of(draw), max_queue_obs=QUEUE, max_nodes=SERVERS)
    env.reset(seed=0)

    def steps(number: int) -> None:
        for _ in range(number):
            *_, terminated, truncated, _ = env.step(draw.randrange(QUEUE + 1))
            if terminated or truncated:
                env.reset()

    packages = ("gpu-choochoo", "gymnasium", "numpy")
    serve("gpu-choochoo", packages, lambda asked: time_alone(steps, asked), batched=False)


if __name__ == "__main__":
    main()
