"""The policy from a cluster, not from an observation: ``observe.onnx`` and ``observe.stablehlo``.

A front end holds GPUs and waiting jobs. These files take arrays of those
(:mod:`jaxsched.systems.cluster_arrays`), make the observation and the mask as the environment
would, and give scores and action.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxsched.exports.forms import Computation
from jaxsched.exports.golden import clear_rows
from jaxsched.networks import description as nd
from jaxsched.systems.cluster_arrays import ClusterArrays
from jaxsched.types import Array

OBSERVE = "observe"
LEGAL = "legal"
EXAMPLES = 16


def of_cluster(computation: Computation, cluster: ClusterArrays) -> Computation:
    """What a policy's computation makes of a cluster.

    Args:
      computation: from observation and mask to scores and action.
      cluster: how a cluster is told.
    """

    def function(weights: Mapping[str, Array], arrays: Mapping[str, Array]) -> dict[str, Array]:
        observation, mask = cluster.observe(arrays)
        inputs = {nd.OBSERVATION: observation, "mask": mask}
        return {nd.OBSERVATION: observation, LEGAL: mask, **computation.function(weights, inputs)}

    random = np.random.default_rng(0)
    rows = [cluster.example(random) for _ in range(EXAMPLES)]
    given = {name: np.stack([row[name] for row in rows]) for name in cluster.inputs}
    with jax.default_matmul_precision("highest"):  # accelerators round inputs by default
        found = jax.jit(jax.vmap(function, (None, 0)))(dict(computation.weights), given)
    wanted = {name: np.asarray(x) for name, x in found.items()}
    clear = clear_rows(wanted[nd.SCORES], wanted[LEGAL])  # another order of sums changes no action
    given, wanted = ({k: x[clear] for k, x in rows.items()} for rows in (given, wanted))
    inputs = {name: entry.spec for name, entry in cluster.inputs.items()}
    return Computation(function, computation.weights, inputs, given, wanted, computation.tolerance)


def cluster_facts(cluster: ClusterArrays) -> dict[str, Any]:
    """What the manifest says of the arrays."""
    return {
        name: {
            "shape": entry.spec.shape,
            "dtype": np.dtype(entry.spec.dtype).name,
            "meaning": entry.meaning,
            "unit": entry.unit,
        }
        for name, entry in cluster.inputs.items()
    }
