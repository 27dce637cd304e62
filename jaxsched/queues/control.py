"""Passes over a queue: read, order, change; and what was found is put back in the end.

What may go wrong does no harm: a reply that is none, a command that does not answer, a policy that
fails or takes longer than a pass may take change nothing. Priorities that somebody else has set
since are left alone. What was found before the first change is kept in a file, so that a later
process can put it back, too.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError, first_line
from jaxsched.files import make_folder, write_whole
from jaxsched.queues import decisions, orders, priorities
from jaxsched.queues.jobs import Adapter, QueuedJob
from jaxsched.queues.past import Past, end_line

FOUND, ENDED = "found.json", "ended.jsonl"
"""Files of the folder beside ``decisions``: priorities that were found, a line an ended job."""

MOST_FAILURES = 3
"""After so many passes in a row that failed, what was found is put back until one succeeds."""


_REHEARSAL = QueuedJob("", True, False, False, 1, 2**31 - 1, 0, 0, 1, 60, "", "")


class Settings(NamedTuple):
    """How the queue is ordered.

    Attributes:
      policy: a name of ``orders.ORDERS``.
      every_s: seconds from pass to pass; one that takes longer changes nothing.
      longest_wait_s: who has waited so long goes first.
      most_changes: priorities that one pass sets at most, those first in line first.
      queue: the jobs of this one; None: of all.
      dry_run: nothing is set, all is logged.
    """

    policy: str
    every_s: float
    longest_wait_s: float
    most_changes: int
    queue: str | None = None
    dry_run: bool = False


class Pass(NamedTuple):
    """What one pass did.

    Attributes:
      waiting: jobs that wait.
      running: jobs that hold GPUs.
      changed: priorities that were set, or would have been.
      left: priorities that are still to be set, for want of ``most_changes``.
      oldest_s: the longest wait so far, s.
      seconds: that it took.
      failure: what went wrong; empty: nothing.
      elsewhere: the queues that have jobs, where ours has none.
    """

    waiting: int = 0
    running: int = 0
    changed: int = 0
    left: int = 0
    oldest_s: float = 0.0
    seconds: float = 0.0
    failure: str = ""
    elsewhere: tuple[str, ...] = ()

    def line(self, settings: Settings) -> str:
        """One line of status."""
        if self.failure:
            return f"{settings.policy}: nothing changed: {self.failure}"
        if self.elsewhere:
            return (
                f"{settings.policy}: no job is in {settings.queue}; jobs are in "
                f"{', '.join(self.elsewhere)}"
            )
        would = "would change" if settings.dry_run else "changed"
        left = f", {self.left} to come" if self.left else ""
        return (
            f"{settings.policy}: {self.waiting} wait (the longest {self.oldest_s / 3600:.1f} h), "
            f"{self.running} run, {self.changed} {would}{left}, {self.seconds:.2f} s"
        )


class Control:
    """Orders a queue, pass by pass.

    Args:
      adapter: the scheduler.
      settings: how.
      folder: of what is kept; see ``FOUND``.
      earlier: ended jobs of a log.
      clock: seconds of Unix time.

    Raises:
      JaxschedError: an unknown policy, or a folder whose files cannot be read.
    """

    def __init__(
        self,
        adapter: Adapter,
        settings: Settings,
        folder: Path,
        earlier: Sequence[Any] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        if settings.policy not in orders.ORDERS:
            raise JaxschedError(
                f"policy is {settings.policy!r}; accepted: {', '.join(orders.ORDERS)}"
            )
        self.adapter, self.settings, self.folder = adapter, settings, folder
        self._clock = clock
        make_folder(folder / FOUND)
        self._past = Past(folder / ENDED, earlier)
        if (folder / decisions.FILE).exists():
            end_line(folder / decisions.FILE)
        self._found, self._ours = _read_found(folder / FOUND)
        self._failures = 0
        self._scores: dict[str, float] = {}

    def rehearse(self) -> None:
        """Order a queue of one job, so that what has to be compiled is before a pass waits for it.

        Raises:
          JaxschedError: the policy fails.
        """
        orders.scores_of(self.settings.policy, [_REHEARSAL], [], self._past.jobs())

    def step(self) -> Pass:
        """One pass; what fails is in ``failure``, and changes nothing."""
        began = time.perf_counter()
        try:
            done = self._step(began)
        except Exception as error:  # whatever a policy does, the queue goes on
            self._failures += 1
            done = Pass(failure=first_line(error))
            if self._failures == MOST_FAILURES:
                done = done._replace(failure=f"{done.failure}{self._given_back()}")
            return done
        self._failures = 0
        return done

    def restore(self) -> int:
        """Put back the priorities that were found, of jobs that still wait and still have ours.

        Returns:
          How many.

        Raises:
          JaxschedError: the scheduler does not answer; what was found stays in the file.
        """
        queue = {job.job_id: job for job in self.adapter.jobs() if job.waits}
        back = {
            name: found
            for name, found in self._found.items()
            if name in queue and queue[name].priority == self._ours.get(name)
        }
        refused = self.adapter.set_priorities(back)
        self._found, self._ours = {}, {}
        self._keep()
        return len(back) - len(refused)

    def _step(self, began: float) -> Pass:
        settings, now = self.settings, int(self._clock())
        queue = self.adapter.jobs()
        self._past.add(queue)
        mine = [job for job in queue if settings.queue in (None, job.queue)]
        waiting = [job for job in mine if job.waits and not self._is_theirs(job)]
        running = [job for job in mine if job.runs and job.num_gpus]
        scores = orders.scores_of(settings.policy, waiting, running, self._past.jobs())
        before = {job.job_id: job.priority for job in waiting}
        found = [self._found.get(job.job_id, job.priority) for job in waiting]
        line = orders.ordered(
            waiting, scores, now=now, longest_wait_s=settings.longest_wait_s,
            ranks=found if self.adapter.priorities.rank else None,
        )  # fmt: skip
        wanted = [job.job_id for job in line]
        new = priorities.changes(wanted, before, self.adapter.priorities)
        place = {name: k for k, name in enumerate(wanted)}
        first = sorted(new, key=place.__getitem__)[: settings.most_changes]
        chosen = {name: new[name] for name in first}
        took = time.perf_counter() - began
        if took > settings.every_s:
            raise JaxschedError(f"the pass took {took:.1f} s, longer than {settings.every_s:g} s")
        if not settings.dry_run:
            if harm := self.adapter.harm():
                raise JaxschedError(
                    f"{harm}; accepted: one that does not, or {argument('dry_run')}"
                )
            chosen = self._set(chosen, before)
        done = Pass(
            waiting=len(waiting),
            running=len(running),
            changed=len(chosen),
            left=len(new) - len(chosen),
            oldest_s=float(max((now - job.submit for job in waiting), default=0)),
            seconds=time.perf_counter() - began,
            elsewhere=() if mine else tuple(sorted({job.queue for job in queue})),
        )
        self._log(now, done, wanted, before, chosen, self._new_scores(waiting, scores))
        return done

    def _new_scores(
        self, waiting: Sequence[QueuedJob], scores: Sequence[float]
    ) -> dict[str, float | None]:
        """The scores that the pass before did not have; None: the last place."""
        now = {job.job_id: score for job, score in zip(waiting, scores, strict=True)}
        new = {name: score for name, score in now.items() if self._scores.get(name) != score}
        self._scores = now
        return {name: None if math.isinf(score) else score for name, score in new.items()}

    def _set(self, chosen: dict[str, int], before: dict[str, int]) -> dict[str, int]:
        """Set priorities; what was found is kept before they are."""
        gone = [name for name in self._ours if name not in before]
        for name in gone:
            del self._ours[name], self._found[name]
        for name in chosen:
            self._found.setdefault(name, before[name])
        self._ours |= chosen
        if chosen or gone:
            self._keep()
        refused = self.adapter.set_priorities(chosen)
        return {name: value for name, value in chosen.items() if name not in refused}

    def _is_theirs(self, job: QueuedJob) -> bool:
        """Whether somebody has set a priority that we had set before."""
        ours = self._ours.get(job.job_id)
        return ours is not None and job.priority not in (ours, self._found[job.job_id])

    def _given_back(self) -> str:
        """Put back what was found after failures; what came of it in words."""
        if self.settings.dry_run:
            return ""
        try:
            return f"; {self.restore()} priorities put back"
        except JaxschedError:
            return ""

    def _keep(self) -> None:
        document = {"found": self._found, "ours": self._ours}
        write_whole(self.folder / FOUND, (json.dumps(document) + "\n").encode())

    def _log(
        self,
        now: int,
        done: Pass,
        wanted: Sequence[str],
        before: dict[str, int],
        chosen: dict[str, int],
        scores: dict[str, float | None],
    ) -> None:
        """A line with what the policy wants beside what the scheduler has."""
        line = {
            "time": now,
            "policy": self.settings.policy,
            "dry_run": self.settings.dry_run,
            "wanted": list(wanted),
            self.adapter.name: sorted(before, key=lambda name: -before[name]),
            "changes": chosen,
            "scores": scores,
            **{name: getattr(done, name) for name in ("waiting", "running", "left", "seconds")},
        }
        with (self.folder / decisions.FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _read_found(path: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Priorities found and set by an earlier process.

    Raises:
      JaxschedError: the file is damaged.
    """
    if not path.exists():
        return {}, {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        found, ours = (
            {job: int(value) for job, value in document[name].items()} for name in ("found", "ours")
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JaxschedError(
            f"{path}: holds no priorities; accepted: what an earlier run wrote, or no such file"
        ) from error
    return found, ours


def run(
    control: Control,
    stops: Callable[..., Any],
    on_pass: Callable[[Pass], Any],
    *,
    once: bool = False,
    keep: bool = False,
) -> int:
    """Pass by pass until something asks to stop; then what was found is put back.

    Args:
      control: orders the queue.
      stops: whether to stop.
      on_pass: called after each pass.
      once: one pass alone; nothing is put back.
      keep: leave priorities as they are at the end.

    Returns:
      Priorities put back.

    Raises:
      JaxschedError: the policy fails before the first pass, or priorities cannot be put back;
        ``restore`` of another process can.
    """
    control.rehearse()
    while not stops():
        due = time.monotonic() + control.settings.every_s
        on_pass(control.step())
        if once:
            return 0
        while not stops() and time.monotonic() < due:
            time.sleep(min(0.2, max(due - time.monotonic(), 0.0)))
    return 0 if keep or control.settings.dry_run else control.restore()
