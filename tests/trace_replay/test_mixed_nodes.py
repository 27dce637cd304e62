"""Servers of different sizes: RLTune's published environment, and a plain event loop."""

import json
from pathlib import Path

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import COMMITTED, POLICIES, Cluster, Policy, replay, replay_batch
from jaxsched.trace_replay.policies import COMMITTING, PLACEMENTS
from tests.trace_replay.cases import expected, found, jobs_of, random_columns, with_estimates
from tests.trace_replay.committed import committed_starts

WINDOWS = json.loads(
    (Path(__file__).parents[1] / "golden" / "mixed_nodes" / "windows.json").read_text()
)
PHILLY = Cluster.of("16x2:4,20x8")
TABLES = [{name: window[name] for name in ("submit_time", "num_gpus", "duration")}
          for window in WINDOWS]  # fmt: skip


@pytest.mark.parametrize("name", COMMITTED)
def test_rltune(name):
    """The start of every job as RLTune's environment gives it."""
    played = replay_batch(TABLES, PHILLY, COMMITTED[name])
    for window, records in zip(WINDOWS, played, strict=True):
        golden = window["policies"][name]
        np.testing.assert_array_equal(records.start, golden["start_time"])
        slowdown = np.maximum(records.jct / np.maximum(records.duration, 10), 1).mean()
        assert slowdown == pytest.approx(golden["mean_bounded_slowdown"], rel=1e-9)
