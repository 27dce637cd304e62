"""A service at work answers the HTTP examples of the pages as they show."""

import json
import os
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("uvicorn")

from tests.docs.http_examples import BASE, examples, shape
from tests.docs.pages import DOCS


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_a_service_answers_as_the_page_shows():
    """Each ``jaxsched serve`` of the page as a process, and its ``curl`` lines as they stand."""
    serving = None
    try:
        words: tuple[str, ...] = ()
        for example in examples(DOCS / "serve.md"):
            if example.serve != words:
                if serving is not None:
                    ended(serving)
                words = example.serve
                serving, url = started(words)
            curl = [word.replace(BASE, url) for word in example.curl]
            told = subprocess.run([*curl, "--fail-with-body"], capture_output=True, text=True)
            assert told.returncode == 0, told.stdout
            if example.answer is not None:
                assert shape(json.loads(told.stdout)) == shape(example.answer), told.stdout
    finally:
        if serving is not None:
            ended(serving)


def started(words):
    """A service at a free port, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", *words, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    line = process.stdout.readline()
    return process, line.split(" at ")[1].split()[0]


def ended(process):
    """Stopped, with its pipe closed."""
    process.terminate()
    process.wait()
    process.stdout.close()
