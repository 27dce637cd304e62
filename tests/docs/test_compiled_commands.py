"""Commands of the pages that compile programs run, most of them with fewer and shorter episodes."""

import pytest

from jaxsched.cli import main
from tests.docs.commands import COMPILED, EXPORTS, MONTH, chosen, run_words, write_files, write_run

pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    made = tmp_path_factory.mktemp("reader") / "run"
    write_run(made)
    return made


@pytest.mark.parametrize(
    "words",
    [
        *chosen(COMPILED),
        *(pytest.param(words, marks=pytest.mark.slow) for words in chosen(EXPORTS)),
    ],
)
def test_commands_run(words, run, tmp_path, monkeypatch, capsys):
    write_files(tmp_path)
    (tmp_path / "runs").mkdir()
    for name in ("first", "paper"):
        (tmp_path / "runs" / name).symlink_to(run)
    monkeypatch.chdir(tmp_path)
    assert main(run_words(words)) == 0, capsys.readouterr().err


def test_a_month_becomes_a_policy(tmp_path, monkeypatch, capsys):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    commands = [words for rule in MONTH for words in chosen((rule,))]
    assert len(commands) == len(MONTH)
    for words in commands:
        assert main(run_words(words)) == 0, capsys.readouterr().err
