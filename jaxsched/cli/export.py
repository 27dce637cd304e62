"""``jaxsched export``: the hand-over of a trained policy."""

from pathlib import Path
from typing import Annotated

import typer

from jaxsched.cli.options import LARGEST_SEED
from jaxsched.cli.output import console


def export(
    checkpoint: Annotated[Path, typer.Argument(help="Run directory or policies/seedN folder.")],
    format: Annotated[str, typer.Option(help="safetensors.")] = "safetensors",
    out: Annotated[Path | None, typer.Option(help="Folder to write; CHECKPOINT/export.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=LARGEST_SEED, help="Which seed's policy; the best one.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an export that is there.")] = False,
) -> None:
    """Write a trained policy for programs that know no JAX."""
    from jaxsched.export.saved import export_saved

    folder = export_saved(
        checkpoint, out or checkpoint / "export", format=format, seed=seed, overwrite=overwrite
    )
    console().print(f"policy written to {folder} (manifest.json, policy.safetensors)")
