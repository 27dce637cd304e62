"""The one recorder: rows of nobody and steps after the end leave no trace."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.recorder import JobEvents, gather, job_recorder
from jaxsched.jobs.metrics import of_log
from jaxsched.types import TimeStep

JOBS = 3


class Records(NamedTuple):
    start: jax.Array
    gpus: jax.Array
    finish: jax.Array
    total: jax.Array


def step_of(events, reward=0.0):
    no = jnp.bool_(False)
    return TimeStep((), (), jnp.float32(reward), no, no, jnp.float32(0), events)


def event(started, finished, time, amount=0.0):
    return JobEvents(
        started=jnp.array(started, jnp.int32),
        finished=jnp.array(finished, jnp.int32),
        of_started={"start": jnp.int32(time), "gpus": jnp.array([[7, 8], [9, 10]], jnp.int8)},
        of_finished={"finish": jnp.int32(time)},
        amounts={"total": jnp.float32(amount)},
    )


STEPS = (
    (event([1, -1], [-1], 5, 0.5), True),
    (event([0, 2], [1], 8, 2.0), True),
    (event([-1, -1], [0], 9), True),
    (event([1, 0], [2], 99, 100.0), False),  # after the end
)


def test_named_tuples_are_filled():
    def init(params):
        del params
        never = jnp.full(JOBS, -1, jnp.int32)
        return Records(never, jnp.zeros((JOBS, 2), jnp.int8), never, jnp.float32(0))

    recorder = gather(init, lambda records, timestep: timestep.metrics)
    records = init(())
    for events, playing in STEPS:
        records = jax.jit(recorder.update)(records, step_of(events), jnp.bool_(playing))
    assert records.start.tolist() == [8, 5, 8]
    assert records.finish.tolist() == [9, 8, -1]
    assert records.gpus.tolist() == [[7, 8], [7, 8], [9, 10]]
    assert records.gpus.dtype == jnp.int8
    assert float(records.total) == 2.5


class Waits:
    """An environment of which the recorder asks no more than this."""

    def max_jobs(self, params):
        return params

    def reset(self, key, params):
        return (), step_of(event([-1, -1], [-1], 0)._replace(of_started=NOTED))


NOTED = {"start": jnp.int32(0), "submit": jnp.zeros(2, jnp.int32)}


def test_standard_records_are_read_off_the_events():
    env = Waits()
    recorder = job_recorder(env)
    assert job_recorder(env) is recorder
    records = recorder.init(JOBS)
    assert {name: column.shape for name, column in records.items()} == {
        **dict.fromkeys(("start", "submit", "finish"), (JOBS,)),
        **dict.fromkeys(("total", "total_reward", "steps"), ()),
    }
    for events, playing in STEPS:
        noted = {"start": events.of_started["start"], "submit": jnp.array([2, 3], jnp.int32)}
        timestep = step_of(events._replace(of_started=noted), reward=-1.5)
        records = recorder.update(records, timestep, jnp.bool_(playing))
    metrics = of_log(jax.tree.map(lambda column: np.asarray(column)[None], records))
    found = {name: value.tolist() for name, value in metrics.items()}
    assert found == {  # jobs 0 and 1: submitted at 2, started at 8 and 5, finished at 9 and 8
        "avg_jct": [6.5],
        "makespan": [9.0],
        "avg_wait": [4.5],
        "avg_run": [2.0],
        "return": [-4.5],
        "finished": [2.0],
        "total": [2.5],
        "steps": [3.0],
    }
