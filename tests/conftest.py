"""Fixtures and settings of the whole suite."""

import gc
import json
import os
import shutil
import sys
from collections.abc import Generator, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import turns
from tests.extended import is_extended, is_repeated, is_wholly_extended
from tests.optimising import optimising

_TESTS = Path(__file__).resolve().parent
_CACHE = _TESTS.parent / ".cache" / "jax"

# Before the first import of jax: compiled functions are kept between test runs.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Lines of source in compiled programs: nobody reads them here, and gathering them takes time.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
os.environ.setdefault("JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS", "0")
# Most of the suite's time is compiling, and XLA compiles twice as fast when it optimises less.
# Modules marked ``optimised`` are optimised as users' programs are; so is all in ``make test-all``.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# XLA's newer code generator for fusions takes twice as long as the one before it, which jaxlib 0.10
# is the last to have.
if version("jaxlib").startswith("0.10.") and os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1":
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")
# Tracing makes millions of small objects; looking for cycles among them every 700 takes 5 %.
gc.set_threshold(100_000, 20, 100)


# Properties meet the same examples in every run, however slow the machine is. Fresh ones, whose
# seed is printed: `make test-properties` (--hypothesis-profile=fresh).
settings.register_profile(
    "same",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.function_scoped_fixture),
)
settings.register_profile("fresh", settings.get_profile("same"), derandomize=False, print_blob=True)
settings.load_profile("same")


@pytest.fixture(scope="session", autouse=True)
def one_device() -> None:
    """Have JAX find its devices before a command makes more of them from the cores."""
    import jax

    jax.devices()


def find_chromium() -> str | None:
    """Path of a Chromium or Chrome, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


@pytest.fixture(scope="module", autouse=True)
def optimisations(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let XLA optimise in modules marked ``optimised``, and only there."""
    if request.node.get_closest_marker("optimised") is None:
        yield
        return
    with optimising():
        yield


@pytest.fixture(scope="module", autouse=True)
def release_compiled_programs(optimisations: None) -> Iterator[None]:
    """Forget what a module compiled.

    Every compiled program maps memory, and Linux lets a process have 65,530 mappings by default;
    beyond that XLA crashes. The cache on disk makes compiling again cheap.
    """
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
        gc.collect()


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the browser, for tests marked ``browser``."""
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium found (Debian: apt-get install chromium)")
    return path


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of what CI runs beside the default suite."""
    text = "with extended and slow tests whose turn it is today (tests/turns.py), and no others"
    parser.addoption("--turn", action="store_true", help=text)
    text = "add a line for each test to this file: its name, its mark, processor seconds"
    parser.addoption("--seconds", metavar="FILE", help=text)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which tests have their turn."""
    return f"turn: {turns.today()}" if config.getoption("--turn") else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure a test with what it prepares, for ``turns.py``; its own processes included."""
    file = item.config.getoption("--seconds")
    if file is None:
        return (yield)
    before = os.times()
    done = yield
    marks = [mark for mark in ("slow", "extended") if item.get_closest_marker(mark)]
    line = [item.nodeid, [*marks, "default"][0], sum(os.times()[:4]) - sum(before[:4])]
    with open(file, "a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")
    return done


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave modules alone of which no test is asked for; importing them takes its time."""
    if not (collection_path.name.startswith("test_") and collection_path.is_relative_to(_TESTS)):
        return None
    name = collection_path.relative_to(_TESTS.parent).as_posix()
    default = "slow or extended" not in config.option.markexpr and not is_wholly_extended(name)
    if config.getoption("--turn"):
        left_out = not default and name not in turns.today().modules()
    else:
        left_out = "not extended" in config.option.markexpr and not default
    return True if left_out else None


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark extended tests and those that repeat others; skip those of the browser without one."""
    skip = pytest.mark.skip(reason="no Chromium found (Debian: apt-get install chromium)")
    browser = find_chromium() is not None
    for item in items:
        if is_extended(item.nodeid):
            item.add_marker("extended")
        if is_repeated(item.nodeid):
            item.add_marker("slow")
        if item.get_closest_marker("browser") and not browser:
            item.add_marker(skip)
    if config.getoption("--turn"):
        _keep_turn(config, items)


def _keep_turn(config: pytest.Config, items: list[pytest.Item]) -> None:
    turn, others = turns.today(), []
    for item in list(items):
        slow, extended = map(item.get_closest_marker, ("slow", "extended"))
        chosen = turn.slow if slow else turn.extended
        if (slow or extended) and turns.unit_of(item.nodeid) not in chosen:
            items.remove(item)
            others.append(item)
    config.hook.pytest_deselected(items=others)


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later search for cycles: a third of a second each."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the time per folder, so that one sees where a growing suite grows."""
    seconds: dict[str, float] = {}
    tests: dict[str, int] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = Path(report.nodeid.split("::")[0])
                folder = str(file.parent)
                seconds[folder] = seconds.get(folder, 0.0) + report.duration
                tests[folder] = tests.get(folder, 0) + (report.when == "call")
    if len(seconds) < 2:
        return
    terminalreporter.section("time per folder, all workers together")
    for folder in sorted(seconds, key=seconds.__getitem__, reverse=True):
        line = f"{seconds[folder]:8.1f} s  {tests[folder]:5d} tests  {folder}"
        terminalreporter.write_line(line)
    terminalreporter.write_line(f"{sum(seconds.values()):8.1f} s  {sum(tests.values()):5d} tests")
