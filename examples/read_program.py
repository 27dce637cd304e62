"""Read an exported program (format version 2) with NumPy alone and check it.

python read_program.py FOLDER [EPISODE.npz]     the file: inputs seen and actions taken, [T, ...]
"""

import json
import sys
from pathlib import Path

import numpy as np

DTYPES = {"F32": "<f4", "I32": "<i4", "BOOL": "?"}
OPS = {  # manifest["program"]["operations"] says what each of them means
    "negative": np.negative, "exp": np.exp, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "abs": np.abs, "sign": np.sign,
    "floor": np.floor, "round": np.round, "not": np.logical_not, "add": np.add,
    "subtract": np.subtract, "multiply": np.multiply, "remainder": np.fmod, "power": np.power,
    "divide": lambda x, y: x / y if x.dtype.kind == "f" else np.trunc(x / y).astype(x.dtype),
    "maximum": np.maximum, "minimum": np.minimum, "less": np.less, "less_equal": np.less_equal,
    "equal": np.equal, "and": np.logical_and, "or": np.logical_or, "where": np.where,
    "cast": lambda x, dtype: x.astype(dtype),
    "reshape": lambda x, shape: x.reshape(shape),
    "transpose": lambda x, order: x.transpose(order),
    "broadcast": lambda x, shape: np.broadcast_to(x, shape),
    "slice": lambda x, starts, stops, strides: x[tuple(map(slice, starts, stops, strides))],
    "concat": lambda *parts, axis: np.concatenate(parts, axis),
    "sum": lambda x, axes: x.sum(tuple(axes), dtype=x.dtype),
    "largest": lambda x, axes: x.max(tuple(axes)),
    "smallest": lambda x, axes: x.min(tuple(axes)),
    "first_largest": lambda x, axis: x.argmax(axis).astype("i4"),
    "cumulative_sum": lambda x, axis: x.cumsum(axis, dtype=x.dtype),
    "take": lambda x, index: x[index],
    "take_along": lambda x, index, axis: np.take_along_axis(x, index, axis),
    "einsum": lambda *parts, equation: np.einsum(equation, *parts, optimize=True),
}  # fmt: skip


def read_tensors(path: Path) -> dict:
    """Arrays of a safetensors file: 8 bytes length, that much JSON, then the raw numbers."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        first, last = (start + offset for offset in entry["data_offsets"])
        numbers = np.frombuffer(data[first:last], DTYPES[entry["dtype"]])
        tensors[name] = numbers.reshape(entry["shape"])
    return tensors


def decide(manifest: dict, tensors: dict, inputs: dict) -> dict:
    """Follow the program from the inputs to the outputs by name."""
    values = {**tensors, **inputs}
    for step in manifest["program"]["steps"]:
        settings = {k: v for k, v in step.items() if k not in ("op", "inputs", "output")}
        given = [values[name] for name in step["inputs"]]
        values[step["output"]] = np.asarray(OPS[step["op"]](*given, **settings))
    return {output["name"]: values[output["value"]] for output in manifest["outputs"]}


def compare(manifest: dict, tensors: dict, decisions: list) -> tuple[float, int]:
    """Largest relative difference, and choices that are worse, over decisions in a row."""
    tolerance, largest, worse = manifest["golden"]["tolerance"], 0.0, 0
    specs = {entry["name"]: entry for entry in manifest["inputs"]}
    kept = {name: np.zeros(s["shape"], s["dtype"]) for name, s in specs.items()}
    for given, wanted in decisions:
        kept |= {name: np.array(x, specs[name]["dtype"]) for name, x in given.items()}
        found = decide(manifest, tensors, kept)
        for name, x in wanted.items():
            x, scale = np.array(x, "f4"), max(1.0, float(np.abs(x).max()))
            largest = max(largest, float(np.abs(found[name] - x).max()) / scale)
            chosen = np.take_along_axis(x, found[name].argmax(-1)[..., None], -1)[..., 0]
            worse += int((chosen < x.max(-1) - tolerance * scale).sum())  # ties are no matter
        kept |= {n.removeprefix("next_"): x for n, x in found.items() if n.startswith("next_")}
    return largest, worse


folder = Path(sys.argv[1])
manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
tensors = read_tensors(folder / manifest["weights"]["file"])
rows = [[(d["inputs"], d["outputs"]) for d in s] for s in manifest["golden"]["sequences"]]
for file in sys.argv[2:]:  # a recorded episode is one more sequence
    episode = dict(np.load(file))
    inputs, outputs = ({e["name"] for e in manifest[side]} for side in ("inputs", "outputs"))
    turns = range(len(next(iter(episode.values()))))
    parts = [{name: x[t] for name, x in episode.items()} for t in turns]
    seen = [{n: x for n, x in part.items() if n in inputs} for part in parts]
    done = [{n: x for n, x in part.items() if n in outputs} for part in parts]
    rows.append(list(zip(seen, done, strict=True)))
with np.errstate(all="ignore"):  # branches that are not taken may divide by 0
    results = [compare(manifest, tensors, sequence) for sequence in rows]
largest, worse = max(r[0] for r in results), sum(r[1] for r in results)
agree = "all agree" if not worse else f"{worse} DIFFER"
print(f"{sum(map(len, rows))} decisions, largest difference: {largest:.3g}; choices: {agree}")
sys.exit(worse > 0 or not largest <= manifest["golden"]["tolerance"])
