"""Sweeps, head-room, replays and hand-overs from Python."""

import json

import jax
import numpy as np
import pytest

import jaxsched
from tests.experiment.test_front_door import PLAYED, TABLES, TINY

pytestmark = pytest.mark.extended


def test_a_sweep_gives_its_best_setting(tmp_path):
    small = {**TINY, "loop.num_updates": 2}
    sweep = jaxsched.sweep(
        "sched2",
        over={"learner.learning_rate": [1e-3, 1e-2]},
        num_seeds=2,
        preset="plain-ppo",
        traces=TABLES,
        set=small,
        out=tmp_path / "sweep",
    )
    assert len(sweep.rows) == 4 and sweep.best["learner.learning_rate"] in (1e-3, 1e-2)
    pytest.importorskip("pandas")
    assert len(sweep.to_pandas()) == 4


def test_headroom_and_replay():
    room = jaxsched.headroom(
        "sched2", "fifo", **{**PLAYED, "traces": TABLES[:1]}, num_jobs=6, futures=0
    )
    assert "clairvoyant" in str(room)
    log = jaxsched.traces.load("philly-like", num_jobs=60)
    part = jaxsched.replay("sched2", traces=log, part="0.5:1", num_traces=2, num_jobs=9, cut=True)
    assert "jobs 30 to 60 of 60" in str(part.notes) + str(part.facts)
    page = jaxsched.replay("sched2", policies=["strict_sif", "fifo"], **PLAYED)
    assert page._repr_html_().startswith("<iframe")
    assert [schedule.policy for schedule in page.schedules] == ["strict_sif", "fifo"]


def test_a_policy_goes_to_a_folder_and_back(tmp_path):
    policy = jaxsched.load("sched2/pretrained")
    folder = jaxsched.export(policy, tmp_path / "handed")
    assert json.loads((folder / "manifest.json").read_text())["system"] == "sched2"
    env, params = jaxsched.make("sched2", traces=TABLES)
    _, timestep = env.reset(jax.random.key(0), params)
    seen = np.asarray(timestep.observation), np.asarray(timestep.action_mask)
    assert int(jaxsched.load(folder)(*seen)) == int(policy(*seen))


def test_an_environment_goes_to_a_folder(tmp_path):
    small = {"env.num_servers": 4, "env.gpus_per_server": 4}
    words = {"environment": True, "set": small, "window": 3}
    folder = jaxsched.export("sched2", tmp_path / "env", traces=TABLES, **words)
    assert json.loads((folder / "environment.json").read_text())["system"] == "sched2"
    with pytest.raises(jaxsched.JaxschedError, match="^seed does not go with environment"):
        jaxsched.export("sched2", tmp_path / "env", environment=True, seed=1)
    with pytest.raises(jaxsched.JaxschedError, match="^traces goes with environment"):
        jaxsched.export("sched2/pretrained", tmp_path / "env", traces=TABLES)


def test_times_of_jobs_come_as_a_frame():
    pytest.importorskip("pandas")
    table = jaxsched.compare("sched2", policies=["fifo"], **PLAYED)
    jobs = table.jobs()
    assert {"policy", "episode", "job", "submit_time", "start_time", "end_time"} <= set(jobs)
    assert len(jobs) == sum(map(len, TABLES))
