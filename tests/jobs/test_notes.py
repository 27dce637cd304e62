"""What was changed in a set of job tables."""

from jaxsched.jobs import JobTable
from jaxsched.jobs.notes import notes_of


def table(*notes):
    return JobTable({"submit_time": [0]}, "t", notes)


def test_notes_appear_once_and_in_order():
    tables = [table("3 rows dropped", "models drawn"), table("3 rows dropped", "times rounded")]
    assert notes_of(tables) == ["3 rows dropped", "models drawn", "times rounded"]
    assert notes_of([]) == [] and notes_of([table()]) == []


def test_counts_of_several_tables_become_the_largest():
    tables = [table("3 jobs capped", "x"), table("12 jobs capped"), table("3 jobs capped", "y")]
    assert notes_of(tables) == ["up to 12 jobs capped, by table", "x", "y"]
