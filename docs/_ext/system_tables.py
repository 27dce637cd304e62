"""Tables of a system made from its code, as directives.

    ```{from-code} observation sched2
    ```

puts a table there. Kinds are the keys of ``TABLES``; ``results`` quotes the first comparison of the
system's page of results, which is itself written by a command.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from inspect import cleandoc
from pathlib import Path
from typing import Any

import jax
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import jaxsched
from jaxsched.exports.layout import feature_groups
from jaxsched.options import accepted
from jaxsched.systems import functions, registry
from jaxsched.systems import presets as recipes
from jaxsched.systems.stages import budget
from jaxsched.types import ArraySpec, DiscreteSpec, action_names

RESULTS = Path(__file__).parents[1] / "results"
SMALL = {"num_traces": 1, "num_jobs": 12}  # tables to ask an environment for its specs


class FromCode(SphinxDirective):
    """A table of one kind for one system."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        """The table, parsed as the page around it is."""
        kind, system = self.arguments
        return list(self.parse_text_to_nodes(TABLES[kind](system)))


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("from-code", FromCode)
    return {"parallel_read_safe": True}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(word) for word in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def observation(name: str) -> str:
    """Entries of the observation: where they stand, what they mean and how they are scaled."""
    env, params = jaxsched.make(name, **SMALL)
    spec = env.observation_spec(params)
    features = env.features()
    if isinstance(spec, ArraySpec):
        groups = feature_groups(spec.names, features)
        rows = [_group_row(group) for group in groups]
        header = ("entries", "index", "number", "meaning", "unit", "entry times")
        return f"`{_dtype(spec)}[{spec.shape[0]}]`:\n\n" + table(header, _joined(rows))
    leaves, _ = jax.tree.flatten_with_path(spec, is_leaf=lambda leaf: isinstance(leaf, ArraySpec))
    arrays = [(f"`{path[-1].name}`", _dtype(leaf), _shape(leaf.shape)) for path, leaf in leaves]
    meant = [
        (f"`{pattern}`", entry.meaning, entry.unit, f"{entry.divisor:g}")
        for pattern, entry in features.items()
    ]
    parts = (
        table(("array", "type", "shape"), arrays),
        "and, entry by entry, some with an option only:",
    )
    return "\n\n".join((*parts, table(("entries", "meaning", "unit", "entry times"), meant)))


def _group_row(group: dict[str, Any]) -> tuple[str, ...]:
    shape, strides = (list(map(int, group[key])) for key in ("shape", "strides"))
    index = str(int(group["first"]))
    steps = [f"{stride} {letter}" for stride, letter in zip(strides, "ijk", strict=False)]
    number = " x ".join(map(str, shape)) if shape else "1"
    words = (f"`{group['pattern']}`", " + ".join((index, *steps)), number, group["meaning"])
    return (*words, group["unit"], f"{group['divisor']:g}")


def _joined(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """One-hot entries, which follow one another, as one row."""
    kept: list[tuple[str, ...]] = []
    for row in rows:
        one_hot = re.match(r"1 (if the \w+ is an?|for) ", row[3])
        before = kept[-1] if kept else None
        if one_hot and before and before[3].startswith("1 for the type"):
            kept[-1] = (f"{before[0]}, {row[0]}", *before[1:])
        elif one_hot:
            kept.append((row[0], f"{row[1]} and on", row[2], "1 for the type, else 0", *row[4:]))
        else:
            kept.append(row)
    return kept


def _dtype(spec: ArraySpec) -> str:
    return jax.numpy.dtype(spec.dtype).name


def _shape(shape: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def actions(name: str) -> str:
    """Actions by number and name, or the arrays of an action that is no choice."""
    env, params = jaxsched.make(name, **SMALL)
    spec = env.action_spec(params)
    if not isinstance(spec, DiscreteSpec):
        rows = [
            (f"`{key}`", _dtype(leaf), _shape(leaf.shape), f"{leaf.minimum:g} to {leaf.maximum:g}")
            for key, leaf in spec.items()
        ]
        return table(("array", "type", "shape", "as drawn at random"), rows)
    found: dict[str, list[int]] = {}
    for number, word in enumerate(action_names(spec)):
        found.setdefault(re.sub(r"\d+", "*", word), []).append(number)
    rows = [(f"`{word}`", _numbers(numbers)) for word, numbers in found.items()]
    return f"{spec.num_actions} actions:\n\n" + table(("name", "numbers"), rows)


def _numbers(numbers: list[int]) -> str:
    if len(numbers) < 4:
        return ", ".join(map(str, numbers))
    return f"{numbers[0]}, {numbers[1]}, ..., {numbers[-1]}"


def options(name: str) -> str:
    """Static options of the environment: default, accepted values, what the docstring says."""
    env_type = registry.get(name).environment
    meaning, values = attributes_of(env_type), accepted(env_type)
    rows = [
        (
            f"`{field.name}`",
            f"`{field.default!r}`",
            str(values.get(field.name, "")),
            meaning[field.name],
        )
        for field in fields(env_type)
    ]
    return table(("option", "default", "accepted", "meaning"), rows)


def attributes_of(of: type) -> dict[str, str]:
    """What the sections ``Attributes`` of a class's and its bases' docstrings say, in Markdown."""
    entries = []
    for base in reversed(of.__mro__):
        section = cleandoc(vars(base).get("__doc__") or "").partition("Attributes:\n")[2]
        entries += re.findall(r"^ {2}(\w+): (.*(?:\n {3,}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()).replace("``", "`") for name, text in entries}


def policies(name: str) -> str:
    """The rules of a system."""
    infos = registry.get(name).policies.items()
    rows = [(f"`{policy}`", info.kind, info.description, info.knows) for policy, info in infos]
    return table(("rule", "kind", "what it does", "what it knows"), rows)


def metrics(name: str) -> str:
    """Its metrics, the one that policies are chosen by first."""
    system = registry.get(name)
    rows = [
        (f"`{key}`", metric.definition, metric.unit, metric.better)
        for key, metric in ((key, functions.metric(system, key)) for key in system.metrics.shown)
    ]
    words = f"Policies are chosen and judged by `{system.metrics.primary}`.\n\n"
    return words + table(("metric", "definition", "unit", "better"), rows)


def traces(name: str) -> str:
    """Its named job tables."""
    named = registry.get(name).jobs.workload.traces
    rows = [(f"`{t.name}`", t.description, "drawn" if t.seeded else "shipped") for t in named]
    return table(("trace", "what it holds", ""), rows)


def presets(name: str) -> str:
    """Its recipes: what each is for, how long it took, budget of one seed, traces."""
    system = registry.get(name)
    rows = []
    for key, recipe in recipes.all_recipes(system).items():
        sets = recipes.recipe_traces(system, recipe)
        info, steps = recipes.preset_info(system, key), f"{budget(recipe):,}"
        words = (info.purpose, info.takes or "not timed")
        rows.append((f"`{key}`", *words, steps, f"`{sets.train}`", f"`{sets.test}`"))
    heads = ("preset", "what it is for", "one training took", "environment steps")
    found = table((*heads, "trained on", "tested on"), rows)
    sizes = [f"`NAME-{size}` ({sized.cluster})" for size, sized in system.recipes.sizes.items()]
    if sizes:
        found += f"\n\nThe same for other clusters: {', '.join(sizes)}.\n"
    return found


def results(name: str) -> str:
    """Claim and first comparison of the page of results."""
    text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    pattern = r"^## (Learned against [^\n]*)\n\n(.*?\n\n\|.*?)\n\n"
    first = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    if first is None:
        raise ValueError(f"docs/results/{name}.md has no comparison")
    return f"*{first[1]}.* {first[2]}\n"


TABLES: dict[str, Callable[[str], str]] = {
    made.__name__: made
    for made in (observation, actions, options, policies, metrics, traces, presets, results)
}
