"""The layout that packaging relies on."""

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import jaxsched
from tests.extended import EXTENDED, KEPT, ONCE, REPEATED, is_extended, is_repeated

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "jaxsched"
MIB = 2**20
LOWEST = ("adapters", "onnx", "serve")  # extras that the lowest versions are about


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins(file: Path) -> dict[str, str]:
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9.-]+==[0-9][0-9a-z.]*", line) for line in lines), file
    return dict(line.split("==") for line in lines)


def test_versions_agree():
    assert re.fullmatch(r"\d+\.\d+\.\d+", jaxsched.__version__)
    assert f"version: {jaxsched.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {jaxsched.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    try:
        installed = metadata.version("jaxsched")
    except metadata.PackageNotFoundError:
        return  # run from a bare checkout
    assert installed == jaxsched.__version__


def test_extended_tests_are_there():
    """A name that no longer fits would bring its tests into the default suite."""
    for names in (EXTENDED, KEPT, REPEATED, ONCE):
        assert list(names) == sorted(names)
        for name in names:
            path, _, test = name.partition("::")
            assert (ROOT / "tests" / path).exists(), name
            function = test.partition("[")[0]
            assert f"def {function}(" in (ROOT / "tests" / path).read_text() if test else True, name


def test_names_of_extended_tests():
    assert is_extended("tests/serve/test_any.py::test_it[case]")
    assert not is_extended("tests/server/test_any.py::test_it")
    assert not is_extended("tests/test_packaging.py::test_names_of_extended_tests")


def test_what_repeats_others_leaves_them():
    """A repeated case is extended, and another case of the test, or another test, is not slow."""
    replays = "tests/trace_replay/test_oracle.py::test_jobs_of_philly"
    assert is_repeated(f"{replays}[fifo]") and not is_repeated(f"{replays}[las]")
    default = "tests/envs/dl2/show/test_golden.py::test_single_precision_agrees[gap_between_jobs]"
    assert not is_extended(default) and not is_repeated(default)
    for name in (*REPEATED, *ONCE):
        assert any(name.startswith(entry) or entry.startswith(name) for entry in EXTENDED), name
    for name in ONCE:
        assert name.partition("[")[0] in REPEATED, name


@pytest.mark.parametrize("name", ["envs", "algorithms", "traces"])
def test_rooms_are_relative_links_into_the_package(name):
    link = ROOT / name
    if not link.is_symlink():
        pytest.skip("unpacked without links; they are for people")
    assert os.readlink(link) == f"jaxsched/{name}"
    assert link.resolve() == PACKAGE / name


def test_every_folder_with_code_is_a_package():
    folders = {file.parent for file in PACKAGE.rglob("*.py")}
    assert [str(f.relative_to(ROOT)) for f in folders if not (f / "__init__.py").exists()] == []
    assert (PACKAGE / "py.typed").exists()


def test_every_data_file_goes_into_the_wheel():
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    found = {
        file
        for package, patterns in packaged["package-data"].items()
        for init in PACKAGE.rglob("__init__.py")
        if package in ("*", ".".join(init.parent.relative_to(ROOT).parts))
        for pattern in patterns
        for file in init.parent.glob(pattern)
    }
    data = {f for f in PACKAGE.rglob("*") if f.is_file() and "__pycache__" not in f.parts}
    assert {f for f in data if f.suffix != ".py"} - found == set()


def test_constraints_pin_every_dependency():
    extras = project()["optional-dependencies"]
    for file in (ROOT / "constraints").glob("py3*.txt"):
        pinned = pins(file)
        own = [name for name in extras["dev"] if name.startswith("jaxsched[")]
        chosen = [extras[name.partition("[")[2].rstrip("]")] for name in own]
        others = [name for name in extras["dev"] if name not in own]
        for requirement in [*project()["dependencies"], *others, *sum(chosen, []), *extras["docs"]]:
            name = re.match(r"[A-Za-z0-9-]+", requirement)
            assert name and name.group().lower() in pinned, (file.name, requirement)


def test_the_lowest_versions_are_those_that_are_allowed():
    """CI's tests with them say something about the bounds only while both agree."""
    pinned = pins(ROOT / "constraints" / "lowest.txt")
    extras = project()["optional-dependencies"]
    testing = [name for name in extras["dev"] if name.startswith(("hypothesis", "json", "pytest"))]
    for text in [*project()["dependencies"], *sum((extras[n] for n in LOWEST), []), *testing]:
        requirement = Requirement(text)
        for bound in requirement.specifier:
            if bound.operator == ">=":
                assert Version(bound.version) == Version(pinned.pop(requirement.name)), text
    assert set(pinned) == {"jaxlib"} and pinned["jaxlib"].startswith("0.10.")


def test_the_package_itself_is_light_to_import():
    code = "import sys, jaxsched; sys.exit('jax' in sys.modules or not jaxsched.__version__)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_public_names_load_on_first_use():
    for name in jaxsched.__all__:
        assert getattr(jaxsched, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = jaxsched.nonsense


def test_a_checkout_stays_small():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("no checkout of git")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    sizes = {path: path.lstat().st_size for path in files if path.exists()}
    results = ROOT / "benchmarks" / "results"
    kept = sum(size for path, size in sizes.items() if path.is_relative_to(results))
    assert kept <= 8 * MIB, "run python -m benchmarks.pack"
    assert sum(sizes.values()) <= 20 * MIB
