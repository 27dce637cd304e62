"""The commands; importing this module registers them."""

from jaxsched.cli import bench, compare, export, listing, replay, simulate, traces, train

__all__ = ["bench", "compare", "export", "listing", "replay", "simulate", "traces", "train"]
