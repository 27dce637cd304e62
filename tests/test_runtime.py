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
    assert folder == (own or str(tmp_path / "jaxsched" / "jax"))
    assert own is not None or float(seconds) == runtime.LEAST_COMPILE_S
