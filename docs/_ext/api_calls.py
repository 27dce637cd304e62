"""The calls that programs make, in the order in which a reader meets them."""

from typing import NamedTuple


class Calls(NamedTuple):
    """A heading of the page, a sentence, and what stands below it."""

    title: str
    words: str
    names: tuple[str, ...]


CALLS = (
    Calls(
        "An environment",
        "`jaxsched.make` gives an environment and its parameters; `reset` and `step` are pure "
        "functions of both ([protocols](../concepts/protocols.md)).",
        (
            "function jaxsched.make",
            "class jaxsched.Environment",
            "class jaxsched.TimeStep",
        ),
    ),
    Calls(
        "Job tables and traces",
        "Named traces, files of job tables, and published traces that become job tables "
        "([traces](../traces.md)).",
        (
            "class jaxsched.JobTable",
            "function jaxsched.jobs.from_records",
            "function jaxsched.traces.get",
            "function jaxsched.traces.names",
            "function jaxsched.traces.load",
            "function jaxsched.traces.load_tables",
            "function jaxsched.traces.load_trace",
            "function jaxsched.traces.import_trace",
            "function jaxsched.traces.write_tables",
            "function jaxsched.traces.clusters.generate_trace",
        ),
    ),
    Calls(
        "Systems",
        "A system knows its environment, policies, metrics and presets "
        "([an environment of your own](../how_to/new_environment.md)).",
        (
            "function jaxsched.systems.registry.get",
            "function jaxsched.systems.registry.names",
            "function jaxsched.systems.registry.register",
            "record jaxsched.systems.system.System",
            "function jaxsched.systems.functions.environment",
            "function jaxsched.systems.functions.heuristic",
            "function jaxsched.systems.functions.network_policy",
            "function jaxsched.systems.functions.play",
            "function jaxsched.systems.presets.preset",
            "function jaxsched.systems.stages.stages_of",
        ),
    ),
    Calls(
        "Wrappers",
        "Environments around environments.",
        (
            "class jaxsched.wrappers.history.WithHistory",
            "class jaxsched.wrappers.fixed_length.FixedLength",
            "class jaxsched.wrappers.teacher.TaughtEnvironment",
            "class jaxsched.wrappers.recorded.Recorded",
            "class jaxsched.wrappers.privileged_state.PrivilegedState",
            "class jaxsched.wrappers.wrapper.Wrapper",
        ),
    ),
    Calls(
        "Policies, plays and comparisons",
        "What plays, on many episodes at once, and how policies are compared "
        "([how policies are judged](../concepts/evaluation.md)).",
        (
            "class jaxsched.core.policies.Policy",
            "function jaxsched.core.evaluation.run_episodes",
            "function jaxsched.results.comparison.compare",
            "class jaxsched.results.comparison.Contest",
            "class jaxsched.results.comparison.Learned",
            "function jaxsched.report.write_html",
        ),
    ),
    Calls(
        "Learners and trainings",
        "A learner is a record of pure functions "
        "([a learner of your own](../how_to/new_learner.md)).",
        (
            "class jaxsched.Learner",
            "function jaxsched.algorithms.ppo.ppo",
            "function jaxsched.algorithms.dqn.dqn",
            "function jaxsched.runs.trainer.train",
            "function jaxsched.runs.saved_policies.load",
            "function jaxsched.exports.hand_over.export_policy",
        ),
    ),
    Calls(
        "In other projects' forms",
        "The same environments for Gymnasium, PettingZoo, dm_env, gymnax and Stable-Baselines3 "
        "([adapters](../adapters.md)).",
        (
            "function jaxsched.adapters.gymnasium.single",
            "function jaxsched.adapters.gymnasium.vector",
            "function jaxsched.adapters.gymnasium.register",
            "function jaxsched.adapters.pettingzoo.parallel_env",
            "function jaxsched.adapters.dm_env.environment",
            "function jaxsched.adapters.gymnax.make",
            "function jaxsched.adapters.stable_baselines3.make_vec_env",
        ),
    ),
)
"""Full names, each after ``function``, ``class`` (with its members) or ``record`` (without)."""

FIRST = {
    "core": ("environment", "policies", "evaluation", "rollout", "learner", "training"),
    "algorithms": (
        *("ppo", "ppo_settings", "dqn", "actor_critic", "actor_critic_settings", "imitation"),
        *("regression", "evolution", "cross_entropy", "branching", "branching_settings"),
    ),
    "wrappers": ("wrapper", "history", "fixed_length", "teacher", "recorded", "privileged_state"),
    "jobs": ("table", "metrics", "schedule"),
    "traces": ("registry", "trace", "mapping", "csv_tables", "synthetic"),
    "systems": ("registry", "make", "base", "parts", "plain"),
    "runs": ("trainer", "saved_policies", "catalogue", "overrides", "sweep"),
    "results": ("comparison", "statistics", "headroom", "recorded", "curves"),
    "adapters": ("gymnasium", "pettingzoo", "dm_env", "gymnax", "stable_baselines3"),
}
"""Modules of a room that programs call, in order; the others follow by name."""


def directives() -> str:
    """The headings with their entries, as Markdown."""
    parts = []
    for calls in CALLS:
        entries = []
        for entry in calls.names:
            kind, name = entry.split()
            members = "   :members:\n" if kind == "class" else ""
            directive = "function" if kind == "function" else "class"
            entries.append(f".. auto{directive}:: {name}\n   :no-index:\n{members}")
        body = "\n".join(entries)
        parts.append(f"## {calls.title}\n\n{calls.words}\n\n```{{eval-rst}}\n{body}```\n")
    return "\n".join(parts)


def in_order(room: str, modules: list[str]) -> list[str]:
    """Names of a room's modules, those that programs call first."""
    first = [f"jaxsched.{room}.{name}" for name in FIRST.get(room, ())]
    return [*(name for name in first if name in modules), *(m for m in modules if m not in first)]
