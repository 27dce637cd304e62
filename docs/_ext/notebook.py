"""Notebooks as pages: their Markdown, code and stored outputs, with the one Markdown parser.

``nbclient`` executes them in CI; here nothing runs, so that a build takes no kernel.
"""

import json
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser


class NotebookParser(MystParser):
    """Reads ``.ipynb``."""

    supported = ("ipynb",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse the notebook as the Markdown that it stands for."""
        super().parse(markdown_of(json.loads(inputstring)), document)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}


def markdown_of(notebook: dict[str, Any]) -> str:
    """A notebook of format 4 as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts.append(f"```python\n{source}\n```")
            parts += [shown for output in cell["outputs"] if (shown := _output(output))]
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return _text("".join(output["text"])) if output["name"] == "stdout" else ""
    data = output.get("data", {})
    if "image/png" in data:
        image = "".join(data["image/png"]).replace("\n", "")
        return f"![output](data:image/png;base64,{image})"
    return _text("".join(data["text/plain"])) if "text/plain" in data else ""


def _text(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"
