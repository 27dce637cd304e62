"""The command line: ``jaxsched`` and ``python -m jaxsched``."""

from jaxsched.cli.main import main

__all__ = ["main"]
