"""The plain event loop of ``typed_oracle`` with servers that fail, are drained or reserved."""

from tests.trace_replay.typed_oracle import Loop


class FailingLoop(Loop):
    """Outages are ``(server, begin, end, drains)``; what is left of a job's work shrinks.

    Those in ``reserved``, ``(server, begin, end)``, are known beforehand.
    """

    def __init__(self, jobs, kinds, policy, outages, checkpoint_s=0, restart_s=0, reserved=()):
        super().__init__(jobs, kinds, policy)
        self.coming_outages = sorted(outages, key=lambda outage: (outage[1], outage[0]))
        self.checkpoint_s, self.restart_s = checkpoint_s, restart_s
        self.reserved = reserved
        self.left = [job["duration"] for job in jobs]
        self.away = {}  # server -> until when
        self.first_start, self.stops = {}, [0] * len(jobs)
        self.held, self.cuts = [0] * len(jobs), []

    def seconds(self, j, kind, column="duration"):
        work = self.left[j]
        if column == "estimate":
            work = max(self.jobs[j]["estimate"] + work - self.jobs[j]["duration"], 1)
        return -(-1000 * work // self.speed(j, kind))

    def places(self, j, free):
        return super().places(
            j, [(0, *f[1:]) if self.is_away(s, j) else f for s, f in enumerate(free)]
        )

    def is_away(self, server, j):
        """Whether a job cannot start there, since it is away or will be before the job's end."""
        if self.away.get(server, 0) > self.at:
            return True
        kind = self.servers[server][0]
        if not self.speed(j, kind):
            return True
        column = "estimate" if self.policy.run_times == "estimates" else "duration"
        until = self.at + self.seconds(j, kind, column)
        return any(
            s == server and self.at < end and begin < until for s, begin, end in self.reserved
        )

    def fail(self, server):
        for i in sorted(i for i in self.running if server in self.running[i][1]):
            _, _, begun, kind = self.running[i]
            run = self.time - begun
            kept = run // self.checkpoint_s * self.checkpoint_s if self.checkpoint_s else 0
            self.left[i] += self.restart_s - kept * self.speed(i, kind) // 1000
            self.cuts.append((i, begun, self.time))
            self.held[i] += run
            self.stops[i] += 1
            self.release(i)
            self.waiting.append(i)

    def run(self):
        """``(start, end, servers, first server, stops, held)`` of each job."""
        coming = list(range(len(self.jobs)))
        while coming or self.waiting or self.running:
            events = [self.running[i][0] for i in self.running]
            events += [self.jobs[coming[0]]["submit"]] if coming else []
            events += [self.coming_outages[0][1]] if self.coming_outages else []
            events += [until for until in self.away.values() if until > self.time]
            self.time = self.at = min(events)
            for i in [i for i in self.running if self.running[i][0] == self.time]:
                self.held[i] += self.time - self.running[i][2]
                self.release(i)
            while self.coming_outages and self.coming_outages[0][1] <= self.time:
                server, _, until, drains = self.coming_outages.pop(0)
                self.away[server] = max(self.away.get(server, 0), until)
                if not drains:
                    self.fail(server)
            while coming and self.jobs[coming[0]]["submit"] == self.time:
                self.waiting.append(coming.pop(0))
            while self.waiting and self.decide():
                for i in self.running:
                    self.first_start.setdefault(i, self.time)
        return [
            (self.first_start[j], *self.found[j][1:], self.stops[j], self.held[j])
            for j in range(len(self.jobs))
        ]

    def decide(self):
        """As without outages; a promise counts on servers to be back when they say, or reserved."""
        mode = self.policy.mode
        if mode != "easy":
            return super().decide()
        head = self.first(self.waiting)
        if self.places(head, self.free):
            self.start(head)
            return True
        moments = {self.expected_end(i) for i in self.running} | set(self.away.values())
        moments |= {end for _, _, end in self.reserved}
        for moment in sorted(m for m in moments if m > self.time):
            self.at, free = moment, self.free_at(moment)
            if self.places(head, free):
                break
        self.at = self.time
        allowed = []
        for j in self.fitting():
            kind, taken = self.places(j, self.free)
            column = "estimate" if self.policy.run_times == "estimates" else "duration"
            beside = self.after(free, j, taken, -1)
            soon = self.time + self.seconds(j, kind, column) <= moment
            self.at = moment
            if soon or self.places(head, beside):
                allowed.append(j)
            self.at = self.time
        if allowed:
            self.start(self.first(allowed))
        return bool(allowed)
