"""Settings of the process: XLA's flags for CPUs, and where compiled programs are kept."""

import os
import subprocess
import sys

import pytest

from jaxsched import runtime


def test_prepare_cpu_keeps_what_is_set(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--some_flag=1")
    runtime.prepare_cpu()
    runtime.prepare_cpu()
    assert os.environ["XLA_FLAGS"].split() == [
        "--some_flag=1",
        f"--xla_backend_extra_options={runtime.UNROLL_OPTION}=true",
    ]
    mine = f"--xla_backend_extra_options={runtime.UNROLL_OPTION}=false"
    monkeypatch.setenv("XLA_FLAGS", mine)
    runtime.prepare_cpu()
    assert os.environ["XLA_FLAGS"] == mine


@pytest.mark.parametrize("before", ["", "import jax; "], ids=["before jax", "after jax"])
@pytest.mark.parametrize("own", [None, "/somewhere/else"], ids=["unset", "set by the user"])
def test_compilations_are_kept_unless_the_user_says_where(before, own, tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    if own is not None:
        environment["JAX_COMPILATION_CACHE_DIR"] = own
    code = (
        f"{before}from jaxsched.runtime import keep_compilations; keep_compilations(); import jax;"
        "c = jax.config; print(c.jax_compilation_cache_dir);"
        "print(c.jax_persistent_cache_min_compile_time_secs)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    folder, seconds = done.stdout.split()
    assert folder == (own or str(tmp_path / "jaxsched" / "jax" / runtime.machine()))
    assert own is not None or float(seconds) == runtime.LEAST_COMPILE_S


@pytest.mark.parametrize("switch", ["1", "0"], ids=["on", "off"])
def test_the_switch_keeps_programs_or_none(switch, tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "JAX_ENABLE_COMPILATION_CACHE": switch}
    code = (
        "from jaxsched import runtime; runtime.LEAST_COMPILE_S = 0; runtime.keep_compilations();"
        "import jax; jax.jit(lambda x: x + 1)(1.0).block_until_ready()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert bool(kept) == (switch == "1")


def test_programs_of_other_machines_are_kept_apart(monkeypatch):
    here = runtime.machine()
    assert here == runtime.machine()
    monkeypatch.setattr(runtime.platform, "machine", lambda: "another")
    assert runtime.machine() != here
    monkeypatch.undo()
    monkeypatch.setattr(runtime.metadata, "version", lambda name: "0.0.1")
    assert runtime.machine() == f"0.0.1-{here.rpartition('-')[2]}"
