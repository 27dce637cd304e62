"""Trackers: what they are given, on fakes; the real ones where they are installed."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.runs import trackers
from jaxsched.runs.directory import RunDirectory

CONFIG = {"system": "sched2", "recipe": {"loop": {"num_envs": 4}}}


def fake_wandb(calls):
    """A module that notes how it is called."""
    module = ModuleType("wandb")

    def init(**options):
        calls.append(("init", options))
        return SimpleNamespace(
            log=lambda values, step: calls.append(("log", step, values)),
            finish=lambda: calls.append(("finish",)),
        )

    module.init = init
    return module


def fake_mlflow(calls):
    module = ModuleType("mlflow")

    class Client:
        def create_run(self, experiment, run_name):
            calls.append(("create", experiment, run_name))
            return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

        def get_run(self, run):
            calls.append(("get", run))

        def log_param(self, run, name, value):
            calls.append(("param", name, value))

        def log_metric(self, run, name, value, step):
            calls.append(("metric", name, value, step))

        def set_terminated(self, run):
            calls.append(("end", run))

    module.set_experiment = lambda name: SimpleNamespace(experiment_id=f"id of {name}")
    module.MlflowClient = Client
    return module


def test_a_run_logs_to_all_of_them(tmp_path, monkeypatch):
    calls = {"wandb": [], "mlflow": []}
    monkeypatch.setitem(sys.modules, "wandb", fake_wandb(calls["wandb"]))
    monkeypatch.setitem(sys.modules, "mlflow", fake_mlflow(calls["mlflow"]))
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    with RunDirectory.create(tmp_path / "first", CONFIG) as run:
        run.trackers = trackers.start(["wandb", "mlflow"], run.path, run.config)
        run.log(3, {"loss": 0.5, "return": float("nan")})
    kind, options = calls["wandb"][0]
    assert kind == "init" and options["project"] == "jaxsched" and options["name"] == "first"
    assert options["config"] == CONFIG and options["resume"] == "allow"
    assert calls["wandb"][1:] == [("log", 3, {"loss": 0.5}), ("finish",)]
    assert calls["mlflow"] == [
        ("create", "id of jaxsched", "first"),
        ("param", "system", "sched2"),
        ("param", "recipe.loop.num_envs", "4"),
        ("metric", "loss", 0.5, 3),
        ("end", "r1"),
    ]
    (again,) = trackers.start(["mlflow"], tmp_path / "first", CONFIG)
    again.log(4, {"loss": 0.25})
    assert calls["mlflow"][5:] == [("get", "r1"), ("metric", "loss", 0.25, 4)]
    (same,) = trackers.start(["wandb"], tmp_path / "first", CONFIG)
    assert calls["wandb"][3][1]["id"] == options["id"]
    same.close()


def test_what_cannot_start_is_one_line(tmp_path, monkeypatch):
    with pytest.raises(JaxschedError, match="unknown; known are wandb, mlflow"):
        trackers.start(["tensorflow"], tmp_path, CONFIG)
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(JaxschedError, match="is not installed; pip install wandb"):
        trackers.start(["wandb"], tmp_path, CONFIG)
    ended = []
    monkeypatch.setitem(sys.modules, "mlflow", fake_mlflow(ended))
    broken = ModuleType("wandb")
    broken.init = lambda **options: (_ for _ in ()).throw(RuntimeError("no\nkey"))
    monkeypatch.setitem(sys.modules, "wandb", broken)
    with pytest.raises(JaxschedError, match="wandb: cannot start: no key"):
        trackers.start(["mlflow", "wandb"], tmp_path, CONFIG)
    assert ended[-1] == ("end", "r1"), "those that had started are closed"
