r"""Kernels of one step and the bytes that they read and write, from the compiled program.

    python -m benchmarks.kernels [--systems sched2,mlfs] [--top 10] [--json FILE]

Compiles the loop that ``jaxsched bench throughput`` times, uniform legal actions, and lists what a
step starts: fusions, copies and the like, those in inner loops counted once. Bytes are those of
whole operands and results, per environment: a kernel that looks up single rows of an operand moves
less. Whole copies inside an inner loop are worth a look: each round makes them.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.scripts import exit_status
from jaxsched.errors import JaxschedError

BATCHES = {"sched2": 4096, "dl2": 2048, "chic": 16_384, "das": 1024, "mlfs": 256}
"""Environments side by side with which each is fastest on two cores, or about."""
OPTIONS: dict[str, dict[str, Any]] = {"das": {"events_per_step": 2}, "mlfs": {"slot_every": 32}}
STEPS = 4

NOT_RUN = {"parameter", "tuple", "get-tuple-element", "constant", "bitcast"}
SIZES = {"pred": 1, "bf16": 2, "f16": 2} | {
    f"{kind}{8 * n}": n for kind in "suf" for n in (1, 2, 4, 8)
}
OPERATION = re.compile(
    r"(?:ROOT )?%?(?P<name>[\w.\-]+) = (?P<shape>\(.*?\)|\S+) (?P<op>[\w\-]+)\((?P<rest>.*)"
)
ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")


class Kernel(NamedTuple):
    """Something that a step starts.

    Attributes:
      op: such as ``fusion`` or ``copy``.
      name: in the program.
      shape: of its result.
      depth: inner loops around it.
      moved: bytes of operands and result, of all environments.
    """

    op: str
    name: str
    shape: str
    depth: int
    moved: int


def main() -> None:
    """Print a line for each system and its largest kernels; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", default=",".join(BATCHES))
    parser.add_argument("--top", type=int, default=0, help="largest kernels to list; none")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for system in options.systems.split(","):
        if system not in BATCHES:
            raise JaxschedError(f"--systems: {system!r}; accepted: {', '.join(BATCHES)}")
        found = kernels_of(compiled(system))
        rows.append(row_of(system, found))
        print(", ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
        for kernel in sorted(found, key=lambda each: -each.moved)[: options.top]:
            where = "  " * kernel.depth
            each = kernel.moved / BATCHES[system]
            print(f"  {each:10,.0f} B {where}{kernel.op} {kernel.name} {kernel.shape}")
    if options.json is not None:
        options.json.write_text(json.dumps({"kind": "kernels", "rows": rows}, indent=1) + "\n")


def compiled(system: str) -> str:
    """The optimised program of a system's timed loop, as text."""
    from jaxsched.runtime import prepare_cpu

    prepare_cpu()
    import jax

    from jaxsched import traces
    from jaxsched.bench.loops import at_random, environment_loop, start_many
    from jaxsched.systems import registry

    chosen, batch = registry.get(system), BATCHES[system]
    env = chosen.environment(**OPTIONS.get(system, {}))
    params = chosen.params(env, chosen.adapt(traces.get(chosen.traces.train)))
    actions = at_random(env.action_spec(params))
    loop = environment_loop(env, params, actions, batch=batch, num_steps=STEPS)
    current = jax.eval_shape(lambda: start_many(env, params, batch))
    jitted = jax.jit(loop, donate_argnums=1)
    program = jitted.lower(jax.random.key(0), current).compile().as_text()
    assert program is not None  # as every compiler here tells
    return program


def row_of(system: str, found: list[Kernel]) -> dict[str, Any]:
    """Counts and bytes of a system's step."""
    outside = [kernel for kernel in found if not kernel.depth]
    copies = [kernel for kernel in found if kernel.op == "copy"]
    batch = BATCHES[system]
    return {
        "system": system,
        "batch": batch,
        "kernels": len(outside),
        "kernels_in_loops": len(found) - len(outside),
        "copies": len(copies),
        "bytes_per_step": round(sum(kernel.moved for kernel in outside) / batch),
        "bytes_in_loops": round(sum(k.moved for k in found if k.depth) / batch),
        "bytes_of_copies": round(sum(kernel.moved for kernel in copies) / batch),
    }


def kernels_of(program: str) -> list[Kernel]:
    """What one round of the outer loop of an optimised program starts.

    Raises:
      JaxschedError: the program has no loop.
    """
    parts = _computations(program)
    shapes = {line["name"]: line["shape"] for lines in parts.values() for line in lines}
    bodies = re.findall(r"body=%?([\w.\-]+)", program)
    if not bodies:
        raise JaxschedError("kernels: the program has no loop")

    def walk(name: str, depth: int) -> Iterator[Kernel]:
        for line in parts[name]:
            op, rest = line["op"], line["rest"]
            inner = re.search(r"(?:body|to_apply)=%?([\w.\-]+)", rest)
            if op in ("while", "call") and inner:
                yield from walk(inner[1], depth + (op == "while"))
            elif op not in NOT_RUN:
                read = re.findall(r"%([\w.\-]+)", rest.split("), ")[0])
                moved = sum(bytes_of(shapes.get(operand, "")) for operand in read)
                moved += bytes_of(line["shape"])
                yield Kernel(op, line["name"], line["shape"], depth, moved)

    return max((list(walk(body, 0)) for body in bodies), key=len)


def bytes_of(shape: str) -> int:
    """Of an array, or of all arrays of a tuple, such as ``(s32[4,2]{1,0}, pred[])``."""
    total = 0
    for kind, sizes in ARRAY.findall(shape):
        count = SIZES.get(kind, 0)
        for size in filter(None, sizes.split(",")):
            count *= int(size)
        total += count
    return total


def _computations(program: str) -> dict[str, list[dict[str, str]]]:
    """Lines of each computation of a program by its name."""
    found: dict[str, list[dict[str, str]]] = {}
    lines: list[dict[str, str]] = []
    for text in program.splitlines():
        begins = re.match(r"(?:ENTRY )?%?([\w.\-]+) .*\{$", text)
        if begins and not text.startswith(" "):
            lines = found.setdefault(begins[1], [])
        elif (line := OPERATION.match(text.strip())) and text.startswith(" "):
            lines.append(line.groupdict())
    return found


if __name__ == "__main__":
    sys.exit(exit_status(main))
