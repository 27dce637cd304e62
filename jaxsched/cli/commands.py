"""The commands; importing this module registers them."""

from jaxsched.cli import compare, export, listing, replay, simulate, traces, train

__all__ = ["compare", "export", "listing", "replay", "simulate", "traces", "train"]
