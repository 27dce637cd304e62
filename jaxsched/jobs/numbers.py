"""Numbers as JSON has them."""

from typing import Any

import numpy as np
import numpy.typing as npt


def json_numbers(values: Any, digits: int = 6) -> list[Any]:
    """Numbers as JSON has them: whole ones as such, null for what is not finite; nested as given.

    Args:
      values: an array.
      digits: significant digits of fractions; whole parts are kept.
    """
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        return list(array.astype(np.int64).tolist())
    array = array.astype(np.float64)
    finite = np.isfinite(array)
    size = np.floor(np.log10(np.maximum(np.abs(np.where(finite, array, 0.0)), 1e-30)))
    places = np.power(10.0, np.maximum(digits - 1 - size, 0))
    rounded = np.where(finite, np.rint(np.where(finite, array, 0.0) * places) / places, 0.0)
    return list(_numbers(rounded, finite))


def _numbers(values: npt.NDArray[Any], finite: npt.NDArray[Any]) -> list[Any]:
    if values.ndim > 1:
        return [_numbers(row, there) for row, there in zip(values, finite, strict=True)]
    pairs = zip(values.tolist(), finite.tolist(), strict=True)
    return [(int(v) if v == int(v) else v) if there else None for v, there in pairs]
