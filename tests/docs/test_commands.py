"""Commands of the pages that need no program run as they stand."""

import pytest

from jaxsched.cli import main
from tests.docs.commands import COMPILED, EXPORTS, QUICK, chosen, run_words, write_files


@pytest.mark.parametrize("words", chosen(QUICK))
def test_quick_commands_run(words, tmp_path, monkeypatch, capsys):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(run_words(words)) == 0, capsys.readouterr().err


@pytest.mark.parametrize("rules", [QUICK, COMPILED, EXPORTS])
def test_every_rule_has_a_command(rules):
    for rule in rules:
        assert chosen((rule,)), f"no page has a command like {rule.pattern}"
