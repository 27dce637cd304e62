"""From what is known of a job at its submission to its levels, lower first; pure and jittable.

Axes: ``F`` features, ``Q`` thresholds, ``Q + 1`` levels.
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay.gittins import chance_to_reach, index_of_hazards, intervals
from jaxsched.trace_replay.history import EDGES, NUM_FEATURES, Seen
from jaxsched.types import Array, PyTree

Scorer = Literal["", "qssf", "learned", "learned-once"]

OCTAVE = 256  # levels for a factor of two
LARGEST_LEVEL = 2**30


class Predictor(NamedTuple):
    """A network from features to the chances to end in each bin of run time; float32.

    Attributes:
      mean: ``[F]``, subtracted from the features.
      scale: ``[F]``, then multiplied with them.
      weights: of each layer, ``[inputs, outputs]``; the last has ``E`` outputs.
      biases: likewise.
      tail_s: scalar, seconds left on average beyond the last edge.
      size_power: scalar, the power of the number of GPUs by which the index is divided.
      level_shift: ``[E + 1]``, octaves added to the level of each interval.
      patience_s: scalar, seconds of waiting that are worth an octave.
    """

    mean: Any
    scale: Any
    weights: tuple[Any, ...]
    biases: tuple[Any, ...]
    tail_s: Any
    size_power: Any
    level_shift: Any
    patience_s: Any


def logits(predictor: Predictor, features: Array) -> Array:
    """Of the chance to end in each bin for those that get there, float32 ``[E]``."""
    x = (features.astype(jnp.float32) - predictor.mean) * predictor.scale
    x = jnp.clip(x, -8.0, 8.0)
    last = len(predictor.weights) - 1
    for k, (weight, bias) in enumerate(zip(predictor.weights, predictor.biases, strict=True)):
        x = x @ weight + bias
        x = x if k == last else jax.nn.relu(x)
    return x


def hazards(predictor: Predictor, features: Array) -> Array:
    """The chance to end in each bin for those that get there, float32 ``[E]``."""
    return jnp.clip(jax.nn.sigmoid(logits(predictor, features)), 1e-4, 0.995)


def qssf(predictor: PyTree, seen: Seen, mean_s: Array) -> Array:
    """GPUs times the predicted run time, the stream's mean (QSSF; Hu et al., SC'21, section 4.2.2).

    They predict from a user's earlier jobs of the same name and a tree ensemble; here the jobs'
    owner and size are all that is known.
    """
    limit = LARGEST_LEVEL // seen.num_gpus
    return jnp.minimum(mean_s, limit)[None] * seen.num_gpus


def learned(predictor: Predictor, seen: Seen, mean_s: Array) -> Array:
    """Logarithm of the reciprocal Gittins index per GPU of each interval, int32 ``[E + 1]``."""
    index = index_of_hazards(hazards(predictor, seen.features), EDGES, predictor.tail_s)
    size = predictor.size_power * jnp.log2(seen.num_gpus.astype(jnp.float32))
    octaves = -jnp.log2(jnp.maximum(index, 1e-12)) + size + predictor.level_shift
    return _levels(predictor, seen, octaves)


def learned_once(predictor: Predictor, seen: Seen, mean_s: Array) -> Array:
    """Logarithm of GPUs times the predicted mean run time, int32 ``[1]``."""
    ends = hazards(predictor, seen.features)
    _, edges, mean = intervals(EDGES)
    reach = chance_to_reach(ends)
    run_time = jnp.sum(reach[:-1] * ends * mean) + reach[-1] * (edges[-1] + predictor.tail_s)
    size = predictor.size_power * jnp.log2(seen.num_gpus.astype(jnp.float32))
    return _levels(predictor, seen, (jnp.log2(run_time) + size)[None])


def _levels(predictor: Predictor, seen: Seen, octaves: Array) -> Array:
    """Whole levels; who has waited longer by ``patience_s`` is an octave ahead.

    The time waited is the time less that of submission, and the time is the same for all.
    """
    waited = seen.submit.astype(jnp.float32) / predictor.patience_s
    whole = jnp.round(OCTAVE * (octaves + waited))
    return jnp.clip(whole, -LARGEST_LEVEL, LARGEST_LEVEL).astype(jnp.int32)


SCORERS: MappingProxyType[str, Callable[[Any, Seen, Array], Array]] = MappingProxyType(
    {"qssf": qssf, "learned": learned, "learned-once": learned_once}
)


@cache
def shipped() -> Predictor:
    """The predictor that comes with the library (``predictor.json`` says how it was made).

    Raises:
      JaxschedError: the file is damaged.
    """
    return read(Path(__file__).parent / "predictor.json")


def read(file: Path) -> Predictor:
    """A predictor that ``to_json`` has described.

    Raises:
      JaxschedError: not such a file.
    """
    try:
        values = json.loads(file.read_text(encoding="utf-8"))["predictor"]
        fields = {name: values[name] for name in Predictor._fields}
        fields = {name: _arrays(value, name in _LISTS) for name, value in fields.items()}
        found = Predictor(**fields)
    except (ValueError, KeyError, TypeError) as error:
        raise JaxschedError(f"'{file}' is no predictor; accepted: what to_json writes") from error
    return found


def to_json(predictor: Predictor) -> dict[str, Any]:
    """Plain numbers, four digits where they are weights; ``read`` reads them back."""

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return [plain(each) for each in value]
        array = np.asarray(value, np.float64)
        return np.vectorize(lambda x: float(f"{x:.5g}"), otypes=[float])(array).tolist()

    return {name: plain(value) for name, value in predictor._asdict().items()}


_LISTS = ("weights", "biases")


def _arrays(value: Any, is_list: bool) -> Any:
    if is_list:
        return tuple(np.array(each, np.float32) for each in value)
    return np.array(value, np.float32)


def untrained(hidden: tuple[int, ...], key: Array) -> Predictor:
    """A predictor with random weights and the settings of the plain index."""
    sizes = (NUM_FEATURES, *hidden, len(EDGES))
    keys = jax.random.split(key, len(sizes) - 1)
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))
    weights = tuple(
        jax.random.normal(k, pair) * (2 / pair[0]) ** 0.5
        for k, pair in zip(keys, pairs, strict=True)
    )
    return Predictor(
        mean=jnp.zeros(NUM_FEATURES),
        scale=jnp.ones(NUM_FEATURES),
        weights=weights,
        biases=tuple(jnp.zeros(pair[1]) for pair in pairs),
        tail_s=jnp.float32(EDGES[-1]),
        size_power=jnp.float32(1),
        level_shift=jnp.zeros(len(EDGES) + 1),
        patience_s=jnp.float32(jnp.inf),
    )
