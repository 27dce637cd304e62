"""The menu: a handful of groups, each with a page that says what is in it.

A group's pages are listed here, and become a hidden list of contents on its page. Pages that are
not listed join the group of their folder, so that none is lost.
"""

from collections.abc import Iterable
from typing import Any

GROUPS: dict[str, tuple[str, ...]] = {
    "concepts/index": ("concepts/protocols", "concepts/reproducibility", "concepts/evaluation"),
    "how_to/own": (
        "how_to/own_trace",
        "how_to/new_environment",
        "how_to/new_learner",
        "how_to/own_loop",
    ),
    "how_to/work": ("command_line", "how_to/sweep", "scaling", "replay", "performance"),
    "how_to/elsewhere": ("adapters", "hand_over", "serve", "dl2_artefact"),
    "how_to/rigid": (
        "results/leaderboard",
        "how_to/leaderboard",
        "rigid_policies",
        "how_to/cluster_environment",
        "results/leaderboard_learned",
        "traces",
    ),
    "results/README": (
        *(f"results/{name}" for name in ("sched2", "sched2_notes", "dl2", "dl2_notes", "chic")),
        *(f"results/{name}" for name in ("chic_notes", "das", "das_notes", "mlfs", "mlfs_notes")),
        "results/learners",
    ),
    "reference/index": ("reference/commands", "reference/api"),
}
"""Page of a group -> its pages in order."""

REST = {
    "concepts": "concepts/index",
    "how_to": "how_to/own",
    "results": "results/README",
    "": "how_to/work",
}
"""Folder -> the group that its other pages join."""

ELSEWHERE = ("index", "quickstart", "systems/*", "notebooks/*", "reference/*")
"""Pages that other lists of contents hold."""


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", _add_contents)
    return {"parallel_read_safe": True}


def pages_of(group: str, found: Iterable[str]) -> list[str]:
    """The pages of a group that there are, those that no group lists after the others.

    Args:
      group: its page.
      found: names of all pages.
    """
    there = sorted(found)
    listed = {page for pages in GROUPS.values() for page in pages} | set(GROUPS)
    rest = [
        page
        for page in there
        if page not in listed
        and not _is_elsewhere(page)
        and REST.get(page.rpartition("/")[0]) == group
    ]
    return [*(page for page in GROUPS[group] if page in there), *rest]


def _is_elsewhere(page: str) -> bool:
    folders = tuple(name.removesuffix("*") for name in ELSEWHERE if name.endswith("*"))
    return page in ELSEWHERE or page.startswith(folders)


def _add_contents(app: Any, page: str, content: list[str]) -> None:
    if page in GROUPS:
        names = "\n".join(f"/{name}" for name in pages_of(page, app.env.found_docs))
        content[0] += f"\n\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{names}\n```\n"
