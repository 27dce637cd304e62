"""The same script on four devices; here four pretended ones of the CPU."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import jax  # noqa: E402
import numpy as np  # noqa: E402

import jaxsched  # noqa: E402

options = dict(preset="plain-ppo", seed=2, set={"loop.num_updates": 3, "loop.num_envs": 64})
one = jaxsched.train("sched2", **options)
four = jaxsched.train("sched2", devices="all", **options)
for a, b in zip(jax.tree.leaves(one.weights), jax.tree.leaves(four.weights), strict=True):
    np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)
assert len(jax.devices()) == 4 and four.facts["devices"] == 4
