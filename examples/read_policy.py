"""Read an exported policy (format version 1) with NumPy alone and check it.

python read_policy.py FOLDER [EPISODE.npz]     the file: observation, mask and action, [T, ...]
"""

import json
import sys
from pathlib import Path

import numpy as np


def read_weights(path: Path) -> dict:
    """Arrays of a safetensors file: 8 bytes length, that much JSON, then the raw numbers."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    weights = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32", f"{name}: {entry['dtype']}"
        first, last = (start + offset for offset in entry["data_offsets"])
        weights[name] = np.frombuffer(data[first:last], "<f4").reshape(entry["shape"])
    return weights


def scores_of(steps: list, weights: dict, observation: list) -> np.ndarray:
    """Follow the network description; manifest["network"]["operations"] defines each op."""
    values = {"observation": np.array(observation, np.float32)}
    for step in steps:
        x = values.get(step.get("input"))
        match step["op"]:
            case "log1p":
                y = np.log1p(np.float32(step["multiply"]) * x) / np.float32(step["divide"])
            case "slice":
                y = x[..., step["start"] : step["stop"]]
            case "reshape":
                y = x.reshape(step["shape"])
            case "concat":
                y = np.concatenate([values[name] for name in step["inputs"]], axis=-1)
            case "repeat":
                y = np.broadcast_to(x, (step["count"], *x.shape))
            case "mean":
                y = x.mean(axis=0)
            case "add":
                y = values[step["inputs"][0]] + values[step["inputs"][1]]
            case "affine":
                y = x * weights[step["scale"]] + weights[step["offset"]]
            case "dense":
                y = x @ weights[step["kernel"]] + weights[step["bias"]]
                y = np.maximum(y, 0) if step["activation"] == "relu" else y
        values[step["output"]] = y
    return values["scores"]


folder = Path(sys.argv[1])
manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
weights = read_weights(folder / manifest["weights"]["file"])
rows = manifest["golden"]["rows"]
for file in sys.argv[2:]:  # decisions of a recorded episode
    episode = np.load(file)
    names = ("observation", "mask", "action")
    turns = zip(*(episode[name] for name in names), strict=True)
    rows = [*rows, *(dict(zip(names, turn, strict=True)) for turn in turns)]
largest, disagreements = 0.0, 0
for row in rows:
    scores = scores_of(manifest["network"]["steps"], weights, row["observation"])
    if "scores" in row:
        largest = max(largest, float(np.abs(scores - np.array(row["scores"])).max()))
    action = int(np.argmax(np.where(row["mask"], scores, -np.inf)))
    disagreements += action != row["action"]
agree = "all agree" if not disagreements else f"{disagreements} DIFFER"
print(f"largest difference of a score: {largest:.3g}; greedy actions: {agree}")
sys.exit(disagreements > 0 or not largest <= manifest["golden"]["tolerance"])
