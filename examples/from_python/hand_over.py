"""From a run to a program without JAX."""

import json
import pathlib

import jax
import numpy as np

import jaxsched

policy = jaxsched.load("sched2/pretrained")
folder = jaxsched.export(policy, "handed", formats=("safetensors", "onnx"))
manifest = json.loads((pathlib.Path(folder) / "manifest.json").read_text())
assert manifest["system"] == "sched2"

back = jaxsched.load(folder)
env, params = jaxsched.make("sched2", num_traces=1, num_jobs=20)
_, timestep = env.reset(jax.random.key(0), params)
observation, mask = np.asarray(timestep.observation), np.asarray(timestep.action_mask)
assert int(back(observation, mask)) == int(policy(observation, mask))  # NumPy in, NumPy out

app = jaxsched.serve.app(policy)  # an ASGI application for one's own server and its test client
assert callable(app)
