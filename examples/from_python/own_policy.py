"""A rule as a plain function beside the published ones."""

import numpy as np

import jaxsched


def smallest_first(observation, mask):
    """NumPy in, a number out; called once a decision (slow and said to be)."""
    return int(np.flatnonzero(mask)[0])


@jaxsched.policy(jax=True)
def last_legal(observation, mask, key):
    """JAX in, an array out: jitted and vmapped like the built-in ones."""
    return mask.shape[-1] - 1 - mask[::-1].argmax()


table = jaxsched.compare(
    "sched2", policies=["fifo", smallest_first, last_legal], num_traces=2, num_jobs=30
)
assert set(table.to_pandas()["policy"]) == {"fifo", "smallest_first", "last_legal"}
