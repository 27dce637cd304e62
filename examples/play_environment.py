"""Play an exported environment with JAX alone, by an exported policy or at random.

python play_environment.py ENVIRONMENT [POLICY]     folders of `jaxsched export`

First the golden steps are played again. The policy is a folder with policy.stablehlo.
"""

import json
import sys
from pathlib import Path

import jax
import numpy as np

DTYPES = {"F32": "<f4", "I32": "<i4", "U32": "<u4", "I16": "<i2", "U16": "<u2", "I8": "i1",
          "U8": "u1", "BOOL": "?"}  # fmt: skip


def read_tensors(path: Path) -> dict:
    """Arrays of a safetensors file: 8 bytes length, that much JSON, then the raw numbers."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        first, last = (start + offset for offset in entry["data_offsets"])
        numbers = np.frombuffer(data[first:last], DTYPES[entry["dtype"]])
        tensors[name] = numbers.reshape(entry["shape"])
    return tensors


def read_function(path: Path):
    """A function of dictionaries of arrays."""
    return jax.jit(jax.export.deserialize(bytearray(path.read_bytes())).call)


def some(arrays: dict, *kinds: str) -> dict:
    """The arrays whose names begin with one of these words."""
    return {name: x for name, x in arrays.items() if name.partition(".")[0] in kinds}


def check(found: dict, wanted: dict, tolerance: float) -> None:
    """Stop where something differs."""
    for name, x in wanted.items():
        there = np.asarray(found[name], np.float64)
        scale = max(1.0, float(np.abs(x.astype(np.float64)).max(initial=0.0)))
        assert np.allclose(there, x, rtol=0, atol=tolerance * scale), name


def golden(folder: Path, manifest: dict) -> None:
    """Play the golden steps again."""
    rows, tolerance = read_tensors(folder / "golden.safetensors"), manifest["golden"]["tolerance"]
    first = {k.removeprefix("first."): x for k, x in rows.items() if k.startswith("first.")}
    rows = {k: x for k, x in rows.items() if not k.startswith("first.")}
    found = reset(params, {name: first.pop(name) for name in ("key", "episode")})
    check(found, first, tolerance)
    for t in range(len(rows["key"])):
        row = {name: x[t] for name, x in rows.items()}
        given = some(row, "key", "action")
        found = step(params, {**given, **some(found, "state")})
        check(found, {name: x for name, x in row.items() if name not in given}, tolerance)


class Policy:
    """What an exported policy does, or random legal play without one."""

    def __init__(self, folder: Path | None, actions: dict) -> None:
        self.random, self.actions, self.kept = np.random.default_rng(0), actions, {}
        self.decide = folder and read_function(folder / "policy.stablehlo")
        if folder:
            manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            self.specs = manifest["files"]["policy.stablehlo"]["inputs"]

    def act(self, seen: dict) -> dict:
        """Actions of the batch."""
        batch = len(seen["reward"])
        if self.decide is None and self.actions["kind"] == "one of several":
            legal = [row.nonzero()[0] for row in np.asarray(seen["mask"])]
            return {"action": np.array([self.random.choice(row) for row in legal], np.int32)}
        if self.decide is None:
            shapes = {n: (batch, *s["shape"][1:]) for n, s in some(takes, "action").items()}
            draw = self.random.uniform
            return {name: draw(-1, 1, shape).astype("f4") for name, shape in shapes.items()}
        inputs = {}
        for name, spec in self.specs.items():  # memory as it was left, noise 0
            nothing = self.kept.get(name, np.zeros((batch, *spec["shape"][1:]), spec["dtype"]))
            inputs[name] = seen.get(name, seen.get(f"observation.{name}", nothing))
        found = self.decide(inputs)
        self.kept = {n.removeprefix("next_"): x for n, x in found.items() if n.startswith("next_")}
        if "action" in found or "scores" in found:
            return {"action": found.get("action", found.get("scores"))}
        return {f"action.{n}": x for n, x in found.items() if not n.startswith("next_")}


folder = Path(sys.argv[1])
manifest = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
params = read_tensors(folder / "params.safetensors")
reset, step = (read_function(folder / f"{name}.stablehlo") for name in ("reset", "step"))
takes = manifest["functions"]["step"]["inputs"]
golden(folder, manifest)
print(f"golden steps: all agree ({manifest['system']})")
policy = Policy(Path(sys.argv[2]) if len(sys.argv) > 2 else None, manifest["actions"])
batch = manifest["golden"]["copies"]  # any number would do
episodes = (np.arange(batch) % manifest["num_episodes"]).astype(np.int32)
now = reset(params, {"key": np.zeros((batch, 2), np.uint32), "episode": episodes})
steps, reward, over = np.zeros(batch, int), np.zeros(batch), np.zeros(batch, bool)
for t in range(manifest["max_steps"]):
    over |= np.asarray(now["terminated"]) | np.asarray(now["truncated"])
    if over.all():
        break
    key = np.stack([np.arange(batch), np.full(batch, t + 1)], axis=-1).astype(np.uint32)
    now = step(params, {"key": key, **policy.act(now), **some(now, "state")})
    steps, reward = steps + ~over, reward + np.asarray(now["reward"], float)
for episode in range(batch):
    print(f"episode {episodes[episode]}: {steps[episode]} steps, reward {reward[episode]:.6g}")
sys.exit(not np.asarray(now["terminated"] | now["truncated"]).all())
