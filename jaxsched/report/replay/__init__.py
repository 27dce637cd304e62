"""A page on which recorded schedules can be looked at: moved along, zoomed, searched, compared."""

from jaxsched.report.replay.page import render_replay, write_replay

__all__ = ["render_replay", "write_replay"]
