"""The clusters of MLFS' experiments, as options of ``MLFS`` (specification, section 2).

Source: MLFS (CoNEXT '20), evaluation; *small* is ours, for training and tests.
"""

from typing import Any

CLUSTERS: dict[str, dict[str, Any]] = {
    "small": {"gpus": (4,) * 5, "max_active": 64, "max_offers": 32},
    "real": {"gpus": (4,) * 20, "max_active": 256, "max_offers": 128},
    "large": {"gpus": (2,) * 321 + (8,) * 229, "max_active": 1024, "max_offers": 2048},
}
"""20, 80 and 2474 GPUs, with room for the load of each.

Tasks last a few minutes, and a GPU holds several. With the 128 offers a slot of *real* the GPUs of
*large* could not even be refilled as tasks end, so it has as many more offers as it has GPUs.
"""
