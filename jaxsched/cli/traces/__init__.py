"""``jaxsched traces``: describe, import, convert, generate, fetch and list traces."""

from jaxsched.cli.traces import catalogue, conversion, statistics
from jaxsched.cli.traces.group import traces

__all__ = ["catalogue", "conversion", "statistics", "traces"]
