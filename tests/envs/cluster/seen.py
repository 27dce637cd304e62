"""What is seen of states that differ in what is to come only."""

import jax
import numpy as np


def seen_alike(env, one, other):
    """Observations of two ``(states [T, E, ...], params)``, which must be the same."""

    @jax.jit
    def observed(states, params):
        return jax.vmap(jax.vmap(env.observe, (0, None)), (0, None))(states, params)[0]

    seen = observed(*one)
    np.testing.assert_array_equal(seen, observed(*other))
    return seen
