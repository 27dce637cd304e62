"""Run an exported policy.onnx with onnxruntime and check it, both format versions.

python read_onnx.py FOLDER [EPISODE.npz]     the file: inputs seen and actions taken, [T, ...]
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

NEXT = "next_"  # before the name of a memory: what to hand in at the next decision

folder = Path(sys.argv[1])
manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
form = manifest["files"]["policy.onnx"]
model = onnxruntime.InferenceSession(
    str(folder / "policy.onnx"), providers=["CPUExecutionProvider"]
)
names = [output.name for output in model.get_outputs()]


def decide(given: dict, kept: dict) -> tuple[dict, dict]:
    """One batch of one decision; inputs that are not given are as at the last one, or zero."""
    for name, spec in form["inputs"].items():
        kept.setdefault(name, np.zeros((1, *spec["shape"][1:]), spec["dtype"]))
        if name in given:
            kept[name] = np.array(given[name], spec["dtype"])[None]
    found = {name: x[0] for name, x in zip(names, model.run(names, kept), strict=True)}
    memory = {n.removeprefix(NEXT): x[None] for n, x in found.items() if n.startswith(NEXT)}
    return found, kept | memory


def compare(decisions: list) -> tuple[float, int]:
    """Largest relative difference, and choices that are worse, over decisions in a row."""
    largest, worse, kept = 0.0, 0, {}
    for given, wanted in decisions:
        found, kept = decide(given, kept)
        for name, x in wanted.items():
            x = np.array(x, form["outputs"][name]["dtype"])
            if x.dtype.kind != "f":
                worse += int((found[name] != x).any())
                continue
            scale = max(1.0, float(np.abs(x).max()))
            largest = max(largest, float(np.abs(found[name] - x).max()) / scale)
            if name != "scores":  # numbers are the action: what is best here is best there
                chosen = np.take_along_axis(x, found[name].argmax(-1)[..., None], -1)[..., 0]
                worse += int((chosen < x.max(-1) - form["tolerance"] * scale).sum())
    return largest, worse


golden = manifest["golden"]
if "sequences" in golden:
    rows = [[(d["inputs"], d["outputs"]) for d in s] for s in golden["sequences"]]
else:
    rows = [[(row, {n: row[n] for n in names}) for row in golden["rows"]]]
for file in sys.argv[2:]:
    episode = dict(np.load(file))
    turns = range(len(next(iter(episode.values()))))
    parts = [{name: x[t] for name, x in episode.items()} for t in turns]
    rows.append([(part, {n: x for n, x in part.items() if n in names}) for part in parts])
results = [compare(sequence) for sequence in rows]
largest, worse = max(r[0] for r in results), sum(r[1] for r in results)
agree = "all agree" if not worse else f"{worse} DIFFER"
print(f"{sum(map(len, rows))} decisions, largest difference: {largest:.3g}; choices: {agree}")
sys.exit(worse > 0 or not largest <= form["tolerance"])
