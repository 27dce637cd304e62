"""A sweep as tasks of Ray gives the table that it gives without, also if a worker is killed."""

import contextlib
import importlib.util
import json
import os
import pickle
import signal
import threading
from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from jaxsched.cli import main
from jaxsched.errors import JaxschedError
from jaxsched.experiment import ray_connection, ray_engine, ray_worker
from jaxsched.experiment.engines import engine_of
from jaxsched.experiment.groups import Session, shared_by
from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.sweep_plan import plan_sweep
from jaxsched.experiment.sweeping import run_sweep
from jaxsched.runs.policies import find_trained
from jaxsched.runs.sweep import read_axes
from tests.command_line import refused
from tests.example_system import registered
from tests.runs.test_sweep import RATES, TINY, rows_of

if importlib.util.find_spec("ray") is None:
    pytest.skip("ray is not installed", allow_module_level=True)

WORDS = [*TINY, *RATES, "--num-seeds", "2", "--side-by-side", "2", "--quiet"]
NEWER = "connection to the metrics exporter agent"  # said by Ray 2.51 of its own accord
HALF = 0.5  # of a core a task: two workers on any machine


@pytest.fixture(scope="module")
def system():
    with registered() as module:
        yield module.SYSTEM


@pytest.fixture(scope="module")
def plain(system, tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "plain"
    assert main([*WORDS, "--out", str(path)]) == 0
    return path


def planned_in(folder, system):
    """The plan of WORDS."""
    changes = [TINY[index + 1] for index, word in enumerate(TINY) if word == "--set"]
    options = TraceOptions(0, 2, 14)
    return plan_sweep(
        system, folder, axes=read_axes([RATES[1]]), preset="plain-search", overrides=changes,
        num_seeds=2, side_by_side=2, options=options,
    )  # fmt: skip


def found_in(folder, system):
    """All that was learnt, of each group: curves less their times, and of each member weights."""
    found = {}
    for path in sorted(folder.glob("group*")):
        lines = map(json.loads, (path / "metrics.jsonl").read_text().splitlines())
        curves = [
            {name: value for name, value in line.items() if not name.endswith("_s")}
            for line in lines
        ]
        weights = {
            place.name: [
                leaf.tobytes()
                for leaf in map(np.asarray, jax.tree.leaves(weights_of(place, system)))
            ]
            for place in sorted((path / "policies").iterdir())
        }
        assert curves and len(weights) == 2
        found[path.name] = (curves, weights)
    return found


def weights_of(place, system):
    return find_trained(str(place), system).trained()[0].weights


def dying(system, marker):
    """The system, whose first worker at its second evaluation of two members is killed."""

    driver, place, scored, primary = os.getpid(), str(marker), [], system.metrics.primary

    def score(played):
        scored.append(played)
        if os.getpid() != driver and len(scored) == 3:
            with contextlib.suppress(FileExistsError):
                os.close(os.open(place, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
        return float(played.metrics[primary].mean())

    return replace(system, metrics=system.metrics._replace(score=score))


def test_two_workers_of_which_one_is_killed(plain, system, tmp_path, capfd):
    lines = []
    planned = planned_in(tmp_path / "ray", dying(system, tmp_path / "killed"))
    session = Session(say=lines.append, shown=False)
    swept = run_sweep(planned, session, engine_of("ray", num_cpus=HALF))
    assert (tmp_path / "killed").exists()
    lost = [line for line in lines if "its worker was lost; again" in line]
    assert len(lost) == 1 and "goes on in" in lost[0]
    assert len({line.partition("process ")[2] for line in lines if "process " in line}) == 3
    assert swept.rows == rows_of(plain)
    assert found_in(tmp_path / "ray", system) == found_in(plain, system)
    assert not (tmp_path / "ray" / ray_worker.SIGN).exists()
    assert [line for line in "".join(capfd.readouterr()).splitlines() if NEWER not in line] == []
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_sweep_on_a_running_cluster_stops_and_goes_on(plain, system, tmp_path, capfd):
    ray_connection.load(log=False)
    with ray_connection._no_warnings(), ray_connection._handlers():
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    folder = tmp_path / "sweep"
    words = [*WORDS, "--out", str(folder)]
    over = threading.Event()
    stopper = threading.Thread(target=interrupt_when_there, args=(folder, over), daemon=True)
    stopper.start()
    try:
        status = main(
            [*words, "--engine", "ray", "--address", cluster.address, "--num-cpus", "0.5"]
        )
    finally:
        over.set()
        stopper.join()
        with ray_connection._no_warnings():
            cluster.shutdown()
    assert status == 130
    assert "continue with the same command and --resume" in capfd.readouterr().err
    assert list(folder.glob("group*/checkpoints/*"))  # what has begun is kept
    assert main([*words, "--resume"]) == 0  # with any engine
    assert rows_of(folder) == rows_of(plain)
    assert found_in(folder, system) == found_in(plain, system)


def interrupt_when_there(folder, over):
    """Ctrl-C as soon as a group has begun."""
    while not over.wait(0.05):
        if list(folder.glob("group*/config.json")):
            os.kill(os.getpid(), signal.SIGINT)
            return


def test_a_folder_that_a_worker_does_not_see_is_brought_back(plain, system, tmp_path):
    planned = planned_in(tmp_path / "here", system)
    (tmp_path / "here").mkdir()
    content = shared_by(planned)._replace(system=None, recipe=None)
    shared = {
        "versions": ray_worker.versions(),
        "environment": {},
        "settings": {},
        "path": [],
        "devices": None,
        "shard": "seeds",
        "deadline": None,
        "sign": "another machine's",
        "options_typed": False,
        "system": system.name,
        "preset": "plain-search",
        "content": pickle.dumps(content),
    }
    told = []
    tell = SimpleNamespace(remote=lambda *words: told.append(words))
    board = SimpleNamespace(tell=tell, asked=SimpleNamespace(remote=lambda: 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ray.get", lambda value, timeout: value)
        outcome = ray_worker.train(shared, "group 1 of 2", pickle.dumps(planned.groups[0]), board)
    assert "policies are brought back at the end" in told[0][1]
    assert outcome["rows"] == rows_of(plain)[:2]
    ray_engine._unpack(outcome["files"], tmp_path / "here" / "group0")
    here, there = found_in(tmp_path / "here", system), found_in(plain, system)
    assert here == {"group0": there["group0"]}
    assert not (tmp_path / "here" / "group0" / "checkpoints").exists()


def test_what_cannot_be_had_is_refused_in_one_line(system, tmp_path, capsys):
    words = [*WORDS, "--out", str(tmp_path / "sweep"), "--engine", "ray"]
    line = refused(capsys, *words, "--address", "127.0.0.1:1")
    assert "Ray at '127.0.0.1:1': nothing answers there" in line

    import ray

    with pytest.raises(JaxschedError, match="cannot be sent to workers"):
        ray_engine._portable(ray, replace(system, title=threading.Lock()))
