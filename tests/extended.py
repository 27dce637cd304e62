"""Which tests are extended: CI runs them in turns, `make test` does not.

Names below ``tests``: folders, modules, tests of a module, and single cases of a test. Of every
rule at least one test stays in the default suite; the table in ``README.md`` says which.
"""

EXTENDED = (
    "adapters",
    "algorithms/test_actor_critic.py::test_replay_memory_is_not_copied_by_an_update[2]",
    "algorithms/test_actor_critic.py::test_seeds_under_vmap[changes1]",
    "algorithms/test_actor_critic.py::test_the_better_action_of_each_decision_of_a_group_is_learnt[clusters]",
    "algorithms/test_actor_critic.py::test_the_gradient_of_clusters_is_the_average_of_theirs",
    "algorithms/test_ant_lion.py",
    "algorithms/test_average_reward.py",
    "algorithms/test_branching.py",
    "algorithms/test_branching_of_agents.py",
    "algorithms/test_common_sequences.py",
    "bench",
    "benchmarks",
    "cli/test_cli.py::test_several_seeds_train_side_by_side",
    "cli/test_cli_das.py",
    "cli/test_cli_elastic.py",
    "cli/test_cli_hostile.py::test_figures_have_the_format_of_their_ending",
    "cli/test_cli_mlfs.py",
    "cli/test_headroom.py",
    "docs/test_compiled_commands.py",
    "docs/test_http_service.py",
    "elastic/test_double_precision.py::test_heuristics_play",
    "envs/chic/test_oracle.py::test_optimus",
    "envs/chic/test_oracle.py::test_rules",
    "envs/chic/test_reference_table.py",
    "envs/chic/test_rules.py::test_rules_finish_everything",
    "envs/chic/test_wide_windows.py",
    "envs/cluster",
    "envs/das/test_effective.py",
    "envs/das/test_following.py",
    "envs/das/test_futures.py",
    "envs/das/test_long_tables.py",
    "envs/das/test_networks.py::test_dummy_positions_reach_nothing",
    "envs/das/test_networks.py::test_machines_may_come_in_any_order",
    "envs/das/test_networks.py::test_sequences_are_evaluated_as_they_were_sampled",
    "envs/das/test_outlook.py",
    "envs/das/test_owners.py",
    "envs/das/test_random_window.py",
    "envs/das/test_recipe.py",
    "envs/das/test_scored.py",
    "envs/das/test_searchers.py",
    "envs/das/test_system.py::test_critics_are_blind_to_dummies",
    "envs/das/test_system.py::test_labels_are_what_the_rule_does[tetris-True]",
    "envs/das/test_whole_state.py",
    "envs/dl2/test_artefact.py",
    "envs/dl2/test_artefact_learning.py",
    "envs/dl2/test_golden.py::test_single_precision_agrees",
    "envs/dl2/test_long_tables.py",
    "envs/dl2/test_look_ahead.py",
    "envs/dl2/test_oracle.py::test_policies",
    "envs/dl2/test_oracle.py::test_random_play",
    "envs/dl2/test_oracle.py::test_random_play_of_more_words",
    "envs/dl2/test_reference_table.py",
    "envs/mlfs/test_invariants.py",
    "envs/mlfs/test_pairs.py",
    "envs/mlfs/test_rule_slots.py",
    "envs/mlfs/test_system.py::test_draws_do_not_depend_on_companions",
    "envs/mlfs/test_whole_state.py",
    "envs/sched2/test_baseline_table.py",
    "envs/sched2/test_look_ahead.py",
    "experiment/test_ray_engine.py",
    "exports/test_cluster.py",
    "exports/test_programs.py",
    "leaderboard",
    "ops/test_batching.py::test_copies_of_copies",
    "serve",
    "trace_replay/test_further_rules.py",
    "trace_replay/test_oracle.py::test_jobs_of_philly",
    "trace_replay/test_oracle.py::test_other_clusters",
    "trace_replay/test_oracle.py::test_random_instances",
    "trace_replay/test_spot.py",
    "wrappers",
)

KEPT: tuple[str, ...] = (
    "cli/test_cli_hostile.py::test_figures_have_the_format_of_their_ending[.pdf-%PDF]",
    "elastic/test_double_precision.py::test_heuristics_play[dl2-drf]",
    "elastic/test_double_precision.py::test_heuristics_play[dl2-optimus]",
    "elastic/test_double_precision.py::test_heuristics_play[sched2-strict]",
    "envs/chic/test_oracle.py::test_optimus[(4, 26, 130)-77.7-stop]",
    "envs/chic/test_oracle.py::test_rules[optimus_event-2]",
    "envs/chic/test_oracle.py::test_rules[round_robin-1]",
    "envs/chic/test_rules.py::test_rules_finish_everything[True-search]",
    "envs/das/test_networks.py::test_dummy_positions_reach_nothing[nan-DAS]",
    "envs/das/test_networks.py::test_dummy_positions_reach_nothing[nan-extra]",
    "envs/das/test_networks.py::test_machines_may_come_in_any_order[DAS]",
    "envs/das/test_networks.py::test_sequences_are_evaluated_as_they_were_sampled[DA]",
    "envs/das/test_system.py::test_critics_are_blind_to_dummies[nan]",
    "envs/dl2/test_golden.py::test_single_precision_agrees[gap_between_jobs]",
    "envs/dl2/test_oracle.py::test_policies[small-drf]",
    "envs/dl2/test_oracle.py::test_policies[small-fifo]",
    "envs/dl2/test_oracle.py::test_policies[small-optimus]",
    "envs/dl2/test_oracle.py::test_policies[small-srtf]",
    "envs/dl2/test_oracle.py::test_policies[small-tetris]",
    "envs/dl2/test_oracle.py::test_random_play[all-reduce]",
    "envs/dl2/test_oracle.py::test_random_play[measured]",
    "envs/dl2/test_oracle.py::test_random_play[small]",
    "envs/dl2/test_oracle.py::test_random_play[started bundles]",
    "envs/dl2/test_oracle.py::test_random_play_of_more_words[more jobs than rows]",
    "ops/test_batching.py::test_copies_of_copies[tree-all]",
    "trace_replay/test_oracle.py::test_jobs_of_philly[fifo-easy]",
    "trace_replay/test_oracle.py::test_jobs_of_philly[srtf]",
    "trace_replay/test_oracle.py::test_other_clusters[shape1]",
    "trace_replay/test_oracle.py::test_random_instances[drf-skip-strict]",
    "trace_replay/test_oracle.py::test_random_instances[fifo-block-any]",
    "trace_replay/test_oracle.py::test_random_instances[fifo-easy-strict]",
    "trace_replay/test_oracle.py::test_random_instances[gittins-block-any]",
    "trace_replay/test_oracle.py::test_random_instances[las-skip-strict]",
    "trace_replay/test_oracle.py::test_random_instances[lrf-block-strict]",
    "trace_replay/test_oracle.py::test_random_instances[qssf-block-strict]",
    "trace_replay/test_oracle.py::test_random_instances[sjf-skip-any]",
    "trace_replay/test_oracle.py::test_random_instances[spf-easy-any]",
    "trace_replay/test_oracle.py::test_random_instances[srsf-block-any]",
    "trace_replay/test_oracle.py::test_random_instances[srtf-skip-strict]",
    "trace_replay/test_oracle.py::test_random_instances[tetris-skip-strict]",
    "trace_replay/test_oracle.py::test_random_instances[tiresias-skip-strict]",
)
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
