"""Sections that docstrings and comments cite exist on the pages of the systems."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

SYSTEMS = ("sched2", "dl2", "chic", "das", "mlfs")
CITED = re.compile(r"(\bcore,? )?\bsections? (\d+(?:\.\d+)?(?:(?:, | and |-)\d+(?:\.\d+)?)*)")
OTHERS = ("the paper's section", "Optimus, section", "et al.", "NSDI", "SIGCOMM", "DL2, section 2)")
"""Words before a section of a publication."""


def sections(page: str) -> set[str]:
    text = (DOCS / "systems" / f"{page}.md").read_text(encoding="utf-8")
    return set(re.findall(r"^#{2,3} (\d+(?:\.\d+)?)\.? ", text, re.MULTILINE))


def citations(folder: Path) -> list[tuple[str, str, str]]:
    """Where, whose page (empty: the folder's own) and which section."""
    found = []
    for file in sorted(folder.rglob("*.py")):
        text = re.sub(r"\s*\n\s*#?\s*", " ", file.read_text(encoding="utf-8"))
        for match in CITED.finditer(text):
            before = text[max(0, match.start() - 24) : match.end()]
            if any(words in before for words in OTHERS):
                continue
            core = bool(match[1]) or "core, section" in before or "elastic core" in before
            numbers = expand(match[2])
            found += [(str(file.relative_to(ROOT)), "elastic" if core else "", n) for n in numbers]
    return found


def expand(numbers: str) -> list[str]:
    """``3.2 and 9`` are two sections, ``10.1-10.4`` four."""
    found: list[str] = []
    for part in re.split(r", | and ", numbers):
        first, _, last = part.partition("-")
        if not last:
            found.append(first)
            continue
        stem = first.rpartition(".")[0]
        ends = [int(number.rpartition(".")[2]) for number in (first, last)]
        found += [f"{stem}.{n}".lstrip(".") for n in range(ends[0], ends[1] + 1)]
    return found


def test_lists_and_spans_of_sections_are_read():
    assert expand("3.2 and 9") == ["3.2", "9"]
    assert expand("2, 3, 9") == ["2", "3", "9"]
    assert expand("10.1-10.4") == ["10.1", "10.2", "10.3", "10.4"]
    assert expand("2-4") == ["2", "3", "4"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_cited_sections_are_on_the_page(system):
    own, shared = sections(system), sections("elastic")
    assert {str(number) for number in range(1, 15)} <= own
    cited = citations(ROOT / "jaxsched" / "envs" / system)
    cited += citations(ROOT / "benchmarks" / "papers" / system)
    cited += citations(ROOT / "tests" / "envs" / system)
    assert len(cited) > 10
    wrong = [entry for entry in cited if entry[2] not in (shared if entry[1] else own)]
    assert not wrong


def test_sections_cited_by_shared_rooms_exist():
    """They name the system whose page is meant."""
    names = {"DL2": "dl2", "Chic": "chic", "DAS": "das", "MLFS": "mlfs", "SCHED2": "sched2"}
    pattern = re.compile(
        r"(DL2|Chic|DAS|MLFS|SCHED2)(?:'s specification)?,? \(?section (\d+[.\d]*)"
    )
    checked = 0
    for room in ("elastic", "algorithms", "systems", "core", "trace_replay"):
        for file in (ROOT / "jaxsched" / room).rglob("*.py"):
            text = " ".join(file.read_text(encoding="utf-8").split())
            for name, number in pattern.findall(text):
                assert number.rstrip(".") in sections(names[name]), (file, name, number)
                checked += 1
    assert checked >= 5
