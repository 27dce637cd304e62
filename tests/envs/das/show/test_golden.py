"""Golden cases of DAS: fixed job tables with the results of an independent simulator."""

import copy
from functools import cache

import numpy as np
import pytest

from jaxsched.envs.das import DAS
from jaxsched.envs.das import show as cases
from jaxsched.envs.das.jobs import das_stream
from jaxsched.errors import JaxschedError
from jaxsched.systems import golden, registry
from jaxsched.systems.case_files import in_layout
from tests.golden_check import differences, golden_files, load

FILES = golden_files("das")
KIND = {path: load(path)["kind"] for path in FILES}
PLAYED = [path for path in FILES if KIND[path] in ("episode", "surrogate")]
REFUSED = [path for path in FILES if KIND[path] == "load_error"]
(SEGMENTS,) = (path for path in FILES if KIND[path] == "table_results")
SEGMENT = 1  # the shortest


def name_of(path):
    return path.stem


def simulate(case):
    return golden.simulate(registry.get("das"), case)


@cache
def result(path):
    return simulate(load(path))


def test_every_kind_is_there():
    assert len(PLAYED) == 14
    assert len(REFUSED) == 1


@pytest.mark.parametrize("path", PLAYED, ids=name_of)
def test_case(path):
    expect = load(path)["expect"]
    assert differences(expect, in_layout(result(path), expect)) == []


@pytest.mark.parametrize("path", REFUSED, ids=name_of)
def test_table_is_refused(path):
    with pytest.raises(JaxschedError, match="job 1") as refusal:
        simulate(load(path))
    assert "accepted" in str(refusal.value)


def test_the_check_notices():
    path = next(path for path in PLAYED if path.stem == "hand_two_machines")
    expect = load(path)["expect"]
    changes = (("metrics", "avg_fee"), 0.171), (("jobs", 1, "machines", 0, 1), 3)
    for (*parents, last), value in changes:
        got = copy.deepcopy(result(path))
        place = got
        for key in parents:
            place = place[key]
        place[last] = value
        assert differences(expect, got)


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param(name, marks=() if name == "small" else pytest.mark.slow)
        for name in cases.CLUSTERS
    ],
)
def test_reference_heuristics(cluster):
    """One 1000-job test episode of the standard workload per cluster, one or two heuristics."""
    case = load(SEGMENTS)
    start = case["segment_starts"][SEGMENT]
    env = DAS(num_servers=cases.CLUSTERS[cluster])
    params = env.params([das_stream()], starts=[start], episode_jobs=case["segment_length"])
    names = ("fifo_loadbalance", "tetris") if cluster == "small" else ("drf_firstfit",)
    for name in names:
        found = cases.play_heuristic(env, name, params)
        for key, values in case["expect"][f"{cluster}/{name}"].items():
            np.testing.assert_allclose(found[key], [values[SEGMENT]], rtol=1e-5, err_msg=key)
