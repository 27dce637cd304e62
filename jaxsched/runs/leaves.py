"""The leaves of a checkpoint: their names, descriptions, checksums and restoration."""

import zlib
from typing import Any

import jax
import numpy as np

from jaxsched.types import PyTree


def flatten(tree: PyTree) -> tuple[list[str], list[Any]]:
    """Paths and leaves, typed keys replaced by their key data (abstract ones likewise)."""
    with_path, _ = jax.tree_util.tree_flatten_with_path(tree)
    paths = [jax.tree_util.keystr(path) for path, _ in with_path]
    return paths, [_key_data(leaf) if _is_key(leaf) else leaf for _, leaf in with_path]


def _is_key(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def _key_data(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return jax.random.key_data(leaf)
    data = jax.eval_shape(jax.random.key_data, leaf)
    return jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=getattr(leaf, "sharding", None))


def restorable(leaf: Any) -> Any:
    """The leaf in the form that orbax needs in a target."""
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
        sharding = leaf.sharding or jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
    return np.asarray(leaf)


def like_target(value: Any, like: Any) -> Any:
    """A restored value as the kind of leaf that the target has."""
    if _is_key(like):
        return jax.random.wrap_key_data(value, impl=_key_impl(like))
    if isinstance(like, bool | int | float):
        return type(like)(value)
    if isinstance(like, np.ndarray | np.generic):
        return np.asarray(value)[()] if isinstance(like, np.generic) else np.asarray(value)
    return value if isinstance(value, jax.Array) else jax.numpy.asarray(value)


def _key_impl(like: Any) -> Any:
    if isinstance(like, jax.Array):
        return jax.random.key_impl(like)
    return jax.random.key_impl(jax.numpy.empty((), like.dtype))


def describe(paths: list[str], leaves: list[Any], stored: dict[str, Any]) -> list[dict[str, Any]]:
    """Path, shape, dtype and checksum of each leaf; ``stored`` has those with any numbers."""
    rows = []
    for i, (path, leaf) in enumerate(zip(paths, leaves, strict=True)):
        value = stored.get(stored_name(i))
        rows.append(
            {
                "path": path,
                "shape": list(np.shape(leaf)),
                "dtype": dtype_name(leaf),
                "crc32": checksum(value) if value is not None and on_this_host(value) else None,
            }
        )
    return rows


def stored_name(index: int) -> str:
    """Name of a leaf in a checkpoint."""
    return f"leaf{index:05d}"


def dtype_name(leaf: Any) -> str:
    """Name of the dtype of an array or a host scalar."""
    return str(leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype)


def dtype_named(name: str) -> Any:
    """The dtype of a name, JAX's own among them."""
    return jax.numpy.dtype(name)


def on_this_host(leaf: Any) -> bool:
    """Whether all of a leaf can be read by this process."""
    return not isinstance(leaf, jax.Array) or leaf.is_fully_addressable


def checksum(leaf: Any) -> int:
    """Checksum of the raw bytes, so that damage between saving and loading is noticed."""
    array = np.ascontiguousarray(np.asarray(leaf))
    return zlib.crc32(array.reshape(-1).view(np.uint8).data)
