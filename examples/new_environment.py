"""A scheduling problem of your own, in the ordinary commands: weighted jobs on identical GPUs.

The rules of the game are in ``weighted_jobs.py`` and know nothing of learning. This file makes them
an environment and a system, registers it, and hands over to the command line:

    python examples/new_environment.py train weighted --num-seeds 3
    python examples/new_environment.py compare weighted --checkpoint runs/weighted-quick
    python examples/new_environment.py export runs/weighted-quick

A package would offer ``SYSTEM`` as an entry point of the group ``jaxsched.systems`` instead, and
``jaxsched`` itself would know it.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import weighted_jobs as game

from jaxsched import Environment, TimeStep
from jaxsched.core.policies import uniform_legal
from jaxsched.core.recorder import JobEvents
from jaxsched.jobs import NO_SUBMISSION, Column
from jaxsched.jobs.metrics import Metric
from jaxsched.systems import registry
from jaxsched.systems.system import Jobs, System
from jaxsched.types import ArraySpec, DiscreteSpec

SCALE_S = 600.0  # of times in observations
COST_SCALE = 30_000.0  # weighted seconds
FEATURES = ("waits", "duration", "weight")  # of each position; 0 in empty ones


@dataclass(frozen=True)
class WeightedJobs(Environment):
    """Which of the oldest waiting jobs starts next, on ``num_gpus`` GPUs."""

    num_gpus: int = 2
    window: int = 6
    name = "weighted"
    behaviour_version = 1

    def params(self, tables: Sequence[Any]) -> game.Jobs:
        """Parameters: one episode per job table."""
        return game.Jobs(*JOBS.stacked(tables).values())

    def reset(self, key: Any, params: game.Jobs, episode: Any = None) -> tuple[Any, TimeStep]:
        """Start an episode: the one asked for, or any."""
        if episode is None:
            episode = jax.random.randint(key, (), 0, self.num_episodes(params))
        state = game.first_state(params, jnp.int32(episode), self.num_gpus)
        nothing = game.Start(jnp.int32(-1), *(jnp.int32(0) for _ in range(5)))
        return state, self._timestep(params, state, nothing, jnp.int32(0))

    def step(self, key: Any, state: Any, action: Any, params: game.Jobs) -> tuple[Any, TimeStep]:
        """Start the job at position ``action``; the reward is minus what the others wait, weighted.

        Summed it is the weighted completion time but for the run times, which are given.
        """
        following, start = game.start_job(params, state, action, self.window)
        return following, self._timestep(params, following, start, following.clock - state.clock)

    def observe(self, state: Any, params: game.Jobs) -> tuple[Any, Any]:
        """``FEATURES`` of each position, then when each GPU is free, soonest first."""
        rows, occupied = game.window(params, state, self.window)
        submit, duration, weight = (column[state.episode, rows] for column in params)
        parts = ((state.clock - submit) / SCALE_S, duration / SCALE_S, weight / 10)
        positions = jnp.where(occupied[:, None], jnp.stack(parts, axis=-1), 0.0)
        gpus = jnp.sort(jnp.maximum(state.free_at - state.clock, 0)) / SCALE_S
        seen = jnp.concatenate([positions.ravel(), gpus])
        return seen.astype(jnp.float32), occupied.at[0].set(True)

    def _timestep(self, params: game.Jobs, state: Any, start: Any, elapsed: Any) -> TimeStep:
        real = params.submit[state.episode] < NO_SUBMISSION
        total = jnp.sum(jnp.where(real, params.weight[state.episode], 0))
        cost = jnp.where(start.job >= 0, start.weight * (start.finish - start.submit), 0) / total
        events = JobEvents(
            started=start.job,
            finished=start.job,  # its end is known
            of_started={"start": start.start, "submit": start.submit},
            of_finished={"finish": start.finish},
            amounts={"weighted_jct": cost},
        )
        ended, never = game.ended(state), jnp.bool_(False)
        seen, mask = self.observe(state, params)
        reward, elapsed = -start.waited / COST_SCALE, jnp.float32(elapsed)
        return TimeStep(seen, mask, reward, ended, never, elapsed, events)

    def num_episodes(self, params: game.Jobs) -> int:
        """Job tables."""
        return params.submit.shape[0]

    def max_jobs(self, params: game.Jobs) -> int:
        """Jobs of the longest table."""
        return params.submit.shape[1]

    def max_steps(self, params: game.Jobs) -> int:
        """Each step starts a job."""
        return self.max_jobs(params)

    def observation_spec(self, params: Any) -> ArraySpec:
        """A flat vector."""
        positions = [f"position{q}.{name}" for q in range(self.window) for name in FEATURES]
        names = (*positions, *(f"gpu{gpu}.free_in" for gpu in range(self.num_gpus)))
        return ArraySpec((len(names),), minimum=0.0, names=names)

    def action_spec(self, params: Any) -> DiscreteSpec:
        """One of the positions."""
        return DiscreteSpec(self.window)


def drawn(draw: np.random.Generator, num_jobs: int) -> dict[str, Any]:
    """Poisson arrivals at nine tenths of what two GPUs can serve, log-normal run times."""
    duration = np.clip(np.rint(SCALE_S * np.exp(draw.standard_normal(num_jobs))), 30, 7200)
    gaps = draw.exponential(duration.mean() / 2 / 0.9, num_jobs)
    return {
        "submit_time": np.rint(np.cumsum(gaps) - gaps[0]),
        "duration": duration,
        "weight": draw.integers(1, 11, num_jobs),
    }


JOBS = Jobs.of(
    "weighted",
    "weighted jobs, load 0.9 of two GPUs",
    (
        Column("submit_time", 0, NO_SUBMISSION - 1, "s", "submission"),
        Column("duration", 1, 2**20, "s", "run time"),
        Column("weight", 1, 2**10, "", "what a second of waiting costs"),
    ),
    drawn,
    num_jobs=60,
    from_rigid=lambda rigid: {"weight": rigid["num_gpus"]},  # which run on one GPU here
)


def fifo(env: WeightedJobs) -> Callable[[Any], Any]:
    """Oldest job first, which is in the first position."""
    return lambda seen: -jnp.arange(env.window)


def smith(env: WeightedJobs) -> Callable[[Any], Any]:
    """Largest weight per second of run time (Smith, 1956)."""

    def scores(seen: Any) -> Any:
        positions = seen[: env.window * len(FEATURES)].reshape(env.window, len(FEATURES))
        return positions[:, 2] / jnp.maximum(positions[:, 1], 1e-6)

    return scores


SYSTEM = System(
    "weighted",
    WeightedJobs,
    {"weighted_jct": Metric("weighted JCT", "s", "lower", 1, "sum of w JCT / sum of w")},
    title="Weighted jobs on identical GPUs",
    policies={"fifo": fifo, "smith": smith, "random": uniform_legal()},
    jobs=JOBS,
)

if __name__ == "__main__":
    from jaxsched.cli.main import main

    registry.register(SYSTEM)
    sys.exit(main())
