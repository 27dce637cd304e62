"""Former spellings of names and options, accepted for one version. Importing it imports no JAX."""

from collections.abc import Callable, Iterable, Mapping

Tell = Callable[[str], object]


def _silent(line: str) -> None:
    del line


RENAMED: dict[str, dict[str, str]] = {
    "policy": {},
    "option": {},
    "setting": {f"{of}.window_s": f"{of}.return_span_s" for of in ("learner", "ppo")},
    "network": {},
}
"""Old spellings on the command line and the present ones: names of policies, of options before the
``=`` of ``--option``, dotted paths before that of ``--set``, and kinds of networks. Old names of
environment options and networks are ``Environment.former_options`` and
``Networks.aliases``."""


def present_name(
    kind: str, name: str, renamed: Mapping[str, str] | None = None, tell: Tell = _silent
) -> str:
    """The present spelling of a name.

    Args:
      kind: a key of ``RENAMED``.
      name: as it was typed.
      renamed: old spellings of a system's own and the present ones.
      tell: called with a line for an old spelling.
    """
    present = (RENAMED[kind] | dict(renamed or {})).get(name)
    if present is None:
        return name
    tell(f"the {kind} {name!r} is now spelt {present!r}")
    return present


def present_assignments(
    kind: str,
    assignments: Iterable[str] | None,
    renamed: Mapping[str, str] | None = None,
    tell: Tell = _silent,
) -> list[str]:
    """``name=value`` each, with present names; see ``present_name``."""
    parts = (assignment.partition("=") for assignment in assignments or ())
    return [
        f"{present_name(kind, name, renamed, tell)}{sign}{value}" for name, sign, value in parts
    ]


def present_settings(
    assignments: Iterable[str] | None,
    options: Mapping[str, str],
    networks: Mapping[str, str],
    tell: Tell = _silent,
) -> list[str]:
    """Changes of a recipe or an environment in present spelling.

    Args:
      assignments: ``path=value`` each.
      options: of the system's environment, old names and present ones.
      networks: kinds of the system's networks, old names and present ones.
      tell: called with a line for an old spelling.
    """
    paths = {f"env.{old}": f"env.{present}" for old, present in options.items()}
    present = present_assignments("setting", assignments, paths, tell)
    return [_present_network(assignment, networks, tell) for assignment in present]


def _present_network(assignment: str, networks: Mapping[str, str], tell: Tell) -> str:
    path, sign, kind = assignment.partition("=")
    if path.strip() != "network":
        return assignment
    return f"{path}{sign}{present_name('network', kind.strip(), networks, tell)}"
