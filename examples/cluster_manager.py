"""A toy cluster manager that asks a service for every decision; standard library alone.

    jaxsched serve sched2/pretrained &
    python examples/cluster_manager.py --url http://127.0.0.1:8750 [--jobs jobs.json]

Keeps a queue and servers as a real manager would, knows nothing of jaxsched, and prints what came
of the decisions. Without a file it draws jobs of its own.
"""

import argparse
import json
import os
import random
import urllib.request
from dataclasses import dataclass, field

MODELS = 6


@dataclass
class Manager:
    """Jobs and servers of a simulated cluster.

    Attributes:
      url: of the service.
      policy: which of its policies decides.
      busy_until: per server and GPU, when what runs there ends, s.
      to_come: jobs still to be submitted, by submission.
    """

    url: str
    policy: str | None
    busy_until: list[list[int]]
    to_come: list[dict]
    time: int = 0
    waiting: list[dict] = field(default_factory=list)
    done: list[tuple[dict, int, int]] = field(default_factory=list)  # job, start, finish

    def run(self) -> None:
        """Until every job has started."""
        while self.to_come or self.waiting:
            while self.to_come and self.to_come[0]["submit_time"] <= self.time:
                self.waiting.append(self.to_come.pop(0))
            while self.waiting and self.start_one():
                pass
            self.advance()

    def start_one(self) -> bool:
        """Ask which job starts now, and start it."""
        decision = self.ask()
        if decision["start"] is None:
            return False
        (job,) = (job for job in self.waiting if job["id"] == decision["start"])
        self.waiting.remove(job)
        finish = self.time + decision["run_time"]
        for server, gpu in decision["gpus"]:
            assert self.busy_until[server][gpu] <= self.time, "the GPU is not free"
            self.busy_until[server][gpu] = finish
        assert len(decision["gpus"]) == job["num_gpus"]
        self.done.append((job, self.time, finish))
        return True

    def ask(self) -> dict:
        """One decision of the service."""
        cluster = {
            "time": self.time,
            "busy_until": self.busy_until,
            "waiting": self.waiting,
            "more_to_come": bool(self.to_come),
        }
        body = {"cluster": cluster} | ({"policy": self.policy} if self.policy else {})
        headers = {"Content-Type": "application/json"}
        if token := os.environ.get("JAXSCHED_TOKEN"):
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(
            f"{self.url}/decide", json.dumps(body).encode(), headers, method="POST"
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)["decision"]

    def advance(self) -> None:
        """To the next submission or the next end of a job."""
        events = [until for gpus in self.busy_until for until in gpus if until > self.time]
        events += [job["submit_time"] for job in self.to_come[:1]]
        if events:
            self.time = min(events)

    def metrics(self) -> dict[str, float]:
        """Means over the jobs, s."""
        count = len(self.done)
        first = min(job["submit_time"] for job, _, _ in self.done)
        return {
            "jobs": count,
            "avg_jct": sum(end - job["submit_time"] for job, _, end in self.done) / count,
            "avg_wait": sum(start - job["submit_time"] for job, start, _ in self.done) / count,
            "makespan": max(end for _, _, end in self.done) - first,
        }


def drawn_jobs(count: int, seed: int) -> list[dict]:
    """Jobs of random sizes; about as many as 15 servers of 8 GPUs can take."""
    draw, time, jobs = random.Random(seed), 0, []
    for number in range(count):
        gpus = draw.choice((1, 1, 1, 2, 4, 8, 16))
        seconds = 10 * max(round(draw.lognormvariate(8.2, 0.9) / 10), 1)
        job = {"id": number, "submit_time": time, "num_gpus": gpus, "duration": seconds}
        jobs.append(job | {"model": draw.randrange(MODELS)})
        time += round(draw.expovariate(1 / 150))
    return jobs


def main() -> None:
    """Play, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8750")
    parser.add_argument("--policy", help="of the service, where it has several")
    parser.add_argument("--jobs", help="JSON list; id, submit_time, num_gpus, duration, model")
    parser.add_argument("--servers", type=int, default=15)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    jobs = drawn_jobs(options.count, options.seed)
    if options.jobs:
        with open(options.jobs, encoding="utf-8") as file:
            jobs = json.load(file)
    free = [[0] * options.gpus for _ in range(options.servers)]
    manager = Manager(options.url, options.policy, free, jobs)
    manager.run()
    print(json.dumps(manager.metrics()))


if __name__ == "__main__":
    main()
