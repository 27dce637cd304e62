r"""Kernels of one step and the bytes that they read and write, from the compiled program.

    python -m benchmarks.kernels [--systems sched2,mlfs] [--top 10] [--json FILE]
    python -m benchmarks.kernels --target h100 [--programs environment,policy,training]
    python -m benchmarks.kernels --target h100 --check benchmarks/results/kernels_h100.json
    python -m benchmarks.kernels --table benchmarks/results/kernels_h100.json

Compiles the loop that ``jaxsched bench throughput`` times, uniform legal actions, and lists what a
step starts: fusions, copies and the like, those in inner loops counted once. Bytes are those of
whole operands and results, per environment: a kernel that looks up single rows of an operand moves
less; one that writes a slice in place counts as its other operands, twice. Whole copies inside an
inner loop are worth a look: each round makes them.

``--target h100`` compiles for an H100 that need not be there (``benchmarks/absent_gpu.py``), also
the same loop with the paper's network (``policy``) and an update of the recipe ``gpu-ppo``
(``training``); loops written over lanes also by ``vmap`` (``environment-vmap``), and Chic's
with all steps as one kernel (``environment-kernel``). A loop whose bound only the device knows
(``open_loops``) asks the host in each round. ``estimate_us`` is what the kernels would take at 2 us
each, their bytes at the full speed of the memory, every open loop taking one round: no measurement.
``compile_s`` is processor time. With ``--check`` it is an error if kernels, open loops or this time
have grown by more than a tenth over a file's. ``--table`` prints a file in Markdown, beside what
was measured at the same sizes.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import absent_gpu
from benchmarks.scripts import chosen, exit_status, read_json, table
from jaxsched.errors import JaxschedError
from jaxsched.ops import target
from jaxsched.systems import functions, presets

BATCHES = {
    "sched2": 4096,
    "dl2": 2048,
    "chic": 16_384,
    "das": 1024,
    "mlfs": 256,
    "cluster": 4096,
}
"""Environments side by side with which each is fastest on two cores, or about; for ``cluster`` that
was not measured."""
OPTIONS: dict[str, dict[str, Any]] = {"das": {"events_per_step": 2}, "mlfs": {"slot_every": 32}}
STEPS = 4
H100_BATCHES = {
    "sched2": 65_536,
    "dl2": 65_536,
    "chic": 65_536,
    "das": 8192,
    "mlfs": 8192,
    "cluster": 65_536,
}
H100_OPTIONS = {**OPTIONS, "das": {"events_per_step": 1}}
H100_STEPS = 8
LAUNCH_S = 2e-6
"""Of a kernel, about."""
ENVIRONMENT, POLICY, TRAINING = "environment", "policy", "training"
BY_VMAP, AS_KERNEL = "environment-vmap", "environment-kernel"
PROGRAMS = (ENVIRONMENT, BY_VMAP, AS_KERNEL, POLICY, TRAINING)
LOWERED = {BY_VMAP: target.VMAP, AS_KERNEL: target.KERNEL}
"""Programs whose lowering is not the device's own choice."""
ONLY = {BY_VMAP: ("sched2", "dl2", "chic"), AS_KERNEL: ("chic",)}
"""Systems that are written over lanes, and those of them with few enough operations."""
NAMES = {
    ENVIRONMENT: "alone",
    BY_VMAP: "alone, by `vmap`",
    AS_KERNEL: "alone, one kernel for all steps",
    POLICY: "with the paper's network",
}
PRESET = "gpu-ppo"
TENTH = 1.1

NOT_RUN = {
    *("parameter", "tuple", "get-tuple-element", "constant", "bitcast"),
    *("after-all", "partition-id"),
}
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
      rounds: of the inner loops around it together; those of an unknown bound count once.
      open: whether a loop around it has an unknown bound.
    """

    op: str
    name: str
    shape: str
    depth: int
    moved: int
    rounds: int = 1
    open: bool = False


class InnerLoop(NamedTuple):
    """A loop within a step.

    Attributes:
      name: in the program.
      depth: loops around it.
      rounds: None where only the device knows.
    """

    name: str
    depth: int
    rounds: int | None


class Step(NamedTuple):
    """What a round of a program's outer loop starts.

    Attributes:
      kernels: in order.
      loops: the inner ones.
      rounds: of the outer loop; None where it is not known.
    """

    kernels: list[Kernel]
    loops: list[InnerLoop]
    rounds: int | None


def main() -> None:
    """Print a line for each program and its largest kernels; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", default=",".join(BATCHES))
    parser.add_argument("--target", choices=("cpu", "h100"), default="cpu")
    parser.add_argument("--programs", help="for the H100; all of them if absent")
    parser.add_argument("--top", type=int, default=0, help="largest kernels to list; none")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", type=Path, metavar="FILE", help="that nothing must exceed")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print it in Markdown")
    options = parser.parse_args()
    if options.table is not None:
        print(markdown(read_json(options.table)["rows"], measured(options.table.parent)))
        return
    systems = chosen(options.systems, BATCHES, "--systems")
    rows = []
    for system in systems:
        if options.target == "cpu":
            step = step_of(compiled(system))
            rows.append(row_of(system, step.kernels))
            show(rows[-1], step, options.top, BATCHES[system])
            continue
        for program in chosen(options.programs or ",".join(PROGRAMS), PROGRAMS, "--programs"):
            found = for_h100(system, program)
            if found is not None:
                row, step = found
                rows.append(row)
                show(row, step, options.top, row["batch"])
    if options.json is not None:
        document = {"kind": "kernels", **facts(options.target), "rows": rows}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    if options.check is not None:
        grown = growth(read_json(options.check)["rows"], rows)
        if grown:
            raise JaxschedError("; ".join(grown))
        print(f"nothing has grown by more than a tenth over {options.check}")


def show(row: dict[str, Any], step: Step, top: int, batch: int) -> None:
    """Print a row and the kernels that move most."""
    print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    for kernel in sorted(step.kernels, key=lambda each: -each.moved)[:top]:
        where = "  " * kernel.depth
        print(f"  {kernel.moved / batch:10,.0f} B {where}{kernel.op} {kernel.name} {kernel.shape}")


def facts(target: str) -> dict[str, Any]:
    """Of a file."""
    from jaxsched import provenance

    found = provenance.facts()
    return {
        "target": "this machine's CPU" if target == "cpu" else f"{absent_gpu.NAME}, not there",
        **{name: found[name] for name in ("date", "code", "versions")},
    }


def markdown(rows: Sequence[dict[str, Any]], known: dict[tuple[str, str, int], str]) -> str:
    """A table of rows for the H100, with what was measured there (``measured``)."""
    head = [
        "program",
        "environments",
        "kernels + copies",
        "open loops, kernels in them",
        "MB",
        "estimate, M steps/s",
    ]
    head += ["measured, M steps/s", "compiling, processor s", "peak, GB"]
    lines = []
    for row in rows:
        word = f"`{row['preset']}`, an update" if row["preset"] else NAMES[row["program"]]
        lines.append(
            [
                f"{row['system']}, {word}",
                f"{row['batch']:,}",
                f"{row['kernels']:,.0f} + {row['copies']:,.0f}",
                f"{row['open_loops']:g}, {row['in_open_loops']:,.0f}" if row["open_loops"] else "0",
                f"{row['megabytes']:,.0f}",
                f"{row['million_steps_per_s']:,.0f}",
                known.get((row["system"], row["program"], row["batch"]), "-"),
                f"{row['compile_s']:.0f}",
                f"{row['peak_megabytes'] / 1000:.2f}",
            ]
        )
    return table(head, lines)


def measured(folder: Path) -> dict[tuple[str, str, int], str]:
    """Million steps/s and the date of what was measured, by system, figure and environments."""
    found = {}
    for path in sorted(folder.glob("*_throughput*_h100.json*")):
        result = read_json(path)
        for row in result["rows"]:
            program = measured_program(result["system"], row)
            if "steps_per_s" in row and program is not None:
                rate = f"{row['steps_per_s']['median'] / 1e6:.0f} ({result['date']})"
                found[result["system"], program, row["batch"]] = rate
    for path in sorted(folder.glob("*_gpu_training_h100.json*")):
        result = read_json(path)
        rate = f"{result['env_steps_per_s']['median'] / 1e6:.0f} ({result['date']})"
        found[result["system"], TRAINING, result["num_envs"]] = rate
    return found


def measured_program(system: str, row: dict[str, Any]) -> str | None:
    """Which program a row of ``bench throughput`` is of; None: one that is not compiled here."""
    figure, lowering = row["figure"], row.get("lowering", target.VMAP)  # once there was no other
    if figure == ENVIRONMENT and system in ONLY[BY_VMAP]:
        names = {target.LANES: ENVIRONMENT, **{way: name for name, way in LOWERED.items()}}
        return names[lowering]
    return str(figure) if lowering == target.VMAP else None


def growth(before: Sequence[dict[str, Any]], now: Sequence[dict[str, Any]]) -> list[str]:
    """What has grown by more than a tenth, a sentence each; rows without a former one are left out.

    Of seconds it takes five more as well: machines differ.
    """
    known = {(row["system"], row.get("program")): row for row in before}
    found = []
    for row in now:
        former = known.get((row["system"], row.get("program")))
        if former is None:
            continue
        for name in ("kernels", "copies", "open_loops", "compile_s"):
            old, new = former[name], row[name]
            if new > TENTH * old + (5 if name == "compile_s" else 0):
                found.append(f"{row['system']}, {row['program']}: {name} {new}, was {old}")
    return found


class Timed(NamedTuple):
    """A timed loop, the function that makes what it carries at first, and how steps are written."""

    jitted: Any
    begin: Callable[[], Any]
    lowering: str


def loop_of(system: str, batch: int, steps: int, options: dict[str, Any], policy: bool) -> Timed:
    """The timed loop of a system."""
    import jax

    from jaxsched import traces
    from jaxsched.bench.loops import (
        at_random,
        by_policy,
        environment_loop,
        lowering_of,
        start_many,
    )
    from jaxsched.systems import registry

    chosen = registry.get(system)
    env = functions.environment(chosen, **options)
    params = env.params(chosen.jobs.adapted(traces.get(functions.traces(chosen).train)))
    chooser = at_random(env.action_spec(params))
    if policy:
        weights = functions.init_weights(chosen, env, "paper", params)
        acting = functions.network_policy(chosen, env, "paper", "policy", "greedy")
        chooser = by_policy(acting, weights, params)
    lowering = lowering_of(env, params, chooser)
    loop = environment_loop(env, params, chooser, batch=batch, num_steps=steps, lowering=lowering)
    begin = partial(start_many, env, params, batch)
    return Timed(jax.jit(loop, donate_argnums=1), begin, lowering)


def compiled(system: str) -> str:
    """The optimised program of a system's timed loop on this machine's CPU, as text."""
    from jaxsched.runtime import prepare_cpu

    prepare_cpu()
    import jax

    jitted, begin, _ = loop_of(system, BATCHES[system], STEPS, OPTIONS.get(system, {}), False)
    program = jitted.lower(jax.random.key(0), jax.eval_shape(begin)).compile().as_text()
    assert program is not None  # as every compiler here tells
    return str(program)


def for_h100(system: str, program: str) -> tuple[dict[str, Any], Step] | None:
    """The row of a program compiled for an H100, and its step; None: there is no such program."""
    import jax

    if system not in ONLY.get(program, (system,)):
        return None
    with target.tracing_for("gpu"), target.lowered_by(LOWERED.get(program)):
        if program == TRAINING:
            begun = update_of(system)
            if begun is None:
                return None
            jitted, given, named, _ = begun
            loop = given[2]
            batch, steps = loop.num_envs, 1
            taken, lowering = batch * loop.rollout_length, target.VMAP
        else:
            batch, steps = H100_BATCHES[system], H100_STEPS
            options = H100_OPTIONS.get(system, {})
            jitted, begin, lowering = loop_of(system, batch, steps, options, program == POLICY)
            given, named = jax.eval_shape(lambda: (jax.random.key(0), begin())), {}
            taken = batch
        began = _processor_s()
        built = absent_gpu.compiled(jitted, *given, **named)
        compile_s = _processor_s() - began
    text = built.as_text()
    step = whole(text) if program in (AS_KERNEL, TRAINING) else step_of(text)
    per = 1 if program == TRAINING else steps / (step.rounds or 1)
    always = [kernel for kernel in step.kernels if not kernel.open]
    kernels = sum(kernel.rounds for kernel in always if kernel.op != "copy") / per
    copies = sum(kernel.rounds for kernel in always if kernel.op == "copy") / per
    asked = sum(kernel.rounds for kernel in step.kernels if kernel.open) / per
    moved = sum(kernel.rounds * kernel.moved for kernel in step.kernels) / per
    estimate_s = LAUNCH_S * (kernels + copies + asked) + moved / absent_gpu.BANDWIDTH
    memory = built.memory_analysis()
    peak = memory.temp_size_in_bytes + memory.argument_size_in_bytes
    peak += memory.output_size_in_bytes - memory.alias_size_in_bytes
    row = {
        "system": system,
        "program": program,
        "preset": PRESET if program == TRAINING else None,
        "figure": ENVIRONMENT if program in LOWERED else program,
        "lowering": lowering,
        "batch": batch,
        "steps": taken,
        "kernels": round(kernels, 1),
        "copies": round(copies, 1),
        "in_open_loops": round(asked, 1),
        "open_loops": sum(loop.rounds is None for loop in step.loops) / per,
        "fixed_loops": [loop.rounds for loop in step.loops if loop.rounds is not None],
        "megabytes": round(moved / 1e6, 1),
        "estimate_us": round(estimate_s * 1e6, 1),
        "million_steps_per_s": round(taken / estimate_s / 1e6, 1),
        "compile_s": round(compile_s, 1),
        "peak_megabytes": round(peak / 1e6, 1),
    }
    return row, step


def _processor_s() -> float:
    """Seconds of all cores so far, the assembler's processes included."""
    return sum(os.times()[:4])


def update_of(system: str) -> tuple[Any, tuple, dict[str, Any], Any] | None:
    """An update of the recipe for a GPU: program, abstract arguments, named ones and parameters.

    None: the system has no such recipe.
    """
    import jax

    from jaxsched.bench.training import setup_of
    from jaxsched.core import training
    from jaxsched.systems import registry

    if PRESET not in presets.all_recipes(registry.get(system)):
        return None
    setup = setup_of(system, PRESET, ())
    params = setup.params_at(0.0)
    carry = training.abstract(setup.env, setup.learner, setup.loop, jax.random.key(0), params)
    described = jax.eval_shape(lambda: params)
    given = (setup.env, setup.learner, setup.loop, carry, described)
    return training.chunk, given, {"num_updates": 1}, params


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


def step_of(program: str) -> Step:
    """What one round of the outer loop of an optimised program starts.

    Raises:
      JaxschedError: the program has no loop.
    """
    parts = _computations(program)
    bodies = {
        line["body"]: line["rounds"]
        for lines in parts.values()
        for line in map(_loop, lines)
        if line is not None
    }
    if not bodies:
        raise JaxschedError("kernels: the program has no loop")
    steps = [_started(parts, body)._replace(rounds=rounds) for body, rounds in bodies.items()]
    return max(steps, key=lambda step: len(step.kernels))


def whole(program: str) -> Step:
    """What a program starts from its entry on."""
    parts = _computations(program)
    found = re.search(r"^ENTRY %?([\w.\-]+)", program, re.MULTILINE)
    assert found is not None
    return _started(parts, found[1])


def _started(parts: dict[str, list[dict[str, str]]], first: str) -> Step:
    shapes = {line["name"]: line["shape"] for lines in parts.values() for line in lines}
    loops: list[InnerLoop] = []

    def walk(name: str, depth: int, times: int, unknown: bool) -> Iterator[Kernel]:
        for line in parts[name]:
            op, rest = line["op"], line["rest"]
            inner = re.search(r"(?:body|to_apply|calls)=%?([\w.\-]+)", rest)
            if op == "while" and (loop := _loop(line)):
                loops.append(InnerLoop(line["name"], depth, loop["rounds"]))
                rounds = loop["rounds"]
                within = unknown or rounds is None
                yield from walk(loop["body"], depth + 1, times * (rounds or 1), within)
            elif op in ("call", "async-start") and inner:
                yield from walk(inner[1], depth, times, unknown)
            elif op not in NOT_RUN and not op.endswith("-done"):
                read = re.findall(r"%([\w.\-]+)", rest.split("), ")[0])
                arrays = [line["shape"], *(shapes.get(operand, "") for operand in read)]
                if "dynamic-update-slice" in line["name"].replace("_", "-"):
                    # In place: what is written is as large as the other operands.
                    arrays = 2 * [shape for shape in arrays if shape != line["shape"]]
                moved = sum(map(bytes_of, arrays))
                yield Kernel(op, line["name"], line["shape"], depth, moved, times, unknown)

    kernels = list(walk(first, 0, 1, False))
    return Step(kernels, loops, None)


def _loop(line: dict[str, str]) -> dict[str, Any] | None:
    """Body and rounds (None: not known) of a line that is a loop."""
    body = re.search(r"body=%?([\w.\-]+)", line["rest"]) if line["op"] == "while" else None
    if body is None:
        return None
    rounds = re.search(r'known_trip_count":\{"n":"(\d+)"', line["rest"])
    return {"body": body[1], "rounds": int(rounds[1]) if rounds else None}


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
