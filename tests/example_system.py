"""The system of ``examples/new_environment.py``, registered as a user's own would be."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from jaxsched.systems import registry

EXAMPLES = Path(__file__).parents[1] / "examples"


@contextmanager
def registered() -> Iterator[ModuleType]:
    """The example's module; its system ``weighted`` is known to commands meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        path = EXAMPLES / "new_environment.py"
        spec = importlib.util.spec_from_file_location("new_environment", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["new_environment"] = module
        spec.loader.exec_module(module)
        registry.register(module.SYSTEM)
        yield module
        registry.unregister("weighted")
        del sys.modules["new_environment"]
