"""Kernels are counted where they are, and bytes are those of their arrays."""

import jax
import pytest

from benchmarks import absent_gpu, kernels
from benchmarks.scripts import exit_status
from jaxsched.errors import JaxschedError
from jaxsched.ops import target

PROGRAM = """
HloModule jit_loop

%inner (at: (s32[], s32[4,2])) -> (s32[], s32[4,2]) {
  %at = (s32[], s32[4,2]{1,0}) parameter(0)
  %number = s32[] get-tuple-element(%at), index=0
  %kept = s32[4,2]{1,0} get-tuple-element(%at), index=1
  %again = s32[4,2]{1,0} copy(%kept)
  ROOT %both = (s32[], s32[4,2]{1,0}) tuple(%number, %again)
}

%helper (x: pred[4]) -> f32[4] {
  %x = pred[4]{0} parameter(0)
  ROOT %sum = f32[4]{0} fusion(%x), kind=kLoop, calls=%fused, metadata={op_name="a(%kept), b"}
}

%body (state: (s32[], s32[4,2], pred[4])) -> (s32[], s32[4,2], pred[4]) {
  %state = (s32[], s32[4,2]{1,0}, pred[4]{0}) parameter(0)
  %start = (s32[], s32[4,2]{1,0}) get-tuple-element(%state), index=0
  %done = pred[4]{0} get-tuple-element(%state), index=2
  %loop = (s32[], s32[4,2]{1,0}) while(%start), condition=%less, body=%inner
  %called = f32[4]{0} call(%done), to_apply=%helper
  ROOT %next = (s32[], s32[4,2]{1,0}, pred[4]{0}) tuple(%loop, %start, %done)
}

ENTRY %main (start: (s32[], s32[4,2], pred[4])) -> (s32[], s32[4,2], pred[4]) {
  %begin = (s32[], s32[4,2]{1,0}, pred[4]{0}) parameter(0)
  ROOT %all = (s32[], s32[4,2]{1,0}, pred[4]{0}) while(%begin), condition=%more, body=%body
}
"""


def test_what_a_round_of_the_outer_loop_starts():
    step = kernels.step_of(PROGRAM)
    copied, called = step.kernels
    assert step.rounds is None and [loop.rounds for loop in step.loops] == [None]
    assert (copied.op, copied.name, copied.depth, copied.moved) == ("copy", "again", 1, 2 * 32)
    assert (called.op, called.name, called.depth, called.moved) == ("fusion", "sum", 0, 4 + 16)
    row = kernels.row_of("mlfs", [copied, called])
    assert (row["kernels"], row["kernels_in_loops"], row["copies"]) == (1, 1, 1)


def test_bytes_of_arrays_and_tuples():
    for shape, size in (("s32[4,2]{1,0}", 32), ("(s8[3], pred[], u64[2])", 20), ("token[]", 0)):
        assert kernels.bytes_of(shape) == size


def test_what_cannot_be_counted_is_refused(monkeypatch, capsys):
    with pytest.raises(JaxschedError, match="has no loop"):
        kernels.step_of("ENTRY %main () -> s32[] {\n  ROOT %x = s32[] constant(1)\n}\n")
    monkeypatch.setattr("sys.argv", ["kernels", "--systems", "nope"])
    assert exit_status(kernels.main) == 2
    assert "accepted: sched2, dl2" in capsys.readouterr().err


LOOP = """
ENTRY %main (start: s32[8]) -> s32[8] {
  %start = s32[8]{0} parameter(0)
  ROOT %all = s32[8]{0} while(%start), condition=%more, body=%body, TIMES_4
}

%body (state: s32[8]) -> s32[8] {
  %state = s32[8]{0} parameter(0)
  %thrice = s32[8]{0} while(%state), condition=%less, body=%inner, TIMES_3
  ROOT %next = s32[8]{0} fusion(%thrice), kind=kLoop, calls=%fused
}

%inner (state: s32[8]) -> s32[8] {
  %held = s32[8]{0} parameter(0)
  ROOT %again = s32[8]{0} fusion(%held), kind=kLoop, calls=%fused
}
"""
for rounds in "34":
    known = f'backend_config={{"known_trip_count":{{"n":"{rounds}"}}}}'
    LOOP = LOOP.replace(f"TIMES_{rounds}", known)


def test_rounds_that_the_program_knows_count():
    step = kernels.step_of(LOOP)
    assert step.rounds == 4 and [loop.rounds for loop in step.loops] == [3]
    assert {kernel.name: kernel.rounds for kernel in step.kernels} == {"again": 3, "next": 1}
    assert len(kernels.whole(LOOP).loops) == 2


def test_growth_by_more_than_a_tenth_is_named():
    row = {"system": "chic", "program": "environment", "copies": 0, "open_loops": 0}
    row |= {"kernels": 20, "compile_s": 10}
    assert kernels.growth([row], [{**row, "kernels": 22, "compile_s": 15.9}]) == []
    assert kernels.growth([], [row]) == []
    assert kernels.growth([row], [{**row, "kernels": 23}]) == [
        "chic, environment: kernels 23, was 20"
    ]
    assert len(kernels.growth([row], [{**row, "open_loops": 1, "compile_s": 17}])) == 2


@pytest.mark.parametrize("system", kernels.BATCHES)
def test_programs_can_be_written_for_a_tpu(system):
    """They are lowered; no TPU has run one."""
    with target.tracing_for("tpu"):
        for policy in (False, True):
            jitted, begin, _ = kernels.loop_of(system, 8, 2, {}, policy)
            traced = jitted.trace(*jax.eval_shape(lambda begin=begin: (jax.random.key(0), begin())))
            assert "func.func public @main" in traced.lower(lowering_platforms=("tpu",)).as_text()
        update = kernels.update_of(system)
        if update is not None:
            chunk, given, named, _ = update
            lowered = chunk.trace(*given, **named).lower(lowering_platforms=("tpu",))
            assert "func.func public @main" in lowered.as_text()


def test_measured_rows_stand_beside_the_program_that_ran():
    row = {"figure": "environment"}
    assert kernels.measured_program("chic", row) == kernels.BY_VMAP  # written before lanes
    assert kernels.measured_program("chic", {**row, "lowering": "lanes"}) == kernels.ENVIRONMENT
    assert kernels.measured_program("chic", {**row, "lowering": "kernel"}) == kernels.AS_KERNEL
    policy = {"figure": "policy"}
    assert kernels.measured_program("chic", policy) == kernels.POLICY
    assert kernels.measured_program("chic", {**policy, "lowering": "lanes"}) is None
    assert kernels.measured_program("das", row) == kernels.ENVIRONMENT


@pytest.mark.skipif(not absent_gpu.is_possible(), reason="JAX' plugin for CUDA is not installed")
def test_a_program_for_an_h100():
    row, step = kernels.for_h100("chic", kernels.ENVIRONMENT)
    assert row["open_loops"] == row["copies"] == 0 and 0 < row["kernels"] < 7
    assert row["lowering"] == "lanes"
    assert step.rounds and row["peak_megabytes"] > 0
