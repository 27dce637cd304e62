"""The committed pages of results are those that the committed files make."""

from benchmarks.evidence import __main__ as script


def test_the_shipped_pages_are_up_to_date(monkeypatch):
    monkeypatch.setattr("sys.argv", ["evidence", "--check"])
    script.main()
