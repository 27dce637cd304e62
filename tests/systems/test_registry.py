"""Systems by name, from outside the package too, and the defaults of a small one."""

import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.systems import registry
from jaxsched.systems.base import PolicyInfo, System
from jaxsched.systems.figures import Figures
from jaxsched.traces import registry as traces
from jaxsched.traces.mapping import MappingConfig
from jaxsched.types import DiscreteSpec, action_names
from tests.probes import Probe

OWN = ("sched2", "dl2", "chic", "das", "mlfs")


class Two(Probe):
    """A probe whose number of actions does not depend on its parameters."""

    def action_spec(self, params):
        return DiscreteSpec(2)


class Small(System[Any, Any, Any]):
    """A system with nothing but what is required."""

    name = "small"
    environment_type = Two
    primary_metric = "avg_jct"
    policies: Mapping[str, PolicyInfo] = {}


SMALL = Small()


@pytest.fixture
def registered():
    registry.register(SMALL)
    yield SMALL
    registry.unregister("small")


def offer(monkeypatch, **values: str) -> None:
    """Pretend that packages offer these entry points."""
    found = {name: EntryPoint(name, value, "jaxsched.systems") for name, value in values.items()}
    monkeypatch.setattr(registry, "_offered", lambda: found)
    registry._load.cache_clear()


def test_own_systems_come_first(registered):
    assert registry.names() == (*OWN, "small")
    assert registry.get("small") is SMALL
    assert [system.name for system in map(registry.get, OWN)] == list(OWN)
    registry.unregister("small")
    assert registry.names() == OWN
    with pytest.raises(JaxschedError, match="unknown system 'small'; known are sched2, dl2, chic"):
        registry.get("small")


def test_a_name_belongs_to_one_system(registered):
    registry.register(SMALL)  # the same one again changes nothing
    for other in (Small(), type("Own", (Small,), {"name": "das"})()):
        with pytest.raises(JaxschedError, match=f"there is a system '{other.name}' already"):
            registry.register(other)
    with pytest.raises(JaxschedError, match="found str; accepted: a System"):
        registry.register("sched2")


@pytest.mark.parametrize(
    ("word", "present"),
    [
        ("features", r"Environment\.features\(\)"),
        ("action_names", "the names of the action spec"),
        ("renamed_options", r"Environment\.former_options"),
    ],
)
def test_what_the_environment_tells_today_is_refused_of_a_system(word, present):
    own = type("Own", (Small,), {"name": "own", word: {}})()
    with pytest.raises(JaxschedError, match=f"system 'own': has '{word}'; accepted: {present}"):
        registry.register(own)


def test_packages_offer_systems(monkeypatch):
    module = ModuleType("somebody")
    module.SYSTEM = SMALL  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "somebody", module)
    offer(monkeypatch, small="somebody:SYSTEM", das="nowhere:SYSTEM")
    assert registry.names() == (*OWN, "small")
    assert registry.get("small") is SMALL
    assert registry.get("das").title.startswith("DAS")  # ours, whatever others offer
    assert "sched2-68" in traces.names()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("no_such_module_here:SYSTEM", "cannot be loaded: No module named 'no_such_module_here'"),
        ("jaxsched:__version__", "jaxsched:__version__ is str; accepted: a System of that name"),
        ("jaxsched.envs.das.system:SYSTEM", "is DASSystem; accepted: a System of that name"),
    ],
)
def test_packages_that_offer_something_else_are_refused(monkeypatch, value, says):
    offer(monkeypatch, broken=value)
    with pytest.raises(JaxschedError, match=says):
        registry.get("broken")


@pytest.mark.parametrize("name", OWN)
def test_every_metric_is_described(name):
    system = registry.get(name)
    assert system.primary_metric in system.metrics
    for metric in map(system.metric, system.metrics):
        assert metric.label and metric.definition
        assert metric.digits >= 0
    assert set(system.own_metrics) <= set(system.metrics)


@pytest.mark.parametrize("name", OWN)
def test_the_best_rule_known_is_in_every_usual_comparison(name):
    system = registry.get(name)
    assert system.best_rule in system.policy_names("reference", "baseline")


def test_each_trace_and_schema_has_one_owner():
    names = traces.names()
    assert len(set(names)) == len(names)
    schemas = [kind.schema for workload in registry.workloads() for kind in workload.jobs]
    assert len(set(schemas)) == len(schemas) == 4


def test_a_small_system_has_defaults():
    env = SMALL.environment()
    assert SMALL.behaviour_version == Two.behaviour_version
    assert SMALL.figures == Figures()
    assert SMALL.claims(env, {}, "dqn") == []
    assert SMALL.mapping(env, mean_gap_s=5.0, load=None) == MappingConfig(mean_gap_s=5.0)
    with pytest.raises(JaxschedError, match="no cluster is told"):
        SMALL.mapping(env, mean_gap_s=None, load=0.5)
    assert SMALL.adapt([table := JobTable({"submit_time": [0]})]) == [table]
    assert action_names(env.action_spec(None)) == ("action0", "action1")
    assert env.features() == {}
    assert SMALL.preset("quick").env == env
    assert SMALL.budget(SMALL.preset("quick")) == 64 * 8 * 4000
    assert SMALL.preset("quick") == SMALL.preset("plain-dqn")
    for call, says in (
        (lambda: SMALL.simulate({}), "small: runs no cases"),
        (lambda: SMALL.traces, "small: has no named traces; name a file of job tables"),
        (lambda: SMALL.heuristic("fifo", env, 1, {}), "small: unknown policy 'fifo'"),
        (lambda: SMALL.heuristic("fifo", env, 1, {"x": 1}), "heuristics have no option 'x'"),
        (lambda: SMALL.preset("paper"), "small: unknown preset 'paper'; known are quick"),
        (lambda: SMALL.environment(size=3), "small: unknown environment option 'size'"),
        (lambda: SMALL.network(env, "deep"), "unknown network 'deep'"),
    ):
        with pytest.raises(JaxschedError, match=says):
            call()
