"""The cluster of a system's environment: its size, and the load that job tables offer to it."""

import numpy as np
import pytest

from jaxsched import traces
from jaxsched.errors import JaxschedError
from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.sources import resolve
from jaxsched.experiment.splits import sets_of
from jaxsched.jobs.servers import Servers, read_servers
from jaxsched.runs.overrides import change_environment, environment_settings, override
from jaxsched.systems import functions, presets, registry
from jaxsched.traces import MappingConfig, Trace, write_trace
from jaxsched.traces.describe import load_in_words, offered_load

SIZES = {"sched2": 120, "dl2": 26, "chic": 10, "das": 64, "mlfs": 20, "cluster": 32}
NO_LOAD = ("dl2", "chic")  # their jobs run on any number of GPUs


def larger(name):
    """The system with an environment of another size."""
    system = registry.get(name)
    if name == "chic":
        options = {"capacity": [30, 360, 1800]}
    else:
        options = system.environment.of_servers(*Servers(12, 8))
    return system, change_environment(functions.environment(system), environment_settings(options))


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A published trace whose largest job has 16 GPUs."""
    rng = np.random.default_rng(3)
    columns = {
        "submit_time": np.cumsum(rng.integers(1, 900, 80)).astype(float),
        "num_gpus": rng.choice([1.0, 2.0, 4.0, 16.0], 80),
        "duration": rng.integers(300, 20000, 80).astype(float),
    }
    path = tmp_path_factory.mktemp("traces") / "own.parquet"
    write_trace(path, Trace(columns))
    return str(path)


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name):
    system, env = larger(name)
    assert sum(functions.environment(system).server_gpus()) == SIZES[name]
    assert sum(env.server_gpus()) == (30 if name == "chic" else 96)
    assert functions.mapping(system, env, mean_gap_s=None, load=0.5).max_gpus == sum(
        env.server_gpus()
    )


def test_a_pool_has_no_servers():
    with pytest.raises(JaxschedError, match="one pool without servers; accepted: the option env"):
        registry.get("chic").environment.of_servers(*Servers(2, 4))


@pytest.mark.parametrize("name", sorted(set(SIZES) - set(NO_LOAD)))
def test_a_load_is_that_of_the_cluster_in_use(name):
    """Job tables: the tables offer what was asked for, to these GPUs."""
    system, env = larger(name)
    options = TraceOptions(num_traces=1, num_jobs=30, load=0.9)
    for given in (functions.environment(system), env):
        episodes = resolve(functions.traces(system).train, system, options, given)
        episodes = episodes.made_with(options, system, given)
        gpus = sum(given.server_gpus())
        assert offered_load(episodes.tables, gpus) == pytest.approx(0.9, rel=5e-3)
        assert load_in_words(episodes.tables, gpus) == f"0.900 of {gpus} GPUs"
        (note,) = [note for note in episodes.notes if "multiplied" in note]
        assert "for a load of 0.9 on" in note


@pytest.mark.parametrize("name", SIZES)
def test_a_load_of_a_published_trace_is_that_of_the_cluster_in_use(name, published):
    system, env = larger(name)
    found = {}
    for given in (functions.environment(system), env):
        options = TraceOptions(num_traces=1, num_jobs=80, cut=True, load=0.9)
        episodes = resolve(published, system, options, given)
        gpus = sum(given.server_gpus())
        mapping = functions.mapping(system, given, mean_gap_s=None, load=0.9)
        assert mapping.cluster in episodes.summary
        found[gpus] = episodes
        if name not in NO_LOAD:
            assert offered_load(episodes.tables, gpus) == pytest.approx(0.9, rel=0.01)
        (note,) = [note for note in episodes.notes if "multiplied" in note]
        assert f"for a load of 0.9 on {mapping.cluster}" in note
    spans = {gpus: float(e.tables[0]["submit_time"][-1]) for gpus, e in found.items()}
    few, many = sorted(spans)
    assert spans[few] > 1.2 * spans[many]


@pytest.mark.parametrize("name", NO_LOAD)
def test_elastic_jobs_have_no_load_of_their_own(name):
    system = registry.get(name)
    tables = traces.get(functions.traces(system).train, num_traces=1, num_jobs=4)
    assert load_in_words(tables, 10) == ""


@pytest.mark.parametrize("name", sorted(set(SIZES) - set(NO_LOAD)))
def test_trainings_and_presets_take_their_own_cluster(name):
    """Issue 47: with 20 servers, 0.9 had become 0.675."""
    system = registry.get(name)
    recipe = presets.preset(system, "quick")
    size = system.environment.of_servers(*Servers(20, 8))
    recipe = override(recipe, environment_settings(size))
    sets = sets_of(system, recipe, None, None, TraceOptions(0, 2, 30, load=0.9))
    for part in sets:
        assert offered_load(part.tables, 160) == pytest.approx(0.9, rel=5e-3)


def test_das_keeps_the_busy_gpus_of_the_paper(published):
    """Without a load of its own a trace has 45 busy GPUs on every cluster."""
    system, env = larger("das")
    for given in (functions.environment(system), env):
        mapping = functions.mapping(system, given, mean_gap_s=None, load=None)
        assert mapping.load * mapping.max_gpus == pytest.approx(45)


def test_mappings_of_clusters():
    assert MappingConfig.on((8,) * 15) == MappingConfig(num_servers=15)
    assert MappingConfig.on(()) == MappingConfig()
    mixed, pool = MappingConfig.on((8, 4, 4)), MappingConfig.on((10,))
    assert (mixed.max_gpus, mixed.cluster) == (16, "16 GPUs")
    assert (pool.max_gpus, pool.cluster) == (10, "10 GPUs")
    assert MappingConfig.on((0, 0), mean_gap_s=5.0) == MappingConfig(mean_gap_s=5.0)
    with pytest.raises(JaxschedError, match="the cluster has no GPUs"):
        MappingConfig.on((0, 0), load=0.5)


def test_servers_of_differing_sizes_are_counted():
    system = registry.get("mlfs")
    env = functions.environment(system, gpus=(4, 8, 2))
    assert env.server_gpus() == (4, 8, 2)
    assert functions.mapping(system, env, mean_gap_s=None, load=0.5).max_gpus == 14


def test_servers_of_different_sizes():
    servers = read_servers("2x2,3x8", mixed=True)
    mlfs = registry.get("mlfs").environment
    assert mlfs.of_servers(*servers) == {"gpus": (2, 2, 8, 8, 8)}
    with pytest.raises(JaxschedError, match="mlfs: its environment has no servers for small jobs"):
        mlfs.of_servers(*read_servers("2x2:4,3x8", mixed=True))
    with pytest.raises(JaxschedError, match="mlfs: its environment has no types of GPUs; accepted"):
        mlfs.of_servers(*read_servers("2x2@a,3x8@b", mixed=True))
    with pytest.raises(JaxschedError, match="mlfs: its environment has no CPUs and memory by kind"):
        mlfs.of_servers(*read_servers("2x2/9", mixed=True))
    with pytest.raises(JaxschedError, match="sched2: its environment has no servers of different"):
        registry.get("sched2").environment.of_servers(*servers)
