"""Trained policies and heuristics behind HTTP: a cluster comes in, a decision goes out."""

from collections.abc import Mapping
from typing import Any

from jaxsched.errors import JaxschedError

TOKEN = "JAXSCHED_TOKEN"
"""Variable of the environment that may hold the token which requests must bear."""


def app(*policies: Any, token: str = "", options: Mapping[str, Any] | None = None) -> Any:
    """An ASGI application that decides over HTTP, for one's own server or a test client.

    Args:
      policies: loaded policies or runs, or what ``jaxsched serve`` takes.
      token: that requests must bear; none if empty.
      options: of heuristics.

    Raises:
      JaxschedError: a policy cannot be loaded, or the extra ``serve`` is not installed.
    """
    try:
        from jaxsched.serve.application import Service
        from jaxsched.serve.decisions import Wanted
    except ModuleNotFoundError as error:
        raise JaxschedError(
            f"serving needs the extra 'serve', pip install 'jaxsched[serve]' ({error.name} is "
            "missing)"
        ) from None
    places = [str(getattr(policy, "place", policy)) for policy in policies]
    chosen = dict(options or {})
    wanted = [Wanted(place, options=chosen) for place in places]
    return Service(wanted, token=token).app()
