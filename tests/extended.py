"""Which tests are extended: CI runs them in turns, `make test` does not.

Names below ``tests``: folders, modules, tests of a module, and single cases of a test. Of every
rule at least one test stays in the default suite; the table in ``README.md`` says which.
"""

EXTENDED = (
    "adapters",
    "algorithms/test_ant_lion.py",
    "algorithms/test_average_reward.py",
    "algorithms/test_branching.py",
    "algorithms/test_branching_of_agents.py",
    "algorithms/test_common_sequences.py",
    "bench",
    "benchmarks",
    "cli/test_cli_das.py",
    "cli/test_cli_elastic.py",
    "cli/test_cli_mlfs.py",
    "cli/test_headroom.py",
    "docs/test_compiled_commands.py",
    "docs/test_http_service.py",
    "envs/chic/test_reference_table.py",
    "envs/chic/test_wide_windows.py",
    "envs/cluster",
    "envs/das/test_effective.py",
    "envs/das/test_following.py",
    "envs/das/test_futures.py",
    "envs/das/test_long_tables.py",
    "envs/das/test_outlook.py",
    "envs/das/test_owners.py",
    "envs/das/test_random_window.py",
    "envs/das/test_recipe.py",
    "envs/das/test_scored.py",
    "envs/das/test_searchers.py",
    "envs/das/test_whole_state.py",
    "envs/dl2/test_artefact.py",
    "envs/dl2/test_artefact_learning.py",
    "envs/dl2/test_long_tables.py",
    "envs/dl2/test_look_ahead.py",
    "envs/dl2/test_reference_table.py",
    "envs/mlfs/test_invariants.py",
    "envs/mlfs/test_pairs.py",
    "envs/mlfs/test_rule_slots.py",
    "envs/mlfs/test_whole_state.py",
    "envs/sched2/test_baseline_table.py",
    "envs/sched2/test_look_ahead.py",
    "exports/test_cluster.py",
    "exports/test_programs.py",
    "leaderboard",
    "serve",
    "trace_replay/test_further_rules.py",
    "trace_replay/test_spot.py",
    "wrappers",
)

KEPT: tuple[str, ...] = ()
"""Tests and cases of the default suite all the same."""


def is_extended(name: str) -> bool:
    """Whether a test is extended.

    Args:
      name: such as ``tests/envs/das/test_system.py::test_rule[case]``.
    """
    return _is_any(name, EXTENDED) and not _is_any(name, KEPT)


def _is_any(name: str, entries: tuple[str, ...]) -> bool:
    inside = name.removeprefix("tests/")
    return any(inside == entry or inside.startswith(_ends(entry)) for entry in entries)


def _ends(entry: str) -> tuple[str, ...]:
    if entry.endswith("]"):
        return ()
    if "::" in entry:
        return (f"{entry}[",)
    return (f"{entry}::",) if entry.endswith(".py") else (f"{entry}/",)
