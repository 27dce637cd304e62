"""The host side of training: evaluate, log, checkpoint and draw progress between jitted chunks.

The chunks themselves are ``jaxsched.core.training``; nothing here changes what they compute, so a
run that is interrupted and resumed ends with the same bits as one that was not.
"""

import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxsched.core import processes, sharding, training
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.ops import target
from jaxsched.runs import checkpoints, interrupts, memory
from jaxsched.runs.directory import RunDirectory
from jaxsched.runs.progress import TrainingProgress
from jaxsched.runs.trained import (
    COMPILING,
    LEARNING,
    PREPARING,
    SAVING,
    SCORING,
    Phases,
    Point,
    Trained,
)
from jaxsched.runtime import shows
from jaxsched.systems import functions
from jaxsched.systems.parts import TrainingSetup
from jaxsched.systems.system import System
from jaxsched.types import PyTree

MAX_CHUNK = 50  # updates per jitted call at most: about a second, the grain of progress and Ctrl-C
LONGEST_CHUNK_S = 30.0  # calls that take longer are made shorter
BETWEEN_CHECKPOINTS_S = 300.0  # whatever the recipe says


class Interrupted(Exception):
    """Training was asked to stop, and its checkpoint has been written.

    Attributes:
      status: the exit status for what has asked (:mod:`jaxsched.runs.interrupts`).
      result: what the stage that was stopped has found so far; scores its policy first if none has
        been.
    """

    def __init__(self, status: int, result: Callable[[], Trained] | None = None) -> None:
        super().__init__(f"stopped{interrupts.by(status)}")
        self.status, self.result = status, result


class Progress(NamedTuple):
    """Where a training is after a chunk of updates.

    Attributes:
      stage: name of the recipe's stage.
      update: updates of this stage so far.
      num_updates: of the whole stage.
      env_steps: environment steps of each seed in this stage.
      steps_per_s: environment steps per second of all seeds, over this session of the stage.
      left_s: seconds that the stage needs still at this rate.
      metrics: the learner's numbers, means over the chunk and the seeds.
      score: mean over the seeds of the evaluation at this update; None where there was none.
    """

    stage: str
    update: int
    num_updates: int
    env_steps: int
    steps_per_s: float
    left_s: float
    metrics: Mapping[str, float]
    score: float | None


def meta_of(system: System, setup: TrainingSetup) -> dict[str, Any]:
    """Facts that a checkpoint of this run must agree with."""
    return {
        "system": system.name,
        "behaviour_version": system.environment.behaviour_version,
        "environment": functions.environment_options(system, setup.play_env),
        "network": setup.network,
        "play": setup.play,
    }


def train(
    system: System,
    stages: Sequence[TrainingSetup],
    *,
    run: RunDirectory,
    limit: interrupts.Limits = interrupts.UNLIMITED,
    shown: bool = True,
    **arguments: Any,
) -> Trained:
    """Train stage after stage as :func:`training_of` does, with a display, until asked to stop.

    Args:
      system: what is trained on.
      stages: environment, learner and loop of each.
      run: where everything is written.
      limit: a time and further signals that end the session, as Ctrl-C and SIGTERM do.
      shown: whether a display or lines of progress are written.
      arguments: the others of :func:`training_of`; of these ``tables``, ``seeds`` and ``resume``
        are needed.

    Raises:
      Interrupted: asked to stop, with everything saved.
      JaxschedError: the run directory cannot be written, its checkpoint does not fit, or there
        is not enough memory.
      EndedAlone: the run has several processes, and one of them has ended.
    """
    shown = shown and run.writes and shows()
    with interrupts.requests(limit) as asked:
        steps = training_of(system, stages, run=run, asked=asked, shown=shown, **arguments)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                trained: Trained = end.value
                return trained


def never(ahead_s: float = 0.0) -> int:
    """Nothing asks to stop."""
    del ahead_s
    return 0


def training_of(
    system: System,
    stages: Sequence[TrainingSetup],
    *,
    tables: Sequence[JobTable],
    seeds: Sequence[int],
    run: RunDirectory,
    resume: bool,
    start: Sequence[PyTree] | None = None,
    mesh: Mesh | None = None,
    hyper: Sequence[Sequence[PyTree]] | None = None,
    goal: float | None = None,
    say: Callable[[str], None] = lambda line: None,
    asked: Callable[[float], int] = never,
    shown: bool = False,
) -> Generator[Progress, None, Trained]:
    """Train stage after stage, seeds side by side, and keep the best policy of each seed.

    A generator that yields after each chunk of updates.

    Args:
      system: what is trained on.
      stages: environment, learner and loop of each; a stage starts from the policy that the one
        before it chose.
      tables: validation traces; policies are scored on them as they are.
      seeds: one run each; may repeat where ``hyper`` differs.
      run: where everything is written: ``checkpoints/`` (the whole run), ``policies/seedN`` (best
        network parameters), metrics; the same of earlier stages under ``stages/NAME``.
      resume: go on from the newest checkpoint of ``run``, if there is one.
      start: network parameters that the seeds of the first stage start from; drawn if absent.
      mesh: devices that environments or seeds are divided between, which they have to share
        equally (:func:`jaxsched.core.sharding.check_divisible`); one device if absent.
      hyper: of each stage, for each run the learner's traced numbers (``learner_state.hyper``);
        those of the stage's learner if absent. Policies are then called ``memberN``, not ``seedN``.
      goal: the last stage ends, without a checkpoint of the whole run, at the evaluation by which
        every seed has reached this score; at its own end if absent.
      say: called with a line about the memory that a stage takes, before it does.
      asked: function of the seconds that the next chunk will take: 0, or the exit status for what
        asks to stop (:func:`jaxsched.runs.interrupts.requests`).
      shown: whether a display or lines of progress are written.

    Returns:
      What the last stage leaves.

    Raises:
      Interrupted: asked to stop, with everything saved.
      JaxschedError: the run directory cannot be written, its checkpoint does not fit, or there
        is not enough memory.
      EndedAlone: the run has several processes, and one of them has ended.
    """
    warm, numbers, phases = start, hyper or (None,) * len(stages), Phases()
    for stage, own in zip(stages[:-1], numbers[:-1], strict=True):
        path = run.path / "stages" / stage.name
        config = {**run.config, "stage": stage.name}
        with RunDirectory.create(path, config, resume=resume and path.exists()) as folder:
            host = _Host(system, stage, tables, seeds, folder, mesh, own, phases)
            done = _finished(host) if resume else None
            if done is None:
                done = (yield from _stage(host, resume, warm, say, asked, shown)).weights
            warm = done
    host = _Host(system, stages[-1], tables, seeds, run, mesh, numbers[-1], phases)
    return (yield from _stage(host, resume, warm, say, asked, shown, goal))


def reaches(system: System, score: float, goal: float) -> bool:
    """Whether a score is as good as another."""
    return functions.score_sign(system) * score >= functions.score_sign(system) * goal


def ended(meta: Mapping[str, Any], num_updates: int | None) -> bool:
    """Whether a stage has come to its end, its last evaluation included.

    Args:
      meta: of its newest checkpoint.
      num_updates: of the stage; None if that is not known.
    """
    evaluated = all(curve and curve[-1][0] == num_updates for curve in meta["curves"])
    return meta["update"] == num_updates and evaluated


def _finished(host: "_Host") -> list[PyTree] | None:
    """The policies of a stage that came to its end in an earlier session."""
    if not checkpoints.steps(host.run.checkpoints):
        return None
    meta = checkpoints.read_meta(host.run.checkpoints)
    return host.best_weights() if ended(meta, host.setup.loop.num_updates) else None


def _stage(
    host: "_Host",
    resume: bool,
    warm: Sequence[PyTree] | None,
    say: Callable[[str], None],
    asked: Callable[[float], int],
    shown: bool,
    goal: float | None = None,
) -> Generator[Progress, None, Trained]:
    """One stage."""
    setup, seeds, loop = host.setup, host.seeds, host.setup.loop
    grain = math.gcd(setup.evaluate_every, setup.checkpoint_every, loop.num_updates)
    with host.phases(PREPARING):
        newest = host.newest(say) if resume else None
        pace = _Pace(math.gcd(grain, newest or 0))
        say(host.check_memory(pace.chunk))
        carry = host.begin(newest, warm)
    progress = TrainingProgress(
        setup.env_steps * len(seeds),
        higher_is_better=host.sign > 0,
        description=f"{setup.name}, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}",
        start_steps=host.env_steps * len(seeds),
        best=host.best_so_far(),
        shown=shown,
    )
    with processes.together(Interrupted), progress:
        if host.owes_evaluation(starts_from=warm):
            host.evaluate(carry)
        while host.update < loop.num_updates and not host.has_reached(goal):
            chunk, compiled = pace.chunk, host.phases.seconds[COMPILING]
            start = time.monotonic()
            with host.phases(LEARNING):
                carry, metrics = host.advance(carry, chunk)
                host.count(metrics, chunk)
            took_s = time.monotonic() - start - (host.phases.seconds[COMPILING] - compiled)
            status, due = pace.after(took_s, asked)
            if status:  # what is evaluated here is evaluated by the session that goes on
                host.save(carry)
                raise Interrupted(status, partial(host.result_of, carry))
            ends = host.update == loop.num_updates
            scored = host.update % setup.evaluate_every == 0 or ends
            if scored:
                host.evaluate(carry)
            host.show(progress)
            yield host.progress(scored)
            status, _ = processes.largest(asked(0.0), 0)
            if host.update % setup.checkpoint_every == 0 or ends or due or status:
                host.save(carry)
                pace.saved()
            if status:
                raise Interrupted(status, partial(host.result_of, carry))
    return host.result()


class _Pace:
    """How many updates a call makes, and when a checkpoint is due by the clock.

    Attributes:
      chunk: updates of the next call, which divide ``grain``: at most ``MAX_CHUNK``, and fewer
        where these would take longer than ``LONGEST_CHUNK_S``.

    Args:
      grain: divides all numbers of updates after which something has to be done.
    """

    def __init__(self, grain: int) -> None:
        self._sizes = [size for size in range(1, min(grain, MAX_CHUNK) + 1) if grain % size == 0]
        self.chunk = self._sizes[-1]
        self._last_save = time.monotonic()

    def after(self, took_s: float, asked: Callable[[float], int]) -> tuple[int, bool]:
        """After a call: the status of what has asked to stop, or 0; whether a checkpoint is due.

        The same in all processes. The time limit and the next checkpoint come before the call
        that would pass them.
        """
        late = time.monotonic() + took_s - self._last_save >= BETWEEN_CHECKPOINTS_S
        longest = self.chunk * LONGEST_CHUNK_S / max(took_s, LONGEST_CHUNK_S)
        fewer = max(
            size for size in self._sizes if size <= max(longest, 1) and self.chunk % size == 0
        )
        status, due, negated = processes.largest(asked(took_s), int(late), -fewer)
        self.chunk = -negated
        return status, bool(due)

    def saved(self) -> None:
        """A checkpoint has been written."""
        self._last_save = time.monotonic()


class _Host:
    """State of one training run between chunks."""

    def __init__(
        self,
        system: System,
        setup: TrainingSetup,
        tables: Sequence[JobTable],
        seeds: Sequence[int],
        run: RunDirectory,
        mesh: Mesh | None,
        hyper: Sequence[PyTree] | None,
        phases: Phases,
    ) -> None:
        self.phases = phases
        self.hyper, kind = hyper, "seed" if hyper is None else "member"
        self.names = [f"{kind}{seed}" for seed in (seeds if hyper is None else range(len(seeds)))]
        self.mesh, self.given, self.placed = mesh, None, None
        self.programs: dict[Any, Any] = {}
        self.system, self.setup, self.seeds, self.run = system, setup, list(seeds), run
        self.meta = meta_of(system, setup)
        self.origin = {key: run.config.get(key) for key in ("preset", "trace_digests")}
        self.origin["variants"] = list(setup.variants)
        self.sign = functions.score_sign(system)
        self.tables = tables
        self.scored_params = setup.play_env.params(tables)
        self.steps_per_update = setup.steps_per_update
        self.update = 0
        self.finished_episodes = 0.0
        self.curves: list[list[Point]] = [[] for _ in self.seeds]
        self.spent_s, self.since = 0.0, time.monotonic()
        self.begun_at = 0
        self.latest: dict[str, float] = {}

    def newest(self, say: Callable[[str], None]) -> int | None:
        """The newest checkpoint that reads as it was written; none in a run that has none.

        All of it is read, before anything is compiled.
        """
        found = processes.first_alone(
            lambda: checkpoints.newest_whole(self.run.checkpoints, say),
            lambda: checkpoints.newest_whole(self.run.checkpoints, lambda line: None),
        )
        processes.check_same(-1 if found is None else found, "the newest checkpoint")
        return found

    def begin(self, newest: int | None, warm: Sequence[PyTree] | None) -> training.Carry:
        """The carry to start from: fresh (with ``warm`` policies, if any), or a checkpoint's."""
        setup, params = self.setup, self.setup.params_at(0.0)
        keys, weights = self.keys, None
        if warm is not None:
            weights = warm[0]
            if len(self.seeds) > 1:
                weights = jax.tree.map(lambda *leaves: jnp.stack(leaves), *warm)
        with sharding.on(self.mesh):
            carry = training.init(setup.env, setup.learner, setup.loop, keys, params, weights)
            if self.hyper is not None:
                own = jax.tree.map(lambda *each: np.stack(each), *self.hyper)
                own = sharding.placed_like(own, carry.learner_state.hyper)
                carry = carry._replace(learner_state=carry.learner_state._replace(hyper=own))
        if newest is None:
            if self.run.writes and self.run.metrics():  # of a session without a checkpoint
                self.run.rewind(-1)
            return carry
        carry, meta = self.restored(carry, newest)
        self.update, self.spent_s = int(meta["update"]), float(meta["spent_s"])
        self.begun_at = self.update
        self.finished_episodes = float(meta["finished_episodes"])
        self.curves = [[Point(*point) for point in curve] for curve in meta["curves"]]
        self.run.rewind(self.update)
        return carry

    def restored(self, carry: training.Carry, step: int) -> tuple[training.Carry, dict[str, Any]]:
        """A checkpoint of a carry like this one, where this one lies."""
        folder, expected = self.run.checkpoints, self.meta
        if not processes.several():
            return checkpoints.restore(folder, carry, step, expected=expected)
        like = sharding.host_like(carry)
        found, meta = checkpoints.restore(folder, like, step, expected=expected)
        with sharding.on(self.mesh):
            return sharding.placed_like(found, carry), meta

    def advance(self, carry: training.Carry, updates: int) -> tuple[training.Carry, Any]:
        """Some updates on all devices."""
        setup = self.setup
        params = setup.params_at(self.update / setup.loop.num_updates)
        if params is not self.given:  # a curriculum's next ones
            self.given, self.placed = params, sharding.everywhere(params, self.mesh)
        return self.program(setup.loop, self.placed, updates)(carry, self.placed)

    @property
    def keys(self) -> Any:
        """The key of the run, or one of each seed."""
        if len(self.seeds) == 1:
            return jax.random.key(self.seeds[0])
        return jax.vmap(jax.random.key)(jnp.array(self.seeds))

    def program(self, loop: training.LoopConfig, params: Any, updates: int) -> Any:
        """A compiled chunk; one for each number of environments and shapes of ``params``."""
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(params))
        known = (loop.num_envs, updates, shapes)
        if known not in self.programs:
            env, learner = self.setup.env, self.setup.learner
            with self.phases(COMPILING), sharding.on(self.mesh):
                carry = training.abstract(env, learner, loop, self.keys, params)
                lowered = training.chunk.lower(
                    env, learner, loop, carry, params, num_updates=updates
                )
                self.programs[known] = lowered.compile(target.compiler_options())
        return self.programs[known]

    def check_memory(self, updates: int) -> str:
        """One line about the memory that the stage takes; refuses what does not fit."""
        loop = self.setup.loop
        params = sharding.everywhere(self.setup.params_at(0.0), self.mesh)

        def needed(num_envs: int) -> memory.Needed | None:
            fewer = replace(loop, num_envs=num_envs)
            sharding.check_divisible(self.mesh, num_envs=num_envs, num_seeds=len(self.seeds))
            return memory.needed_by(self.program(fewer, params, updates))

        def smaller(num_envs: int) -> memory.Needed | None:
            try:
                return needed(num_envs)
            except JaxschedError:  # the learner or the devices cannot have so many
                return None

        return memory.check(needed(loop.num_envs), loop.num_envs, smaller)

    @property
    def wall_s(self) -> float:
        """Seconds spent so far, earlier sessions included."""
        return self.spent_s + time.monotonic() - self.since

    @property
    def env_steps(self) -> int:
        """Environment steps of each seed so far."""
        return self.update * self.steps_per_update

    def count(self, metrics: dict[str, Any], updates: int) -> None:
        """Take in the metrics of a chunk and log their means."""
        values = {name: np.asarray(value, np.float64) for name, value in metrics.items()}
        self.update += updates
        episodes = values.pop("episodes").sum()
        returns, lengths = values.pop("episode_return_sum"), values.pop("episode_length_sum")
        self.finished_episodes += episodes / len(self.seeds)
        self.latest = {name: float(value.mean()) for name, value in values.items()}
        self.latest |= {"env_steps": float(self.env_steps), "episodes": self.finished_episodes}
        if episodes:
            self.latest["episode_return"] = float(returns.sum() / episodes)
            self.latest["episode_length"] = float(lengths.sum() / episodes)
        self.run.log(self.update, {**self.latest, "wall_s": self.wall_s})

    def evaluate(self, carry: training.Carry) -> None:
        """Score the policy of each seed on the validation traces; keep the best weights."""
        metric, sign = self.system.metrics.primary, self.sign
        with sharding.on(self.mesh):
            weights = self.setup.learner.policy_params(carry.learner_state)
            each = [weights]
            if len(self.seeds) > 1:
                each = [_member(weights, index) for index in range(len(self.seeds))]
        logged: dict[str, float] = {}
        for index, seed in enumerate(self.seeds):
            mine = each[index]
            setup = self.setup
            with self.phases(SCORING), sharding.on(self.mesh):
                played = functions.play(
                    self.system, setup.play_env, setup.policy, self.scored_params, mine
                )
            score = functions.score(self.system, played, self.tables)
            best = max((sign * point.score for point in self.curves[index]), default=-math.inf)
            point = Point(
                self.update, self.env_steps, self.finished_episodes, round(self.wall_s, 3), score
            )
            self.curves[index].append(point)
            logged |= {f"evaluation/{metric}/{self.names[index]}": score}
            if sign * score > best:
                facts = {**self.meta, **self.origin, "seed": seed, "update": self.update}
                facts[metric] = score
                self.write(self.policy_path(index), mine, facts)
        self.run.log(self.update, logged)

    def owes_evaluation(self, starts_from: Sequence[PyTree] | None) -> bool:
        """Whether this update is to be evaluated and was not: a session stopped just before.

        What a stage starts from is among what it may choose, so that is evaluated, too.
        """
        if any(curve and curve[-1].update == self.update for curve in self.curves):
            return False
        if self.update == 0:
            return starts_from is not None
        every, end = self.setup.evaluate_every, self.setup.loop.num_updates
        return self.update % every == 0 or self.update == end

    def has_reached(self, goal: float | None) -> bool:
        """Whether every seed has had a policy as good as the goal; never where there is none."""
        if goal is None:
            return False
        return all(
            any(reaches(self.system, point.score, goal) for point in curve) for curve in self.curves
        )

    def policy_path(self, index: int) -> Path:
        """Folder of the best network parameters of one of the runs."""
        return self.run.path / "policies" / self.names[index]

    def best_so_far(self) -> float | None:
        """The best mean of the seeds' evaluations; None before the first."""
        means = [
            np.mean([point.score for point in points]) for points in zip(*self.curves, strict=True)
        ]
        return float(max(means, key=lambda mean: self.sign * mean)) if means else None

    def show(self, progress: TrainingProgress) -> None:
        """Refresh the display."""
        scores = [curve[-1].score for curve in self.curves if curve]
        progress.update(
            self.env_steps * len(self.seeds),
            gradient_steps=self.update * self.setup.gradient_steps * len(self.seeds),
            episode_return=self.latest.get("episode_return"),
            evaluation=float(np.mean(scores)) if scores else None,
        )

    def progress(self, scored: bool) -> Progress:
        """Where the stage is; with the mean of its evaluation where there was one."""
        done = self.update - self.begun_at
        spent = max(time.monotonic() - self.since, 1e-9)
        return Progress(
            stage=self.setup.name,
            update=self.update,
            num_updates=self.setup.loop.num_updates,
            env_steps=self.env_steps,
            steps_per_s=done * self.steps_per_update * len(self.seeds) / spent,
            left_s=(self.setup.loop.num_updates - self.update) * spent / max(done, 1),
            metrics=dict(self.latest),
            score=float(np.mean([curve[-1].score for curve in self.curves])) if scored else None,
        )

    def save(self, carry: training.Carry) -> None:
        """Write a checkpoint of the whole run."""
        meta = {
            **self.meta,
            "update": self.update,
            "spent_s": self.wall_s,
            "finished_episodes": self.finished_episodes,
            "curves": self.curves,
        }
        self.write(self.run.checkpoints, carry, meta)

    def write(self, folder: Path, tree: PyTree, meta: dict[str, Any]) -> None:
        """Write a checkpoint of the present update, once."""
        if processes.several():
            tree = sharding.on_host(tree)
        if self.run.writes:
            with self.phases(SAVING):
                checkpoints.save(folder, self.update, tree, meta, keep=1)

    def result_of(self, carry: training.Carry) -> Trained:
        """``result``; where no policy has been scored yet, that of the carry is."""
        if not any(self.curves):
            self.evaluate(carry)
        return self.result()

    def result(self) -> Trained:
        """The best policies, read back from where they were saved."""
        best = [max(curve, key=lambda point: self.sign * point.score) for curve in self.curves]
        return Trained(self.best_weights(), best, self.curves, self.wall_s, self.phases)

    def best_weights(self) -> list[PyTree]:
        """The best policy of each seed, from where it was saved."""
        setup = self.setup
        target = functions.weights_spec(
            self.system, setup.play_env, setup.network, self.scored_params
        )
        processes.wait_for_all("policies are written")
        found = [
            checkpoints.restore(self.policy_path(index), target)[0]
            for index in range(len(self.seeds))
        ]
        return found if self.mesh is None else jax.device_get(found)


def _member(tree: PyTree, index: int) -> PyTree:
    return jax.tree.map(lambda x: x[index], tree)
