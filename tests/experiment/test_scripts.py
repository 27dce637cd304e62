"""Scripts and pages that are to need ``import jaxsched`` alone; the scripts run as they stand."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples" / "from_python").glob("*.py"))
ALONE = [*SCRIPTS, ROOT / "examples" / "train_sched2.py"]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
QUICK = ("own_policy", "look", "with_gymnasium", "larger_cluster")
"""Extended; the others train for a minute and are slow. Their calls are in test_front_door.py."""
SUITES = ("XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS")
"""How the suite compiles; the scripts are run as users run them."""
MARKS = (pytest.mark.slow, pytest.mark.extended)


def code_of(notebook: Path) -> str:
    """All of its code."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def deeper(code: str) -> list[str]:
    """Modules of the package that are imported, adapters of other libraries aside."""
    found = []
    for node in ast.walk(ast.parse(code)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found += [name for name in names if name.startswith("jaxsched.")]
    return [name for name in found if not name.startswith("jaxsched.adapters.")]


@pytest.mark.parametrize("path", [*ALONE, *NOTEBOOKS], ids=lambda path: path.stem)
def test_one_import_is_enough(path):
    code = code_of(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")
    assert deeper(code) == [] and "import jaxsched" in code


def test_a_deeper_import_is_seen():
    assert deeper("from jaxsched.systems import registry\nimport jaxsched.core.training") == [
        "jaxsched.systems.registry",
        "jaxsched.core.training",
    ]


def test_each_script_is_listed():
    listed = (ROOT / "examples" / "from_python" / "README.md").read_text(encoding="utf-8")
    assert SCRIPTS and all(f"({path.name})" in listed for path in SCRIPTS)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=MARKS[path.stem in QUICK]) for path in SCRIPTS],
)
def test_scripts_run_as_they_stand(path, tmp_path):
    pytest.importorskip("pandas")
    if path.stem == "with_gymnasium":
        pytest.importorskip("gymnasium")
    inherited = {key: value for key, value in os.environ.items() if key not in SUITES}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(path)],
        cwd=tmp_path,
        env={**inherited, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
