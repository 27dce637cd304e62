"""The verdicts on the checks that a row made, for tests."""

from dataclasses import asdict

from benchmarks.papers.verdicts import judged_check


def verdicts(system, row, checks):
    """By item; empty where the paper claims nothing."""
    return {c.item: judged_check(system, row, asdict(c)).verdict for c in checks}
