"""The run directory: recorded facts, consistent logs, clear refusals."""

import errno
import fcntl
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import jaxsched
from jaxsched.errors import JaxschedError
from jaxsched.json_values import json_value
from jaxsched.runs.directory import RunDirectory, file_digest

CONFIG = {"system": "sched2", "preset": "quick", "overrides": {"lr": 0.001}, "seed": 3}


def test_config_records_what_the_result_depends_on(tmp_path):
    RunDirectory.create(tmp_path / "a" / "run", CONFIG)
    document = json.loads((tmp_path / "a" / "run" / "config.json").read_text())
    assert document["config"] == CONFIG
    session = document["sessions"][0]
    assert session["code"]["jaxsched"] == jaxsched.__version__
    assert set(session["versions"]) >= {"jax", "flax", "optax", "numpy"}
    assert session["device"]["platform"] == "cpu"
    assert session["command"] and session["date"] and session["python"]


def test_a_run_can_be_opened_again(tmp_path):
    RunDirectory.create(tmp_path, CONFIG)
    run = RunDirectory.open(tmp_path)
    assert run.config == CONFIG
    assert run.checkpoints == tmp_path / "checkpoints"
    assert run.report == tmp_path / "report.html"


def test_lines_are_on_disk_at_once_and_valid_json(tmp_path):
    with RunDirectory.create(tmp_path, CONFIG) as run:
        run.log(10, {"loss": jnp.float32(0.5), "return": np.float64(-2), "bad": float("nan")})
        text = (tmp_path / "metrics.jsonl").read_text()
    line = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert (line["step"], line["loss"], line["return"], line["bad"]) == (10, 0.5, -2.0, None)


def read_events(path: Path) -> list:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    files = sorted(path.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    return [event for file in files for event in EventFileLoader(str(file)).Load()]


def scalar(value) -> float:
    """The number in a summary (the loader turns simple values into tensors)."""
    return value.tensor.float_val[0] if value.HasField("tensor") else value.simple_value


def test_tensorboard_reads_the_same_numbers(tmp_path):
    with RunDirectory.create(tmp_path, CONFIG) as run:
        run.log(10, {"loss": 0.5})
        run.log(20, {"loss": 0.25})
    events = [e for e in read_events(tmp_path / "tensorboard") if e.summary.value]
    found = [(e.step, e.summary.value[0].tag, scalar(e.summary.value[0])) for e in events]
    assert found == [(10, "loss", 0.5), (20, "loss", 0.25)]


def test_tensorflow_is_not_needed(tmp_path):
    code = (
        "import sys; from jaxsched.runs.directory import RunDirectory\n"
        "assert 'tensorboard' not in sys.modules\n"
        "run = RunDirectory.create(sys.argv[1], {}); run.log(1, {'x': 1}); run.close()\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=True, cwd=root)


def test_rewind_forgets_later_and_unfinished_lines(tmp_path):
    with RunDirectory.create(tmp_path, CONFIG) as run:
        for step in (10, 20, 30):
            run.log(step, {"loss": step})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 40, "lo')  # killed while writing
    with RunDirectory.create(tmp_path, CONFIG, resume=True) as run:
        assert [line["step"] for line in run.metrics()] == [10, 20, 30]
        run.rewind(20)
        run.log(30, {"loss": 31})
        assert [(x["step"], x["loss"]) for x in run.metrics()] == [(10, 10), (20, 20), (30, 31)]
    starts = [e.step for e in read_events(tmp_path / "tensorboard") if e.session_log.status == 1]
    assert starts == [21]  # TensorBoard drops what older files hold from there on
    assert len(json.loads((tmp_path / "config.json").read_text())["sessions"]) == 2


def test_resume_refuses_another_config(tmp_path):
    RunDirectory.create(tmp_path, CONFIG)
    with pytest.raises(JaxschedError, match="seed was 3, now it is 4"):
        RunDirectory.create(tmp_path, {**CONFIG, "seed": 4}, resume=True)
    with pytest.raises(JaxschedError, match="no such run directory"):
        RunDirectory.create(tmp_path / "missing", CONFIG, resume=True)


def test_an_existing_run_is_replaced_only_when_asked(tmp_path):
    with RunDirectory.create(tmp_path, CONFIG) as run:
        run.log(1, {"x": 1})
    with pytest.raises(JaxschedError, match="there is a run already"):
        RunDirectory.create(tmp_path, CONFIG)
    run = RunDirectory.create(tmp_path, {**CONFIG, "seed": 4}, overwrite=True)
    assert run.config["seed"] == 4
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


HOLD = (
    "import sys; from jaxsched.runs.lock import FolderLock; from pathlib import Path\n"
    "lock = FolderLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()\n"
)


@pytest.mark.parametrize("how", [{"resume": True}, {"overwrite": True}, {}])
def test_one_process_works_in_a_run_directory_at_a_time(tmp_path, how):
    RunDirectory.create(tmp_path, CONFIG).close()
    config = (tmp_path / "config.json").read_text()
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root,
    ) as other:  # fmt: skip
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(JaxschedError) as caught:
            RunDirectory.create(tmp_path, CONFIG, **how)
        said = re.search(r"another process(?: \((\d+)\))? works in this run", str(caught.value))
        assert said and said[1] in (None, str(other.pid))  # not every system tells which one
        assert "\n" not in str(caught.value)
        assert (tmp_path / "config.json").read_text() == config
        assert RunDirectory.open(tmp_path).metrics() == []  # reading is free
        other.kill()  # as the kernel does: nothing is cleaned up
        other.wait()
        with RunDirectory.create(tmp_path, CONFIG, resume=True) as run:
            run.rewind(0)  # keeps the lock
            with pytest.raises(JaxschedError, match="another process"):
                RunDirectory.create(tmp_path, CONFIG, resume=True)
        RunDirectory.create(tmp_path, CONFIG, overwrite=True).close()


def test_file_systems_without_locks_are_used_without(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with RunDirectory.create(tmp_path, CONFIG), RunDirectory.create(tmp_path, CONFIG, resume=True):
        pass


@pytest.mark.parametrize("content", [{"notes.txt": ""}, {"config.json": "{}"}])
def test_a_folder_of_something_else_is_never_touched(tmp_path, content):
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(JaxschedError, match="not empty and not a run directory"):
        RunDirectory.create(tmp_path, CONFIG, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == list(content)


def test_output_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JaxschedError, match="cannot be written"):
        RunDirectory.create(tmp_path / "file" / "run", CONFIG)
    with pytest.raises(JaxschedError, match="not a directory"):
        RunDirectory.create(tmp_path / "file", CONFIG)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_line(tmp_path):
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with RunDirectory(tmp_path, CONFIG) as run, pytest.raises(JaxschedError, match="No space left"):
        run.log(1, {"x": 1})


@dataclass(frozen=True)
class Inner:
    sizes: tuple[int, ...]
    path: Path


def test_to_plain_and_digest(tmp_path):
    value = {"a": Inner((1, 2), Path("x")), "b": np.float32(0.5), "c": float("inf"), 4: jnp.ones(2)}
    plain = {"a": {"sizes": [1, 2], "path": "x"}, "b": 0.5, "c": None, "4": [1.0, 1.0]}
    assert json_value(value) == plain
    (tmp_path / "trace.csv").write_bytes(b"abc")
    assert file_digest(tmp_path / "trace.csv").startswith("sha256:ba7816bf")
    with pytest.raises(JaxschedError, match="cannot be read"):
        file_digest(tmp_path / "missing.csv")


def test_write_json_replaces_the_whole_file(tmp_path):
    run = RunDirectory.create(tmp_path, CONFIG)
    path = run.write_json("results.json", {"jct": np.float64(2)})
    assert json.loads(path.read_text()) == {"jct": 2.0}
    assert not list(tmp_path.glob("*.tmp"))
