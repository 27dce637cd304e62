"""Environments divided between the cores of a CPU, in a process of its own with two of them."""

import json
import os
import subprocess
import sys

import jax
import pytest

from jaxsched import runtime
from jaxsched.bench.throughput import throughput
from jaxsched.bench.timing import sharing
from jaxsched.errors import JaxschedError

CODE = """
import json
from jaxsched import runtime
runtime.num_cores = lambda: 2
runtime.split_cpu(8)
import jax
import numpy as np
from jaxsched import traces
from jaxsched.bench import timing
from jaxsched.bench.loops import at_random, environment_loop, start_many
from jaxsched.systems import functions, registry

system = registry.get("chic")
env = functions.environment(system)
params = env.params(system.jobs.adapted(traces.get("chic-1.80", num_traces=2, num_jobs=6)))
loop = environment_loop(env, params, at_random(env.action_spec(params)), batch=2, num_steps=40)
key, start = jax.random.key(3), start_many(env, params, 4)

together = timing.measure(timing.over_devices(loop, 2), timing.laid_out(start, 2), repeats=1)
after, (used, decided) = jax.jit(timing.over_devices(loop, 2))(key, timing.laid_out(start, 2))
equal, sums = [], []
for device in range(2):
    half = jax.tree.map(lambda x: x[2 * device : 2 * device + 2], start)
    alone, (seen, _) = jax.jit(loop)(jax.random.fold_in(key, device), half)
    pairs = zip(jax.tree.leaves(after), jax.tree.leaves(alone), strict=True)
    equal += [bool(np.array_equal(x[2 * device : 2 * device + 2], y)) for x, y in pairs]
    sums.append(float(np.max(np.abs(np.asarray(used[device]) - np.asarray(seen)))))
print(json.dumps({
    "devices": jax.device_count(),
    "on": sorted({len(leaf.sharding.device_set) for leaf in jax.tree.leaves(after)}),
    "equal": all(equal),
    "sums": max(sums),
    "decided": list(decided.shape),
    "laps": len(together.laps),
}))
"""


def test_each_device_plays_its_own_environments():
    unset = ("JAX_NUM_CPU_DEVICES", "XLA_FLAGS")
    environment = {k: v for k, v in os.environ.items() if k not in unset}
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["devices"] == 2 and found["on"] == [2], "no more devices than cores"
    assert found["equal"] and found["sums"] < 1e-3
    assert found["decided"] == [2] and found["laps"] == 1


def test_devices_that_can_share_a_batch():
    assert [sharing(batch, 8) for batch in (1, 3, 12, 64, 7)] == [1, 3, 6, 8, 7]


def test_more_devices_than_there_are_are_refused():
    with pytest.raises(
        JaxschedError, match=f"^bench: devices is 0; accepted: 1 to {jax.device_count()}"
    ):
        throughput("chic", devices=0)


def test_what_the_user_says_of_devices_stays(monkeypatch):
    for name, value in (
        ("XLA_FLAGS", "--xla_force_host_platform_device_count=3"),
        ("JAX_NUM_CPU_DEVICES", "1"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            patch.delitem(sys.modules, "jax")
            runtime.split_cpu()
            assert os.environ[name] == value
    jax.devices()
    runtime.split_cpu(1)  # too late, and no error
