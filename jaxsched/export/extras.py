"""Packages that only some forms of an export need."""

import importlib
from typing import Any

from jaxsched.errors import JaxschedError


def needed(module: str, extra: str) -> Any:
    """A module of an optional package.

    Raises:
      JaxschedError: it is not installed; says how to get it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise JaxschedError(
            f"this needs the package {package}, which is not installed; "
            f"pip install 'jaxsched[{extra}]'"
        ) from error
