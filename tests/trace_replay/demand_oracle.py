"""The plain event loop of ``typed_oracle`` on servers with limits of CPUs and memory.

A job has ``demand`` besides, what it needs of each for a GPU; kinds have their limits behind the
type (0: none).
"""

from tests.trace_replay.typed_oracle import Loop


class DemandLoop(Loop):
    def __init__(self, jobs, kinds, policy):
        super().__init__(jobs, [kind[:4] for kind in kinds], policy)
        self.limits = [[limit or 10**9 for limit in kinds[k][4:]] for k, _ in self.servers]
        self.spare = [list(limits) for limits in self.limits]

    def places(self, j, free, spare=None):
        """Free GPUs count as far as CPUs and memory go with them."""
        own = []
        for gpus, left in zip(free, spare or self.spare, strict=True):
            for each, need in zip(left, self.jobs[j]["demand"], strict=True):
                gpus = min(gpus, each // need) if need else gpus
            own.append(gpus)
        return super().places(j, own)

    def use(self, spare, j, taken, sign):
        for server, gpus in taken.items():
            for k, need in enumerate(self.jobs[j]["demand"]):
                spare[server][k] += sign * gpus * need

    def start(self, j):
        super().start(j)
        self.use(self.spare, j, self.running[j][1], -1)

    def release(self, j):
        self.use(self.spare, j, self.running[j][1], 1)
        super().release(j)

    def decide(self):
        if self.policy.mode != "easy":
            return super().decide()
        head = self.first(self.waiting)
        if self.places(head, self.free):
            self.start(head)
            return True
        for moment in sorted({self.expected_end(i) for i in self.running}):
            free, spare = list(self.free), [list(left) for left in self.spare]
            for i in self.running:
                if self.expected_end(i) <= moment:
                    self.use(spare, i, self.running[i][1], 1)
                    for server, gpus in self.running[i][1].items():
                        free[server] += gpus
            if self.places(head, free, spare):
                break
        column = "estimate" if self.policy.run_times == "estimates" else "duration"
        allowed = []
        for j in self.fitting():
            kind, taken = self.places(j, self.free)
            beside = [f - taken.get(s, 0) for s, f in enumerate(free)]
            left = [list(each) for each in spare]
            self.use(left, j, taken, -1)
            soon = self.time + self.seconds(j, kind, column) <= moment
            if soon or self.places(head, beside, left):
                allowed.append(j)
        if allowed:
            self.start(self.first(allowed))
        return bool(allowed)
