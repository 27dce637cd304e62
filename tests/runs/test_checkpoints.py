"""Checkpoints: same bits, never half of one, clear refusals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.runs import checkpoints

META = {"system": "sched2", "behaviour_version": 1, "seed": 7}


class Carry(NamedTuple):
    params: Any
    optimiser: Any
    keys: Any
    empty: Any
    counters: Any


def make_carry(seed: int = 0) -> Carry:
    key = jax.random.key(seed)
    params = {"w": jax.random.normal(key, (3, 4)), "b": jnp.arange(4, dtype=jnp.bfloat16)}
    return Carry(
        params=params,
        optimiser=optax.adam(1e-3).init(params),
        keys=jax.random.split(key, 5),
        empty=jnp.zeros((0, 3)),
        counters=(3, 2.5, True, None, np.int64(2**40), np.arange(3), jnp.array([jnp.nan, -0.0])),
    )


def as_bytes(leaf: Any) -> tuple[str, Any, bytes]:
    if hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return str(array.dtype), array.shape, array.tobytes()


def assert_same_bits(a: Any, b: Any) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert type(x) is type(y)
        assert as_bytes(x) == as_bytes(y)


def test_restores_the_same_bits_and_kinds_of_leaves(tmp_path):
    carry = make_carry()
    checkpoints.save(tmp_path, 10, carry, META)
    restored, meta = checkpoints.restore(tmp_path, make_carry(seed=1))
    assert_same_bits(restored, carry)
    assert meta == META
    assert checkpoints.read_meta(tmp_path) == META
    assert jax.random.bits(restored.keys[2]) == jax.random.bits(carry.keys[2])


def test_restores_into_an_abstract_target(tmp_path):
    carry = make_carry()._replace(counters=())
    checkpoints.save(tmp_path, 1, carry, META)
    restored, _ = checkpoints.restore(tmp_path, jax.eval_shape(lambda: carry))
    assert_same_bits(restored, carry)


def test_donated_carry_resumes_to_the_same_bits(tmp_path):
    def advance(carry: dict[str, Any]) -> dict[str, Any]:
        noise = jax.random.normal(jax.random.fold_in(carry["key"], carry["n"]), (1000,))
        return {"x": 0.9 * carry["x"] + noise, "key": carry["key"], "n": carry["n"] + 1}

    step = jax.jit(advance, donate_argnums=0)

    def fresh() -> dict[str, Any]:
        return {"x": jnp.zeros(1000), "key": jax.random.key(3), "n": jnp.int32(0)}

    carry = fresh()
    for i in range(1, 7):
        carry = step(carry)
        if i <= 3:
            checkpoints.save(tmp_path, i, carry, META)
    resumed, _ = checkpoints.restore(tmp_path, fresh(), step=3)
    for _ in range(3):
        resumed = step(resumed)
    assert_same_bits(resumed, carry)


def test_keeps_the_newest(tmp_path):
    for step in (1, 2, 4, 5):
        checkpoints.save(tmp_path, step, {"x": jnp.arange(3)}, META, keep=2)
    assert checkpoints.steps(tmp_path) == [4, 5]


def test_saving_after_a_rewind_removes_the_abandoned_continuation(tmp_path):
    for step in (1, 2, 3):
        checkpoints.save(tmp_path, step, {"x": jnp.full(2, step)}, META, keep=9)
    checkpoints.save(tmp_path, 2, {"x": jnp.full(2, 20)}, META, keep=9)
    assert checkpoints.steps(tmp_path) == [1, 2]
    assert checkpoints.restore(tmp_path, {"x": jnp.zeros(2, int)})[0]["x"].tolist() == [20, 20]


def damage_nothing_left(path: Path) -> None:
    (path / "meta" / "metadata").unlink()


def damage_truncated_facts(path: Path) -> None:
    file = path / "meta" / "metadata"
    file.write_bytes(file.read_bytes()[:40])


def damage_arrays_missing(path: Path) -> None:
    for file in (path / "carry").rglob("*"):
        if file.is_file() and "ocdbt" not in file.name and file.parent.name == "d":
            file.unlink()


def damage_flipped_bit(path: Path) -> None:
    """Change the largest data file in its middle."""
    files = [f for f in (path / "carry").rglob("d/*") if f.is_file()]
    file = max(files, key=lambda f: f.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x10
    file.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "damage",
    [damage_nothing_left, damage_truncated_facts, damage_arrays_missing, damage_flipped_bit],
)
def test_a_damaged_newest_checkpoint_falls_back_with_a_warning(tmp_path, damage):
    for step in (1, 2):
        x = jax.random.normal(jax.random.key(step), (5000,))
        checkpoints.save(tmp_path, step, {"x": x}, {**META, "step": step})
    damage(tmp_path / "2")
    with pytest.warns(UserWarning, match="checkpoint 2 is damaged"):
        restored, meta = checkpoints.restore(tmp_path, {"x": jnp.zeros(5000)})
    assert meta["step"] == 1
    assert_same_bits(restored["x"], jax.random.normal(jax.random.key(1), (5000,)))
    with pytest.raises(JaxschedError, match="checkpoint 2 is damaged"):
        checkpoints.restore(tmp_path, {"x": jnp.zeros(5000)}, step=2)
    lines = []
    assert checkpoints.newest_whole(tmp_path, lines.append) == 1
    (line,) = lines
    assert "checkpoint 2 is damaged" in line and line.endswith("from checkpoint 1, the one before")
    damage(tmp_path / "1")
    with pytest.raises(JaxschedError, match="checkpoint 1 is damaged: .*begins the run anew"):
        checkpoints.newest_whole(tmp_path)


def test_whole_checkpoints_are_told_without_what_they_are_of(tmp_path):
    assert checkpoints.newest_whole(tmp_path) is None
    for step in (3, 5):
        checkpoints.save(tmp_path, step, make_carry(step), META)
    assert checkpoints.newest_whole(tmp_path) == 5


def test_unfinished_checkpoints_are_ignored_and_cleaned_up(tmp_path):
    checkpoints.save(tmp_path, 1, {"x": jnp.ones(2)}, META)
    (tmp_path / "2.orbax-checkpoint-tmp-17").mkdir()
    assert checkpoints.steps(tmp_path) == [1]
    checkpoints.restore(tmp_path, {"x": jnp.zeros(2)})
    checkpoints.save(tmp_path, 2, {"x": jnp.ones(2)}, META)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"system": "dl2"}, "system 'sched2', expected 'dl2'"),
        ({"behaviour_version": 2}, "behaviour version 1, expected 2"),
    ],
)
def test_another_system_or_version_is_refused(tmp_path, expected, message):
    checkpoints.save(tmp_path, 1, {"x": jnp.ones(2)}, META)
    with pytest.raises(JaxschedError, match=message) as caught:
        checkpoints.restore(tmp_path, {"x": jnp.zeros(2)}, expected=expected)
    assert "\n" not in str(caught.value)


def test_another_format_is_refused(tmp_path):
    checkpoints.save(tmp_path, 1, {"x": jnp.ones(2)}, META)
    file = tmp_path / "1" / "meta" / "metadata"
    facts = json.loads(file.read_text())
    file.write_text(json.dumps({**facts, "format_version": 99}))
    with pytest.raises(JaxschedError, match="checkpoint format 99"):
        checkpoints.restore(tmp_path, {"x": jnp.zeros(2)})


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"x": jnp.zeros(3)}, r"\['x'\] is float32\[2\] in the checkpoint, float32\[3\] here"),
        ({"x": jnp.zeros(2, int)}, r"\['x'\] is float32\[2\] in the checkpoint, int32\[2\] here"),
        ({"y": jnp.zeros(2)}, r"\['y'\] is absent in the checkpoint, float32\[2\] here"),
        ({}, r"\['x'\] is float32\[2\] in the checkpoint, absent here"),
    ],
)
def test_another_network_is_refused_by_the_name_of_its_leaf(tmp_path, target, message):
    checkpoints.save(tmp_path, 1, {"x": jnp.ones(2)}, META)
    with pytest.raises(JaxschedError, match=message):
        checkpoints.restore(tmp_path, target)


def test_what_is_not_there_or_cannot_be_written(tmp_path):
    with pytest.raises(JaxschedError, match="no complete checkpoint"):
        checkpoints.restore(tmp_path / "nowhere", {})
    checkpoints.save(tmp_path / "run", 1, {"x": jnp.ones(2)}, META)
    with pytest.raises(JaxschedError, match=r"no checkpoint of step 5, there are \[1\]"):
        checkpoints.restore(tmp_path / "run", {"x": jnp.zeros(2)}, step=5)
    (tmp_path / "file").write_text("")
    with pytest.raises(JaxschedError, match="cannot write a checkpoint"):
        checkpoints.save(tmp_path / "file" / "run", 1, {"x": jnp.ones(2)}, META)
    with pytest.raises(JaxschedError, match="meta must be JSON"):
        checkpoints.save(tmp_path / "run", 2, {"x": jnp.ones(2)}, {"bad": object()})


SAVE_FOREVER = """
import itertools, sys
import numpy as np
from jaxsched.runs import checkpoints

for step in itertools.count(1):
    carry = {"x": np.random.default_rng(step).random(200_000), "step": step}
    checkpoints.save(sys.argv[1], step, carry, {"system": "sched2", "step": step}, keep=2)
    print(step, flush=True)
"""


def test_a_killed_process_leaves_a_checkpoint_that_loads_rightly(tmp_path):
    rng = np.random.default_rng(5)
    target = {"x": np.zeros(200_000), "step": 0}
    last = 0
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVE_FOREVER, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        for _ in range(3):  # at least two saves are then complete
            assert process.stdout.readline()
        time.sleep(rng.uniform(0, 0.3))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        carry, meta = checkpoints.restore(tmp_path, target)
        last = meta["step"]
        assert last >= 2
        assert carry["step"] == last == checkpoints.steps(tmp_path)[-1]
        np.testing.assert_array_equal(carry["x"], np.random.default_rng(last).random(200_000))
