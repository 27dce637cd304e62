"""Values as JSON holds them."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def json_value(value: Any) -> Any:
    """A value as JSON holds it: dataclasses and tuples unfolded, non-finite numbers as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: json_value(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if hasattr(value, "tolist") and not isinstance(value, str):
        return json_value(np.asarray(value).tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
