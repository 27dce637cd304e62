"""Links of README and docs lead to files and headings; nothing is loaded from elsewhere."""

import re
import sys
from fnmatch import fnmatchcase

import pytest

from tests.docs.pages import DOCS, GENERATED, ROOT, headings, name_of, pages, prose, slug

sys.path.insert(0, str(DOCS / "_ext"))
import menu  # noqa: E402 - found by the line above

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page):
    for target in LINK.findall(prose(page)):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, anchor = target.partition("#")
        aimed = (page.parent / file).resolve() if file else page
        assert ROOT in (aimed, *aimed.parents), target
        assert aimed.exists() or str(aimed.relative_to(ROOT)) in GENERATED, target
        if anchor and aimed.suffix == ".md":
            assert anchor in [slug(heading) for heading in headings(aimed)], target


def test_every_page_can_be_reached():
    """By a table of contents of the site, or a group of its menu."""
    text = "\n".join(path.read_text() for path in (DOCS / "index.md", DOCS / "systems/index.md"))
    listed = re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names = {line.strip() for block in listed for line in block.splitlines() if line.strip()}
    assert set(menu.GROUPS) <= names
    found = [str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")]
    names |= {page for group in menu.GROUPS for page in menu.pages_of(group, found)}
    for page in (*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")):
        relative = page.relative_to(DOCS).with_suffix("")
        if relative.parts[0] in ("_build", "_ext", "reference") or str(relative) == "index":
            continue
        in_its_folder = str(relative.parent) == "systems" and relative.name in names
        in_its_folder |= f"../{relative}" in names
        matched = any(_matches(str(relative), name) for name in names)
        assert matched or in_its_folder, f"{relative} is in no table of contents"


def _matches(page: str, pattern: str) -> bool:
    """As Sphinx reads patterns: an asterisk stops at a slash."""
    return page.count("/") == pattern.count("/") and fnmatchcase(page, pattern)


def test_the_site_loads_nothing_from_elsewhere():
    """Settings and style name no address, so that pages work without a network."""
    for file in (DOCS / "conf.py", *(DOCS / "_static").iterdir()):
        assert not re.search(r"https?:|//cdn", file.read_text(encoding="utf-8")), file
