"""kubectl as far as it is called, on objects in memory."""

import json

from tests.kueue import objects


class Fake:
    """A cluster; ``runner`` answers as ``kubectl get`` and ``kubectl patch`` do."""

    def __init__(self, now=10_000, **preemption):
        self.now, self.workloads, self.calls = now, {}, []
        self.queues = [objects.local_queue(), objects.cluster_queue(**preemption)]
        self.broken = None

    def submit(self, number, **how):
        self.workloads[number] = objects.workload(number, self.now, **how)

    def start(self, number):
        self._conditions(number).append(objects.condition("QuotaReserved", self.now))
        self._conditions(number).append(objects.condition("Admitted", self.now))

    def end(self, number, *, forgets=False):
        if forgets:  # as version 0.15 does
            for each in self._conditions(number):
                each |= {"status": "False", "lastTransitionTime": objects.date(self.now)}
        self._conditions(number).append(objects.condition("Finished", self.now))

    def priorities(self):
        return {number: each["spec"]["priority"] for number, each in self.workloads.items()}

    def line(self):
        """Pending workloads as Kueue orders them."""
        pending = [n for n in self.workloads if not self._conditions(n)]
        return sorted(pending, key=lambda n: (-self.priorities()[n], n))

    def runner(self, words, text=None):
        self.calls.append(tuple(words))
        if self.broken is not None:
            return self.broken
        if words[1] == "get":
            return 0, json.dumps(objects.reply(*self.workloads.values(), *self.queues)), ""
        name, namespace, patch = words[3], words[4], words[6]
        change = json.loads(patch.removeprefix("--patch="))
        each = self.workloads.get(int(name.removeprefix("job-")))
        if each is None or namespace != f"--namespace={each['metadata']['namespace']}":
            return 1, "", f'Error from server (NotFound): workloads "{name}" not found\n'
        if change["metadata"]["uid"] != each["metadata"]["uid"]:
            return 1, "", "Error from server (Conflict): Precondition failed: UID\n"
        each["spec"] |= change["spec"]
        return 0, "", ""

    def _conditions(self, number):
        return self.workloads[number]["status"]["conditions"]
