"""The pages of the documentation and what stands in them."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = ("docs/reference/commands.md", "docs/reference/api.md")
"""Pages that a build makes."""


class Block(NamedTuple):
    """Code of a page."""

    language: str
    code: str


def pages() -> list[Path]:
    """README and all pages that are written by hand or by ``benchmarks.evidence``."""
    left_out = {"_build", "_ext", "reference"}
    found = (path for path in DOCS.rglob("*.md") if not left_out & set(path.parts))
    others = ("README.md", "CONTRIBUTING.md", "RELEASING.md", "benchmarks/README.md")
    return [*(ROOT / name for name in others), *sorted(found)]


def name_of(path: Path) -> str:
    """Of a page, from the root."""
    return str(path.relative_to(ROOT))


def blocks(path: Path) -> list[Block]:
    """Fenced and indented code, in order; fenced without a language is text."""
    found, lines = [], path.read_text(encoding="utf-8").splitlines()
    fence, language, body, before = None, "", [], ""
    for line in lines:
        opened = re.match(r"(`{3,}|~{3,})\s*(\S*)", line)
        if fence is None and opened:
            fence, language, body = opened[1], opened[2], []
        elif fence is not None and line.startswith(fence):
            found.append(Block(language or "text", "\n".join(body)))
            fence = None
        elif fence is not None:
            body.append(line)
        elif line.startswith("    ") and found and before.startswith("    "):
            found[-1] = Block("indented", f"{found[-1].code}\n{line.strip()}")
        elif line.startswith("    ") and not before.strip():
            found.append(Block("indented", line.strip()))
        before = line
    return found


def inline(path: Path) -> list[str]:
    """Code between words of the prose, each on one line."""
    text = re.sub(r"^(`{3,}).*?^\1", "", path.read_text(encoding="utf-8"), flags=_LINES)
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]


def prose(path: Path) -> str:
    """A page without its code, where links stand."""
    text = re.sub(r"^(`{3,}).*?^\1", "", path.read_text(encoding="utf-8"), flags=_LINES)
    return re.sub(r"``.*?``|`[^`\n]*`", "", text)


_LINES = re.MULTILINE | re.DOTALL


def slug(heading: str) -> str:
    """The anchor of a heading, as MyST and GitHub make it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def headings(path: Path) -> list[str]:
    """The headings of a page, without their signs."""
    text = re.sub(r"^(`{3,}).*?^\1", "", path.read_text(encoding="utf-8"), flags=_LINES)
    return re.findall(r"^#{1,6} (.*)$", text, re.MULTILINE)
