"""What every command has beside its own options: ``--quiet``, ``--config``, a help in groups."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from jaxsched.cli.config_file import expand
from jaxsched.errors import JaxschedError
from jaxsched.runtime import set_quiet


class Command(TyperCommand):
    """A command of typer's with the options that all commands share.

    Its help lists options group by group (typer's ``rich_help_panel``), and examples as they are
    typed, one a line in ``epilog``.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """The command's own parameters, the shared ones, ``--help``."""
        *own, last = super().get_params(ctx)
        return [*own, *_SHARED, last]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What was typed, after what a file of ``--config`` says."""
        try:
            if not ctx.resilient_parsing:
                typed, words, _ = self.make_parser(ctx).parse_args(args=list(args))
                if typed.get("config") is not None:
                    args = expand(self, typed["config"], args, len(words))
            return super().parse_args(ctx, args)
        except Exception as error:
            unknown = str(getattr(error, "option_name", ""))
            if any("--option" in parameter.opts for parameter in self.params):
                _refuse_of_heuristics(unknown)
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options by group; what has no group first."""
        groups: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            argument = parameter.param_type_name == "argument"
            panel = getattr(parameter, "rich_help_panel", None)
            record = (record[0], _DEFAULT_IN_WORDS.sub(r"[default: \1", record[1]))
            title = "Arguments" if argument else panel or _of_all(parameter) or "Options"
            groups.setdefault(title, []).append(record)
        last = groups.pop(EVERYWHERE)
        for title, records in (groups | {EVERYWHERE: last}).items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Examples, line by line."""
        del ctx
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def _refuse_of_heuristics(unknown: str) -> None:
    """Say how an option of some system's heuristics is spelt, if that is what was typed.

    Raises:
      JaxschedError: it is.
    """
    from jaxsched.systems import registry

    name = unknown.removeprefix("--")
    if name and any(name in registry.get(one).options.defaults for one in registry.names()):
        raise JaxschedError(f"{unknown}: accepted: --option {name}=VALUE")


EVERYWHERE = "Of every command"
_DEFAULT_IN_WORDS = re.compile(r"\[default: \(([^()]*)\)")
"""How typer writes a default that is said in words."""


def _of_all(parameter: Any) -> str | None:
    return EVERYWHERE if parameter.name == "help" else None


def _shared(
    config: Annotated[
        Path | None,
        typer.Option(
            help="Take options from this TOML file; typed ones come after them.",
            rich_help_panel=EVERYWHERE,
            expose_value=False,
        ),
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            help="Show neither progress nor tables; errors all the same.",
            rich_help_panel=EVERYWHERE,
            expose_value=False,
            callback=set_quiet,
        ),
    ] = False,
) -> None:
    """The parameters of all commands; never called."""


def _parameters_of_all() -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_shared)
    return list(typer.main.get_command(app).params)


_SHARED = _parameters_of_all()
