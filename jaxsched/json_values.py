"""Values as JSON holds them."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def to_plain(value: Any) -> Any:
    """A value as JSON holds it: dataclasses and tuples unfolded, non-finite numbers as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: to_plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if hasattr(value, "tolist") and not isinstance(value, str):
        return to_plain(np.asarray(value).tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
