"""What the site makes from code: tables of the systems, commands, notebooks, pictures."""

import json
import sys

import pytest

from jaxsched.cli.commands import COMMANDS, TRACE_COMMANDS
from jaxsched.systems import registry
from tests.docs.pages import DOCS

sys.path.insert(0, str(DOCS / "_ext"))
pytest.importorskip("sphinx", reason="the documentation's tools are not installed: make docs")

import notebook  # noqa: E402 - found by the line above
import pictures  # noqa: E402
import references  # noqa: E402
import system_tables  # noqa: E402

SYSTEMS = ("sched2", "dl2", "chic", "das", "mlfs")


@pytest.mark.parametrize("system", SYSTEMS)
def test_tables_say_what_the_code_says(system):
    tables = {kind: make(system) for kind, make in system_tables.TABLES.items()}
    known = registry.get(system)
    for name in (*known.policies, *known.all_presets):
        assert f"| `{name}` |" in tables["policies"] + tables["presets"]
    env_type = known.environment_type
    meanings = system_tables.attributes_of(env_type)
    assert set(meanings) == set(env_type.__dataclass_fields__)
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
@pytest.mark.parametrize("system", SYSTEMS)
def test_pictures_are_those_that_the_code_draws(system):
    kept = (DOCS / "systems" / "pictures" / f"{system}.svg").read_text(encoding="utf-8")
    assert pictures.drawn(system) == kept
