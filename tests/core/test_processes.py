"""Two processes over loopback train as one, write once, and end when one of them is gone."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jaxsched.core import processes, sharding
from jaxsched.core.processes import Launch, launch_of
from jaxsched.errors import JaxschedError
from jaxsched.runs import checkpoints
from jaxsched.runs.directory import RunDirectory

ROOT = Path(__file__).parents[2]
SLURM = {"SLURM_NTASKS": "4", "SLURM_PROCID": "2", "SLURM_STEP_NODELIST": "a[1-2]"}
MPI = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2"}
TINY = (
    *("--preset", "plain-search", "--num-traces", "2", "--num-jobs", "6", "--num-seeds", "1"),
    *("--set", "learner.members=4", "--set", "learner.episodes=2", "--set", "loop.num_envs=8"),
    *("--set", "loop.num_random_streams=2", "--set", "loop.rollout_length=8"),
    *("--set", "network=mlp-4", "--set", "checkpoint_every=2", "--set", "evaluate_every=100000"),
)
LONG, SHORT = ("--set", "loop.num_updates=100000"), ("--set", "loop.num_updates=6")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def begin(*words):
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_train_as_one(tmp_path):
    from tests.core.sharding_worker import apart, trained

    port = free_port()
    both = [begin("-m", "tests.core.process_worker", port, number, tmp_path) for number in range(2)]
    alone, _ = trained("search", None)
    for process in both:
        _, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
    written, _ = checkpoints.restore(tmp_path / "checkpoints", sharding.host_like(alone))
    assert apart(alone, written) <= 1e-6
    for number in range(2):
        facts = json.loads((tmp_path / f"facts{number}.json").read_text())
        assert facts["heard"].pop(0) == "the first one refuses"
        assert "the number is 0, 1 in the processes of this run" in facts["heard"].pop(0)
        assert facts == {
            "devices": 2,
            "restored": 0,
            "flags": [1, 0],
            "heard": [],
            "first": ["first", "other"][number],
        }


def command(port, number, path, *more):
    example = (
        "import sys; sys.path.insert(0, 'examples'); import new_environment as new;"
        "from jaxsched.systems import registry; registry.register(new.SYSTEM);"
        "from jaxsched.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    words = ["-c", example, "train", "weighted", "--out", path, *TINY, *more]
    if port:
        words += ["--coordinator", f"127.0.0.1:{port}", "--num-processes", 2]
        words += ["--process-id", number]
    return begin(*words)


def steps_written(path):
    return checkpoints.steps(path / "checkpoints")


@pytest.mark.slow
@pytest.mark.parametrize("victim", [1, 0])
def test_a_killed_process_ends_the_other_and_the_run_resumes(victim, tmp_path):
    path, port = tmp_path / "run", free_port()
    both = [command(port, number, path, *LONG) for number in range(2)]
    until = time.monotonic() + 300
    while not steps_written(path) and time.monotonic() < until:
        assert both[0].poll() is None, both[0].stderr.read()
        time.sleep(0.1)
    both[victim].send_signal(signal.SIGKILL)
    left = both[1 - victim]
    _, error = left.communicate(timeout=120)
    both[victim].communicate()
    assert left.returncode not in (0, None)
    if victim == 1:
        assert left.returncode == 1
        line = error.strip().splitlines()[-1]
        assert line.startswith("jaxsched: another process of this run has ended")
        assert f"start all of them again with --resume (run: {path})" in line
    else:  # JAX's own watch over the first process may be faster
        assert "another process of this run has ended" in error or "another task died" in error
    reached = max(steps_written(path))
    config = json.loads((path / "config.json").read_text())
    config["config"]["overrides"][-1] = f"loop.num_updates={reached + 2}"
    (path / "config.json").write_text(json.dumps(config))  # so that the rest takes seconds
    rest = ("--resume", "--set", f"loop.num_updates={reached + 2}")
    alone = command(0, 0, path, *rest)
    output, error = alone.communicate(timeout=300)
    assert alone.returncode == 0, error
    assert steps_written(path) == [reached + 2]
    assert RunDirectory.open(path).metrics()[-1]["step"] == reached + 2


@pytest.mark.slow
def test_a_refusal_of_the_first_process_is_that_of_all(tmp_path):
    (tmp_path / "file").write_text("not a run")
    port = free_port()
    both = [command(port, number, tmp_path, *SHORT) for number in range(2)]
    for process in both:
        _, error = process.communicate(timeout=300)
        assert process.returncode == 2
        assert "not empty and not a run directory" in error


def test_a_process_alone_needs_nothing():
    assert launch_of(environment={}) is None
    assert launch_of(environment={**SLURM, "SLURM_NTASKS": "1"}) is None
    batch_script = {name: SLURM[name] for name in ("SLURM_NTASKS", "SLURM_PROCID")}
    assert launch_of(environment=batch_script) is None
    processes.start(None)
    processes.start(Launch("127.0.0.1:1", 1, 0))
    assert not processes.several()
    assert processes.largest(2, 0) == (2, 0)


def test_launchers_are_recognised():
    assert launch_of(environment=SLURM) == Launch(None, 4, 2)
    open_mpi_4 = {**MPI, "OMPI_MCA_orte_hnp_uri": "1;tcp://10.0.0.1:2"}
    assert launch_of(environment=open_mpi_4) == Launch(None, 4, 2)
    with pytest.raises(JaxschedError, match="Open MPI started 4 processes .*give coordinator"):
        launch_of(environment=MPI)
    assert launch_of("a:1", environment=MPI) == Launch("a:1", 4, 2)
    pmi = {"PMI_SIZE": "2", "PMI_RANK": "1"}
    assert launch_of("a:1", environment=pmi) == Launch("a:1", 2, 1)
    assert launch_of("a:1", 3, 0, environment={}) == Launch("a:1", 3, 0)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, None),  # no word of GPUs
        ({"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, (2, 3)),  # two tasks see four
        ({"CUDA_VISIBLE_DEVICES": "5"}, (0,)),  # its own one
        ({"CUDA_VISIBLE_DEVICES": "4,5", "SLURM_GPUS_PER_TASK": "2"}, (0, 1)),
        ({"CUDA_VISIBLE_DEVICES": "4,5", "SLURM_GPUS_ON_NODE": "4"}, (0, 1)),
        ({"CUDA_VISIBLE_DEVICES": "0,1,2"}, None),  # not to be shared equally
        ({"SLURM_GPUS_ON_NODE": "2"}, (1,)),
        ({"CUDA_VISIBLE_DEVICES": "0,1,2,3", "JAX_LOCAL_DEVICE_IDS": "3"}, None),
    ],
)
def test_processes_of_a_machine_share_its_gpus(told, expected):
    slurm = {**SLURM, "SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x2)", **told}
    assert launch_of(environment=slurm) == Launch(None, 4, 2, expected)


def test_a_process_for_each_machine_has_all_its_gpus():
    slurm = {**SLURM, "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "1(x4)"}
    slurm["CUDA_VISIBLE_DEVICES"] = "0,1,2,3,4,5,6,7"
    assert launch_of(environment=slurm) == Launch(None, 4, 2, tuple(range(8)))
    mpi = {"PMI_SIZE": "2", "PMI_RANK": "1", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}
    mpi["CUDA_VISIBLE_DEVICES"] = "0,1"
    assert launch_of("a:1", environment=mpi) == Launch("a:1", 2, 1, (0, 1))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("a", 2, 0), "coordinator is 'a'; accepted: HOST:PORT"),
        (("a:99999", 2, 0), "accepted: HOST:PORT"),
        (("a:1", None, 0), "num_processes is missing"),
        (("a:1", 2, None), "process_id is missing"),
        ((None, 2, 0), "num_processes is 2, but coordinator HOST:PORT is missing"),
        (("a:1", 2, 2), "process_id is 2; accepted: 0 to 1"),
        (("a:1", 0, 0), "num_processes is 0"),
    ],
)
def test_what_does_not_fit_together_is_refused(given, message):
    with pytest.raises(JaxschedError, match=message):
        launch_of(*given, environment={})
