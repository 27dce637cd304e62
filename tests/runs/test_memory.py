"""Memory is told before it is taken, and what does not fit names what would."""

import jax
import jax.numpy as jnp
import pytest

import jaxsched.memory
from jaxsched.cli import main
from jaxsched.errors import JaxschedError
from jaxsched.runs import memory
from jaxsched.runs.memory import Available, Needed
from tests.command_line import refused
from tests.example_system import registered

FIXED, EACH = 4000, 400  # bytes of what is shared, and of each environment


@jax.jit
def play(shared, states):
    """Stands for a training: some memory is shared, some is each environment's."""
    return states + shared.sum(), shared


def needed(num_envs):
    shared = jax.ShapeDtypeStruct((FIXED // 4,), jnp.float32)
    states = jax.ShapeDtypeStruct((num_envs, EACH // 4), jnp.float32)
    return memory.needed_by(play.lower(shared, states).compile())


@pytest.fixture
def limit(monkeypatch):
    """Makes up how much is free."""

    def make_up(size):
        monkeypatch.setattr(memory, "available", lambda: Available(size, "on this machine"))

    return make_up


def test_a_compiled_program_tells_what_it_needs():
    found = needed(16)
    assert found.carried == FIXED + 16 * EACH
    assert found.peak >= 2 * found.carried  # nothing is donated


def test_what_fits_is_told(limit):
    limit(10**9)
    line = memory.check(Needed(5_430_000, 1200), 16, needed)
    assert line == "memory: 5.43 MB at the peak, 1.2 kB between updates; 1 GB are free " + (
        "on this machine"
    )


def test_what_does_not_fit_names_the_most_that_does(limit):
    at_eight, at_sixteen = needed(8).peak, needed(16).peak
    limit((at_eight + at_sixteen) // 2)
    compiled = []

    def smaller(num_envs):
        compiled.append(num_envs)
        return needed(num_envs)

    with pytest.raises(JaxschedError, match="loop.num_envs=8 would fit") as refusal:
        memory.check(needed(128), 128, smaller)
    words = f"loop.num_envs=8 would fit ({memory.in_words(at_eight)})"
    assert str(refusal.value).endswith(words)
    assert len(str(refusal.value).splitlines()) == 1
    assert 8 in compiled and len(compiled) <= 3  # hopeless ones are not compiled


def test_what_cannot_fit_says_what_is_in_the_way(limit):
    limit(FIXED)
    with pytest.raises(JaxschedError, match=r"\d kB of it do not depend on loop.num_envs"):
        memory.check(needed(64), 64, needed)
    with pytest.raises(JaxschedError, match="loop.num_envs=64 cannot be halved"):
        memory.check(needed(64), 64, lambda num_envs: None)


def test_free_memory_is_read_of_machine_and_group(monkeypatch, tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   2000 kB\n")
    monkeypatch.setattr(jaxsched.memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(jaxsched.memory, "CGROUP", tmp_path)
    assert memory.available() == Available(2_048_000, "on this machine")
    (tmp_path / "memory.max").write_text("500000\n")
    (tmp_path / "memory.current").write_text("100000\n")
    assert memory.available() == Available(400_000, "on this machine")
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available() == Available(2_048_000, "on this machine")


@pytest.mark.slow
def test_a_training_that_cannot_fit_is_refused_before_it_starts(limit, tmp_path, capsys):
    """And one with the number of environments that is named does fit."""
    words = ["train", "weighted", "--preset", "plain-ppo", "--num-traces", "2", "--num-jobs", "8"]
    for setting in (
        *("loop.rollout_length=8", "loop.num_updates=2", "evaluate_every=2"),
        *("checkpoint_every=2", "network=mlp-8", "value_network=mlp-8"),
    ):
        words += ["--set", setting]
    with registered():
        limit(200_000)
        path = str(tmp_path / "large")
        line = refused(capsys, *words, "--set", "loop.num_envs=256", "--out", path)
        assert "are free on this machine: loop.num_envs=" in line
        number = line.partition("loop.num_envs=")[2].partition(" ")[0]
        path = str(tmp_path / "fits")
        assert main([*words, "--set", f"loop.num_envs={number}", "--out", path]) == 0
        assert "at the peak" in capsys.readouterr().out
