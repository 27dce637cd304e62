"""The HTTP examples of a page: which service is started, what is asked, what it answers."""

import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from tests.docs.pages import blocks

BASE = "http://127.0.0.1:8750"


class Example(NamedTuple):
    """One request.

    Attributes:
      serve: words of the ``jaxsched serve`` before it.
      curl: words of the line, ``curl`` first.
      answer: what the page shows of the answer, read as JSON; None if it shows nothing.
    """

    serve: tuple[str, ...]
    curl: tuple[str, ...]
    answer: Any

    @property
    def body(self) -> Any:
        """What is sent, read as JSON; None if nothing is."""
        return json.loads(self.curl[self.curl.index("-d") + 1]) if "-d" in self.curl else None


def examples(page: Path) -> list[Example]:
    """Those of a page, in order; an answer is the JSON block behind a request."""
    found: list[Example] = []
    serve: tuple[str, ...] = ()
    for block in blocks(page):
        if block.language == "json" and found and found[-1].answer is None:
            found[-1] = found[-1]._replace(answer=json.loads(block.code))
        if block.language != "console":
            continue
        for command in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]:
            words = tuple(shlex.split(command))
            if words[:2] == ("jaxsched", "serve"):
                serve = words
            elif words[0] == "curl":
                found.append(Example(serve, words, None))
    return found


def shape(value: Any) -> Any:
    """Keys and kinds of values: numbers alike, lists by their first entry."""
    if isinstance(value, dict):
        if value and all(key.isdigit() for key in value):  # by number of a server
            return {"number": shape(next(iter(value.values())))}
        return {key: shape(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [shape(entry) for entry in value[:1]]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return type(value).__name__
    return "number"
