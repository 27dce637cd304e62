"""Rows of a report's table of claims: the paper's figure beside what was measured here."""

from typing import Any


def at_least(item: str, paper: float | str | None, here: float, bound: float) -> dict[str, Any]:
    """A figure that should not fall below ``bound``."""
    return {
        "item": item,
        "paper": paper,
        "here": round(here, 4),
        "accept": f">= {bound:g}",
        "met": bool(here >= bound),
    }


def at_most(item: str, paper: float | str | None, here: float, bound: float) -> dict[str, Any]:
    """A figure that should not exceed ``bound``."""
    return {
        "item": item,
        "paper": paper,
        "here": round(here, 4),
        "accept": f"<= {bound:g}",
        "met": bool(here <= bound),
    }
