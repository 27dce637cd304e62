"""``jaxsched serve``."""

import os
from pathlib import Path
from typing import Annotated

import typer

from jaxsched.cli.options import (
    EnvironmentSettings,
    HeuristicOption,
    ServersOption,
    heuristic_options,
)
from jaxsched.cli.output import console
from jaxsched.errors import JaxschedError
from jaxsched.serve import TOKEN

HINT = "needs the extra 'serve': pip install 'jaxsched[serve]'"


def serve(
    policy: Annotated[
        list[str],
        typer.Argument(
            help="[NAME=]POLICY: SYSTEM/pretrained, SYSTEM/RULE, or the folder of a run or "
            "hand-over. Repeat for several."
        ),
    ],
    settings: EnvironmentSettings = None,
    servers: ServersOption = None,
    option: HeuristicOption = None,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8750,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token that requests must bear.", show_default=f"${TOKEN}"),
    ] = None,
    most_bytes: Annotated[
        int, typer.Option(min=1024, max=2**30, help="Longest body of a request.")
    ] = 4 * 2**20,
) -> None:
    """Decide for clusters that programs describe in JSON over HTTP."""
    try:
        from jaxsched.serve.decisions import Wanted
        from jaxsched.serve.run import run
    except ModuleNotFoundError as error:
        raise JaxschedError(f"serve {HINT} ({error.name} is missing)") from None
    token = read_token(token_file)
    from jaxsched.jobs.servers import read_servers

    size = None if servers is None else read_servers(servers, mixed=True, shared=True)
    options = heuristic_options(option)
    wanted = [Wanted(one, tuple(settings or ()), size, options) for one in policy]
    run(wanted, host, port, token, most_bytes, console().print)


def read_token(path: Path | None) -> str:
    """The token of a file or of the environment; empty if there is none.

    Raises:
      JaxschedError: the file cannot be read, or the token is empty or not of visible ASCII.
    """
    if path is None:
        token = os.environ.get(TOKEN, "")
        if not token:
            return ""
    else:
        try:
            token = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise JaxschedError(f"--token-file {path}: cannot be read: {error}") from None
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise JaxschedError("the token is empty or not of visible ASCII characters")
    return token
