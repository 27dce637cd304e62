"""Execute the notebooks of the documentation.

python docs/_ext/run_notebooks.py            fails where a cell does
python docs/_ext/run_notebooks.py --write    and keeps their outputs
"""

import argparse
import os
import sys
import time
from pathlib import Path

import nbformat
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"
ROOT = FOLDER.parents[1]


def main() -> None:
    """Execute each notebook in a fresh kernel, from the checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the outputs in the notebook")
    arguments = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    for path in sorted(FOLDER.glob("*.ipynb")):
        begin = time.monotonic()
        notebook = nbformat.read(path, as_version=4)
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc")  # no open port
        NotebookClient(notebook, km=kernel, timeout=300).execute()
        print(f"{path.name}: executed in {time.monotonic() - begin:.0f} s", file=sys.stderr)
        if arguments.write:
            nbformat.write(tidy(notebook), path)


def tidy(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Without times of execution and what stands on standard error, which differ between runs."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata.pop("widgets", None)
    return notebook


if __name__ == "__main__":
    main()
