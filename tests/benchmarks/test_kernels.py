"""Kernels are counted where they are, and bytes are those of their arrays."""

import pytest

from benchmarks import kernels
from benchmarks.scripts import exit_status
from jaxsched.errors import JaxschedError

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
