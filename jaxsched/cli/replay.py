"""``jaxsched replay``: not there yet."""

from typing import Annotated

import typer

from jaxsched.errors import JaxschedError


def replay(arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """A page that shows GPUs over time (not there yet)."""
    del arguments
    raise JaxschedError("replay: is not there yet; 'jaxsched compare --html FILE' draws a schedule")
