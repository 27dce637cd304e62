"""Systems by name, from outside the package too, and the defaults of a small one."""

import sys
from dataclasses import FrozenInstanceError, fields, replace
from importlib.metadata import EntryPoint
from types import ModuleType

import jax.numpy as jnp
import pytest

from jaxsched.core.policies import uniform_legal
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.systems import functions, golden, presets, registry
from jaxsched.systems.figures import Figures
from jaxsched.systems.stages import budget
from jaxsched.systems.system import System
from jaxsched.traces import registry as traces
from jaxsched.traces.mapping import MappingConfig
from jaxsched.types import DiscreteSpec, action_names
from tests.probes import Probe

OWN = ("sched2", "dl2", "chic", "das", "mlfs", "cluster")


class Two(Probe):
    """A probe whose number of actions does not depend on its parameters."""

    def action_spec(self, params):
        return DiscreteSpec(2)


SMALL = System("small", Two, "avg_jct")
"""A system with nothing but what is required."""


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
    for other in (replace(SMALL), replace(SMALL, name="das")):
        with pytest.raises(JaxschedError, match=f"there is a system '{other.name}' already"):
            registry.register(other)
    for found, words in (("sched2", "str"), (System, "the class System")):
        with pytest.raises(JaxschedError, match=f"found {words}; accepted: a System record"):
            registry.register(found)


def test_a_system_is_a_record_of_few_parts():
    assert len(fields(System)) == 15
    assert [
        name for name in vars(System) if callable(getattr(System, name)) and name[0] != "_"
    ] == []
    with pytest.raises(FrozenInstanceError):
        SMALL.name = "large"
    with pytest.raises(AttributeError, match=r"no 'play'; accepted: .* functions\.play\(system"):
        _ = SMALL.play
    with pytest.raises(TypeError):
        SMALL.policies["fifo"] = None


def test_rules_are_functions_and_policies_too():
    def fifo(env):
        """Oldest job first.

        Whatever it asks for.
        """
        return lambda seen: -jnp.arange(2)

    system = replace(SMALL, policies={"fifo": fifo, "random": uniform_legal()})
    rules = [(rule.kind, rule.description) for rule in system.policies.values()]
    assert rules == [("baseline", "oldest job first"), ("reference", "random")]
    env = functions.environment(system)
    first, again = (functions.heuristic(system, "fifo", env, 1, {}) for _ in range(2))
    assert first.policy is again.policy and first.policy.name == "fifo"
    assert functions.heuristic(system, "random", env, 1, {}).policy.name == "random"


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
        ("jaxsched:__version__", "jaxsched:__version__ is str; accepted: a System record of"),
        ("jaxsched.envs.das.system:SYSTEM", "is the system 'das'; accepted: a System record of"),
    ],
)
def test_packages_that_offer_something_else_are_refused(monkeypatch, value, says):
    offer(monkeypatch, broken=value)
    with pytest.raises(JaxschedError, match=says):
        registry.get("broken")


@pytest.mark.parametrize("name", OWN)
def test_every_metric_is_described(name):
    system = registry.get(name)
    assert system.metrics.primary in system.metrics.shown
    for metric in (functions.metric(system, name) for name in system.metrics.shown):
        assert metric.label and metric.definition
        assert metric.digits >= 0
    assert set(system.metrics.own) <= set(system.metrics.shown)


@pytest.mark.parametrize("name", OWN)
def test_the_best_rule_known_is_in_every_usual_comparison(name):
    system = registry.get(name)
    names = functions.policy_names(system, "reference", "baseline")
    assert functions.best_rule(system, names) in names


def test_each_trace_and_schema_has_one_owner():
    names = traces.names()
    assert len(set(names)) == len(names)
    schemas = [kind.schema for workload in registry.workloads() for kind in workload.jobs]
    assert len(set(schemas)) == len(schemas) == 4


def test_a_small_system_has_defaults():
    env = functions.environment(SMALL)
    assert SMALL.environment.behaviour_version == Two.behaviour_version
    assert SMALL.metrics.figures == Figures()
    assert SMALL.paper.claims(env, {}, "dqn") == []
    assert functions.mapping(SMALL, env, mean_gap_s=5.0, load=None) == MappingConfig(mean_gap_s=5.0)
    with pytest.raises(JaxschedError, match="no cluster is told"):
        functions.mapping(SMALL, env, mean_gap_s=None, load=0.5)
    assert SMALL.jobs.adapted([table := JobTable({"submit_time": [0]})]) == [table]
    assert action_names(env.action_spec(None)) == ("action0", "action1")
    assert env.features() == {}
    assert presets.preset(SMALL, "quick").env == env
    assert budget(presets.preset(SMALL, "quick")) == 64 * 8 * 4000
    assert presets.preset(SMALL, "quick") == presets.preset(SMALL, "plain-dqn")
    for call, says in (
        (lambda: golden.simulate(SMALL, {}), "small: runs no cases"),
        (lambda: functions.traces(SMALL), "small: has no named traces; name a file of job tables"),
        (lambda: functions.heuristic(SMALL, "fifo", env, 1, {}), "small: unknown policy 'fifo'"),
        (
            lambda: functions.heuristic(SMALL, "fifo", env, 1, {"x": 1}),
            "heuristics have no option 'x'",
        ),
        (lambda: presets.preset(SMALL, "paper"), "small: unknown preset 'paper'; known are quick"),
        (lambda: functions.environment(SMALL, size=3), "small: unknown environment option 'size'"),
        (lambda: functions.network(SMALL, env, "deep"), "unknown network 'deep'"),
    ):
        with pytest.raises(JaxschedError, match=says):
            call()
