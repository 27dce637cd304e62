"""Properties of hypothesis: the default suite depends on no draw and on no clock."""

import re
from pathlib import Path

from hypothesis import settings

TESTS = Path(__file__).parent
OWN = re.compile(r"\b(deadline|derandomize|database|suppress_health_check)=")


def test_properties_meet_the_same_examples_without_a_deadline():
    same, fresh = settings.get_profile("same"), settings.get_profile("fresh")
    assert same.derandomize and not fresh.derandomize and fresh.print_blob
    assert same.deadline is fresh.deadline is None and same.database is None
    assert settings.get_current_profile_name() in ("same", "fresh")


def test_no_module_has_settings_of_its_own_for_these():
    modules = [path for path in TESTS.rglob("test_*.py") if path != Path(__file__)]
    drawn = [text for text in map(Path.read_text, modules) if "from hypothesis import" in text]
    assert len(drawn) > 8 and not any(map(OWN.search, drawn))
