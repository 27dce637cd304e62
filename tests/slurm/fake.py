"""Slurm's commands as far as they are called, in memory."""

import json


class Fake:
    """A queue; ``runner`` answers as ``squeue`` and ``scontrol`` do."""

    def __init__(self, now=10_000):
        self.now, self.jobs, self.calls = now, {}, []
        self.broken = None

    def submit(self, number, *, gpus=1, limit=60, user="anna", **more):
        self.jobs[number] = {
            "job_id": number,
            "job_state": "PENDING",
            "state_reason": "Priority",
            "priority": 1000 - len(self.jobs),
            "submit_time": self.now,
            "start_time": 0,
            "end_time": 0,
            "time_limit": limit,
            "user_name": user,
            "account": "lab",
            "partition": "main",
            "node_count": 1,
            "tres_per_node": f"gres:gpu:{gpus}",
            "dependency": "",
            **more,
        }

    def start(self, number):
        self.jobs[number] |= {"job_state": "RUNNING", "start_time": self.now}

    def end(self, number):
        self.jobs[number] |= {"job_state": "COMPLETED", "end_time": self.now}

    def priorities(self):
        return {number: job["priority"] for number, job in self.jobs.items()}

    def line(self):
        """Waiting jobs, first in line first."""
        waiting = [n for n, job in self.jobs.items() if job["job_state"] == "PENDING"]
        return sorted(waiting, key=lambda n: -self.jobs[n]["priority"])

    def runner(self, words, text=None):
        self.calls.append((tuple(words), text))
        if self.broken is not None:
            return self.broken
        if words[0] == "squeue":
            return 0, json.dumps({"jobs": list(self.jobs.values())}), ""
        said, status = "", 0
        for line in text.splitlines()[:-1]:
            number, priority = (int(part.split("=")[1]) for part in line.split()[1:])
            job = self.jobs.get(number)
            if job is None or job["job_state"] != "PENDING":
                said, status = said + "Invalid job id specified\n", 1
            else:
                job["priority"] = priority
        return status, "", said
