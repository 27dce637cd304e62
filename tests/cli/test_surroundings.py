"""What surrounds a command decides nothing: variables, homes, folders, window systems, forks."""

import json
import os
import subprocess
import sys

import pytest

from jaxsched import pictures, runtime
from jaxsched.cli import main
from tests.command_line import refused

OWN = "submit_time,num_gpus,duration\n0,1,3600\n45,8,7200\n60,2,600\n"
ODD = {
    "MPLBACKEND": "module://no_such_package.backend_inline",  # as of a notebook's kernel
    "MATPLOTLIBRC": "/nonexistent",
    "MPLCONFIGDIR": "/proc/no",
    "TMPDIR": "/nonexistent",
    "XDG_CACHE_HOME": "relative",
    "LANG": "xx_YY",
    "LC_ALL": "C",
    "PYTHONIOENCODING": "ascii",
    "COLUMNS": "0",
    "TERM": "",
    "NO_COLOR": "1",
    "FORCE_COLOR": "1",
    "TZ": "Nowhere/At_All",
    "JAX_ENABLE_X64": "1",
}
"""Neither PATH nor HOME, and a value of each variable that programs ask for."""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text(OWN)
    return path


def odd(*command, folder, **more):
    kept = {name: os.environ[name] for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PLATFORMS")}
    environment = {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **ODD, **more}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_odd_variables_change_nothing(own, tmp_path, capsys):
    here = tmp_path / "here"
    here.mkdir()
    words = ["traces", "describe", str(own), "--json"]
    done = odd("-m", "jaxsched", *words, "figures.json", "--plot", "p.png", folder=here)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and "mean_gpus" in done.stdout
    assert sorted(path.name for path in here.iterdir()) == ["figures.json", "p.png"]
    assert main([*words, "-", "--plot", str(tmp_path / "p.png")]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((here / "figures.json").read_text())
    assert (here / "p.png").read_bytes() == (tmp_path / "p.png").read_bytes()


def test_a_picture_that_cannot_be_drawn_costs_no_result(own, tmp_path, monkeypatch, capsys):
    from matplotlib.figure import Figure

    def fail(*_, **__):
        raise RuntimeError("no font\nat all")

    monkeypatch.setattr(Figure, "savefig", fail)
    values, picture = tmp_path / "values.json", tmp_path / "p.png"
    line = refused(capsys, "traces", "describe", own, "--json", values, "--plot", picture)
    assert line == f"jaxsched: {picture}: cannot be drawn: no font"
    assert json.loads(values.read_text())["jobs"] == 3 and not picture.exists()


def test_settings_of_the_caller_do_not_reach_pictures(tmp_path):
    import matplotlib

    @pictures.styled
    def draw(path):
        figure = pictures.new_figure(2, 2)
        figure.subplots().set(title="title")
        pictures.save_figure(figure, path)

    paths = [tmp_path / "usual.png", tmp_path / "own.png"]
    for path, settings in zip(paths, ({}, {"axes.facecolor": "red", "font.size": 20}), strict=True):
        with matplotlib.rc_context(settings):
            draw(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(
    ("home", "cache"),
    [(None, ""), ("/proc/nobody", ""), (None, "relative"), (None, "/proc/cache"), (None, "/\0")],
)
def test_no_programs_are_kept_where_there_is_no_place(home, cache, monkeypatch):
    monkeypatch.setattr(os.path, "expanduser", lambda path: path.replace("~", home or "~"))
    monkeypatch.setattr(os, "environ", {"XDG_CACHE_HOME": cache})
    assert runtime._cache_folder() is None


def test_cores_are_counted_where_no_affinity_is_known(monkeypatch):
    from jaxsched.leaderboard.cells import usual_processes
    from jaxsched.provenance import surroundings

    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert runtime.num_cores() == 7 and usual_processes() == 2
    assert surroundings()["cores"] == 7


FORK = """
import os, jax, jaxsched
from jaxsched.adapters.copies import Copies
env, params = jaxsched.make("sched2", num_traces=1, num_jobs=2)
copies = Copies(env, params, 1)
jax.devices()
child = os.fork()
if child == 0:
    for call in (lambda: jaxsched.make("sched2"), lambda: copies.begin([0])):
        try:
            call()
        except jaxsched.JaxschedError as error:
            print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_forked_process_says_spawn_and_does_not_hang(tmp_path):
    done = odd("-W", "ignore", "-c", FORK, folder=tmp_path)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and all("'spawn'" in line for line in lines), done.stderr


def test_warnings_are_one_line():
    import warnings

    assert main(["--help"]) == 0
    text = warnings.formatwarning("two\nlines", UserWarning, "file.py", 3)
    assert text == "jaxsched: two lines\n"
