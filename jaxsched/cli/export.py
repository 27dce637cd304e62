"""``jaxsched export``: the hand-over of policies and environments."""

from pathlib import Path
from typing import Annotated

import typer

from jaxsched.cli.options import LARGEST_SEED
from jaxsched.cli.output import console
from jaxsched.errors import JaxschedError


def export(
    source: Annotated[
        str,
        typer.Argument(help="Run directory or policies/seedN folder; with --policy a system."),
    ],
    format: Annotated[
        list[str] | None,
        typer.Option(help="safetensors (always), onnx, stablehlo; with commas, or repeat."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; SOURCE/export.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="Of the system SOURCE: pretrained, a rule with weights, or a folder."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=LARGEST_SEED, help="Which seed's policy; the best one.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an export that is there.")] = False,
) -> None:
    """Write a trained policy for programs that know no JAX."""
    from jaxsched.export import saved

    formats = format or ["safetensors"]
    if policy is None:
        folder = saved.export_saved(
            source, out or Path(source) / "export", format=formats, seed=seed, overwrite=overwrite
        )
    else:
        if out is None:
            raise JaxschedError("--policy needs a folder to write: --out DIR")
        if seed is not None:
            raise JaxschedError("--seed is of a run's policies; it does not go with --policy")
        folder = saved.export_named(source, policy, out, format=formats, overwrite=overwrite)
    names = ", ".join(sorted(path.name for path in folder.iterdir()))
    console().print(f"policy written to {folder} ({names})")
