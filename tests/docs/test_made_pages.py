"""What the site makes from code: tables of the systems, commands, notebooks, pictures."""

import json
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from jaxsched.cli.commands import COMMANDS, TRACE_COMMANDS
from jaxsched.systems import registry
from tests.docs.pages import DOCS

sys.path.insert(0, str(DOCS / "_ext"))
pytest.importorskip("sphinx", reason="the documentation's tools are not installed: make docs")

import api_calls  # noqa: E402 - found by the line above
import menu  # noqa: E402
import notebook  # noqa: E402
import pictures  # noqa: E402
import references  # noqa: E402
import system_tables  # noqa: E402

from jaxsched.systems import presets

SYSTEMS = ("sched2", "dl2", "chic", "das", "mlfs", "cluster")


@pytest.mark.parametrize("system", SYSTEMS)
def test_tables_say_what_the_code_says(system):
    tables = {
        kind: make(system)
        for kind, make in system_tables.TABLES.items()
        if kind != "results" or system != "cluster"  # no paper's, and without a page of results
    }
    known = registry.get(system)
    for name in (*known.policies, *presets.all_recipes(known)):
        assert f"| `{name}` |" in tables["policies"] + tables["presets"]
    env_type = known.environment
    meanings = system_tables.attributes_of(env_type)
    assert set(meanings) == set(env_type.__dataclass_fields__)
    if "results" in tables:
        assert "[" in tables["results"] and tables["results"].count("\n|") >= 3


def test_entries_of_an_observation_add_up():
    rows = [line.split(" | ") for line in system_tables.observation("sched2").splitlines()[4:]]
    sizes = []
    for row in rows:
        size = 1
        for factor in row[2].split(" x "):
            size *= int(factor)
        sizes.append(size)
    assert sum(sizes) == 15 * 8 + 10 * 6 + 4


def test_every_command_and_option_is_on_the_page():
    page = references.commands_page()
    for name in COMMANDS:
        assert f"\n## jaxsched {name}\n" in page
    for name in TRACE_COMMANDS:
        assert f"\n## jaxsched traces {name}\n" in page
    assert "`--num-seeds`" in page and "`--policy`" in page


def test_the_api_lists_public_modules():
    assert "jaxsched.core.training" in references.modules_of("core")
    assert all("._" not in name for name in references.modules_of("algorithms"))


def test_a_notebook_becomes_a_page():
    book = {
        "cells": [
            {"cell_type": "markdown", "source": ["# Title"]},
            {
                "cell_type": "code",
                "source": ["print(1)"],
                "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}],
            },
        ]
    }
    expected = "# Title\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n"
    assert notebook.markdown_of(book) == expected


@pytest.mark.parametrize("path", sorted((DOCS / "notebooks").glob("*.ipynb")), ids=lambda p: p.name)
def test_notebooks_are_kept_with_their_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    ran = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in ran] == list(range(1, len(ran) + 1))
    assert any("image/png" in output.get("data", {}) for cell in ran for output in cell["outputs"])
    assert all(output["output_type"] != "error" for cell in ran for output in cell["outputs"])


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.parametrize("system", pictures.PLAYED)
def test_pictures_are_those_that_the_code_draws(system):
    kept = (DOCS / "systems" / "pictures" / f"{system}.svg").read_text(encoding="utf-8")
    assert pictures.drawn(system) == kept


def names_of_pages():
    return [str(p.relative_to(DOCS).with_suffix("")) for p in DOCS.rglob("*.md") if not
            {"_build", "_ext", "reference"} & set(p.parts)]  # fmt: skip


def test_every_page_is_in_one_group_of_the_menu():
    found = [*names_of_pages(), "reference/index", "reference/commands", "reference/api"]
    listed = [page for group in menu.GROUPS for page in menu.pages_of(group, found)]
    assert len(listed) == len(set(listed))
    top = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in found:
        at_top = f"\n{page}\n" in top or page in ("index", "systems/index")
        assert at_top or page in listed or page.startswith("systems/"), page
    assert all(f"\n{group}\n" in top for group in menu.GROUPS)
    assert top.count("\n", top.rindex("```{toctree}")) < 16, "a handful of entries"


def test_pages_that_nobody_listed_join_the_group_of_their_folder():
    found = ["how_to/own", "how_to/new_page", "results/README", "results/new"]
    assert "how_to/new_page" in menu.pages_of("how_to/own", found)
    assert menu.pages_of("results/README", found) == ["results/new"]


def test_the_api_begins_with_the_calls_that_programs_make():
    page = references.api_index()
    order = [page.index(f" {name}\n") for name in (
        "jaxsched.make", "jaxsched.traces.get", "jaxsched.systems.registry.get",
        "jaxsched.wrappers.history.WithHistory", "jaxsched.results.comparison.compare",
    )]  # fmt: skip
    assert order == sorted(order) and order[-1] < page.index("## Room by room")
    for calls in api_calls.CALLS:
        for entry in calls.names:
            module, _, name = entry.split()[1].rpartition(".")
            if find_spec(module.rpartition(".")[2]) or "adapters" not in module:
                assert hasattr(import_module(module), name), entry
    assert references.api_page("core").index("core.environment") < references.api_page(
        "core").index("core.array_policy")  # fmt: skip
    for room in references.present_rooms():
        found = references.modules_of(room)
        assert sorted(api_calls.in_order(room, found)) == found
