"""Job tables at another mean gap or load: one factor for all tables of a set."""

import numpy as np
import pytest

from jaxsched import traces
from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.systems import functions, registry
from jaxsched.traces import MappingConfig, describe_tables
from jaxsched.traces.rescaling import rescale_tables

CLUSTER = {"num_servers": 2, "gpus_per_server": 4}


def table(submit, gpus, duration):
    zeros = np.zeros(len(submit), np.int64)
    return JobTable(
        {"submit_time": submit, "num_gpus": gpus, "duration": duration, "model": zeros}, "hand"
    )


TABLES = [
    table([0, 1000], [1, 2], [1000, 2500]),  # load 6000 / 8000 = 0.75
    table([0, 0, 4000], [4, 4, 8], [1000, 1000, 3000]),  # 32000 / 32000 = 1
    table([0], [8], [9000]),  # has no gap and so no load
]


def times(rescaled):
    return [table["submit_time"].tolist() for table in rescaled.tables]


def test_mean_of_all_gaps():
    rescaled = rescale_tables(TABLES, MappingConfig(**CLUSTER, mean_gap_s=500), "set")
    assert rescaled.scale == pytest.approx(500 / (5000 / 3))
    assert times(rescaled) == [[0, 300], [0, 0, 1200], [0]]


def test_mean_load_of_the_tables():
    rescaled = rescale_tables(TABLES, MappingConfig(**CLUSTER, load=0.7), "set")
    assert rescaled.scale == pytest.approx(0.875 / 0.7)
    assert times(rescaled) == [[0, 1250], [0, 0, 5000], [0]]  # loads 0.6 and 0.8
    assert describe_tables(rescaled.tables, **CLUSTER)["load"] == pytest.approx(0.7)
    larger = rescale_tables(TABLES, MappingConfig(num_servers=4, gpus_per_server=4, load=0.7), "")
    assert larger.scale == pytest.approx(rescaled.scale / 2)


def test_load_of_jobs_that_share_gpus():
    """What counts is the GPU time that they keep busy, as in descriptions."""
    drawn = traces.get("mlfs-small-x1", num_traces=2)
    config = functions.mapping(registry.get("mlfs"), MLFS(), mean_gap_s=None, load=0.5)
    cluster = {"num_servers": config.num_servers, "gpus_per_server": config.gpus_per_server}
    assert abs(describe_tables(drawn, **cluster)["load"] - 0.5) > 0.1
    rescaled = rescale_tables(drawn, config, "set")
    assert describe_tables(rescaled.tables, **cluster)["load"] == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("tables", "config", "says"),
    [
        (TABLES[2:], MappingConfig(**CLUSTER, load=1), "set: all jobs are submitted at once"),
        (TABLES[2:], MappingConfig(mean_gap_s=1), "set: all jobs are submitted at once"),
        (TABLES, MappingConfig(mean_gap_s=1e-6), "set: mean_gap_s is 1e-06, so that all jobs"),
        (TABLES, MappingConfig(mean_gap_s=1e9), "submit_time becomes 2400000000 s"),
    ],
)
def test_what_cannot_be_is_refused(tables, config, says):
    with pytest.raises(JaxschedError, match=says):
        rescale_tables(tables, config, "set")


@pytest.mark.parametrize("name", ["chic-1.80", "dl2-sim"])
def test_elastic_jobs_have_gaps_but_no_load(name):
    drawn = traces.get(name, num_traces=2)
    with pytest.raises(JaxschedError, match="offer no load; accepted: mean_gap"):
        rescale_tables(drawn, MappingConfig(**CLUSTER, load=0.5), name)
    rescaled = rescale_tables(drawn, MappingConfig(mean_gap_s=100), name).tables
    gaps = np.concatenate([np.diff(table["submit_time"]) for table in rescaled])
    assert gaps.mean() == pytest.approx(100, rel=1e-3)
