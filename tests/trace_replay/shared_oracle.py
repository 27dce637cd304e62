"""The plain event loop of ``typed_oracle`` with slots of GPUs, and FGD, from their rules alone.

Jobs' ``gpus`` and the sizes of kinds count slots; a job that shares its GPU has them as ``share``,
others 0. What is free of a server is the free slots of each GPU, a tuple, then thousandths.
"""

from tests.trace_replay.failing_oracle import FailingLoop
from tests.trace_replay.typed_oracle import Loop


class SharedLoop(Loop):
    """``slots`` are those of each GPU."""

    slots = 1

    def idle(self, kind):
        return (self.slots,) * (self.kinds[kind][1] // self.slots), *self.limits[kind]

    def able(self, j, gpus):
        """The GPUs that a job could use of a server's, by their free slots: best fit first."""
        need = self.jobs[j]["share"] or self.slots
        fits = [g for g, left in enumerate(gpus or ()) if left >= need]
        return sorted(fits, key=lambda g: (gpus[g], g))

    def usable(self, j, free):
        share = self.jobs[j]["share"]
        able = self.able(j, free[0])
        most = sum(free[0][g] for g in (able[:1] if share else able))
        most = super().usable(j, (most, *free[1:]))
        return most if share else most - most % self.slots

    def after(self, free, j, taken, sign):
        found = list(free)
        for s, gpus in taken.items():
            left = [n + sign * gpus.get(g, 0) for g, n in enumerate(free[s][0])]
            needs = zip(free[s][1:], self.jobs[j].get("demand", ()), strict=False)
            used = sum(gpus.values())
            found[s] = tuple(left), *(rest + sign * used * need for rest, need in needs)
        return found

    def places(self, j, free):
        if self.policy.placement == "fgd" and (found := self.least_growth(j, free)):
            return found
        policy, self.policy = self.policy, PackIfFgd(self.policy)
        found = super().places(j, free)
        self.policy = policy
        if found is None:
            return None
        return found[0], {s: self.on_gpus(j, free[s][0], n) for s, n in found[1].items()}

    def on_gpus(self, j, gpus, count):
        """So many slots of a server, by GPU."""
        if self.jobs[j]["share"]:
            return {self.able(j, gpus)[0]: count}
        return dict.fromkeys(sorted(self.able(j, gpus))[: count // self.slots], self.slots)

    def least_growth(self, j, free):
        """FGD's choice for a job that one server holds; None if none does."""
        wanted, share, found = self.jobs[j]["gpus"], self.jobs[j]["share"], []
        for s, (kind, size) in enumerate(self.servers):
            if self.usable(j, free[s]) < wanted or wanted > min(size, self.kinds[kind][2]):
                continue
            gpus = free[s][0]
            choices = [{g: share} for g in self.able(j, gpus)] if share else []
            for taken in choices or [self.on_gpus(j, gpus, wanted)]:
                then = self.after(free, j, {s: taken}, -1)[s]
                rise = self.fragmentation(kind, then) - self.fragmentation(kind, free[s])
                found.append((rise, s, min(taken), kind, taken))
        if not found:
            return None
        _, s, _, kind, taken = min(found, key=lambda choice: choice[:3])
        return kind, {s: taken}

    def fragmentation(self, kind, server):
        """The sum over all jobs of the slots of a server that are of no use to the job."""
        return sum(self.fragments(kind, server, job) for job in self.jobs)

    def fragments(self, kind, server, job):
        gpus, need = server[0], job["share"] or self.slots
        fit = [left for left in gpus if left >= need]
        hosted = len(fit) >= job["gpus"] // need
        hosted = hosted and job["gpus"] <= min(self.kinds[kind][1], self.kinds[kind][2])
        for left, each in zip(server[1:], job.get("demand", ()), strict=False):
            hosted = hosted and each * job["gpus"] <= left
        return sum(left for left in gpus if left < need) if hosted else sum(gpus)


class PackIfFgd:
    """A policy whose larger jobs go as under ``pack``, if its placement is FGD."""

    def __init__(self, policy):
        self._policy = policy
        self.placement = "pack" if policy.placement == "fgd" else policy.placement

    def __getattr__(self, name):
        return getattr(self._policy, name)


class SharedFailingLoop(FailingLoop, SharedLoop):
    """With servers that fail or are drained."""
