"""DL2's published simulator: golden cases, and random tables against plain Python loops."""

import jax
import numpy as np
import pytest

from jaxsched.elastic.jobs import DL2_JOBS
from jaxsched.envs.dl2.heuristics.published import PUBLISHED
from jaxsched.envs.dl2.jobs import published_tables
from jaxsched.envs.dl2.show.log import read_case
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
from jaxsched.systems import golden, registry
from tests.envs.dl2.rules.artefact_oracle import Simulator
from tests.envs.dl2.show.test_golden import as_expected, simulate
from tests.golden_check import differences, golden_files, load

FILES = golden_files("dl2_artefact")
TRACES = [path for path in FILES if path.stem.startswith("trace")]
ACTIONS = [path for path in FILES if path.stem.startswith("actions")]
COARSE, FINE = ("avg_jct_coarse", "makespan_coarse", "slots"), 1e-4  # slots, in single precision
SMALL = {"num_servers": 5, "max_workers": 3, "max_ps": 2, "J": 3}
CONFIGS = {
    "all of it": {},
    "tasks on all that fit": {"placement": "least_loaded", "bundle_servers": "any"},
    "batches": {"rows": "batches", "J": 2, "assign_bundle": False},
    "masked": {"misfit": "mask"},
    "masked batches, bundles apart": {
        "misfit": "mask", "rows": "batches", "J": 2, "bundle_servers": "any",
    },
    "masked, on all that fit": {"misfit": "mask", "placement": "least_loaded"},
}  # fmt: skip
SLOW = ("batches", "masked batches, bundles apart", "masked, on all that fit")


def test_every_file_is_used():
    assert len(TRACES) == 5
    assert len(ACTIONS) == 4


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_case(path):
    case = load(path)
    found = as_expected(simulate(case), case["expect"])
    assert differences(case["expect"], found, 1e-9, {"jct_fine": 1e-9}) == []


@pytest.fixture(scope="module")
def single():
    """All heuristics on the five sequences in single precision: results by sequence and name."""
    found = []
    for path in TRACES:
        episodes = read_case(load(path))
        assert {episode.params.jobs.epochs.dtype.name for episode in episodes.values()} == {
            "float32"
        }
        found.append(golden.result(registry.get("dl2"), episodes))
    return found


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_single_precision_agrees(single, path):
    for name, expect in load(path)["expect"].items():
        found = single[TRACES.index(path)][name]
        for metric, value in expect["metrics"].items():
            exact = metric in COARSE
            assert found["metrics"][metric] == pytest.approx(value, abs=1e-5 if exact else FINE)
        for key, values in expect.get("per_job", {}).items():
            atol = 0 if key == "jct_coarse" else FINE
            np.testing.assert_allclose(found["per_job"][key], values, rtol=0, atol=atol)


def test_the_shipped_sequences_are_those_of_the_cases():
    for table, path in zip(published_tables(), TRACES, strict=True):
        jobs = from_records(load(path)["jobs"], schema=DL2_JOBS)
        for column in ("submit_time", "model", "epochs"):
            np.testing.assert_array_equal(table[column], jobs[column])


def jobs_for(seed, count=7):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(500, 12_000, count)
    slots = np.cumsum(rng.choice([0, 0, 1, 4], count))
    return [
        {"submit_time": int(1200 * slot), "model": int(model), "epochs": float(epochs)}
        for slot, model, epochs in zip(slots, rng.integers(0, 8, count), lengths, strict=True)
    ]


def chooser(seed):
    """Uniform over what the mask allows, now and then anything."""
    rng = np.random.default_rng(seed)

    def choose(mask):
        if rng.random() < 0.05:
            return int(rng.choice([-1, len(mask), 10**6, *range(len(mask) - 1)]))
        legal = np.flatnonzero(mask[:-1])
        return int(rng.choice(legal)) if legal.size and rng.random() < 0.95 else len(mask) - 1

    return choose


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CONFIGS],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_random_play(name, seed):
    config = SMALL | CONFIGS[name]
    jobs = jobs_for(seed)
    oracle = Simulator(config, jobs)
    trajectory = oracle.play(chooser(seed))
    case = {"config": {"preset": "artefact", **config}, "jobs": jobs}
    case["actions"] = [row["action"] for row in trajectory]
    expect = {
        "trajectory": trajectory,
        "final": {
            "jct_coarse": [job["coarse"] for job in oracle.jobs],
            "jct_fine": [job["fine"] for job in oracle.jobs],
        },
    }
    assert len(trajectory) > 20 and trajectory[-1]["done"]
    assert differences(expect, simulate(case), 1e-9, {"reward": 1e-12, "obs": 1e-12}) == []


@pytest.mark.parametrize("seed", [2, 3])
def test_heuristics_on_random_tables(seed):
    jobs = jobs_for(seed, 9)
    found = simulate({"config": {"preset": "artefact", **SMALL}, "jobs": jobs})
    for name in PUBLISHED:
        oracle = Simulator(SMALL, jobs)
        slots = oracle.run(name.removesuffix("_artefact"))
        assert found[name]["alloc_first_slots"] == slots[:25], name
        fine = [job["fine"] for job in oracle.jobs]
        assert found[name]["per_job"]["jct_fine"] == pytest.approx(fine, abs=1e-9), name


def test_oracle_is_not_the_library():
    """A different rule gives different results: the comparison can fail."""
    one, other = (Simulator(SMALL | config, jobs_for(2)) for config in ({}, {"max_ps": 1}))
    assert one.run("drf") != other.run("drf")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"preset": "paper"}, "preset is 'paper'; accepted: artefact"),
        ({"preset": "artefact", "misfit": "skip"}, "misfit is 'skip'; accepted: mask, end_slot"),
        ({"preset": "artefact", "max_ps": 33}, "at most 32 workers and PS"),
        ({"preset": "artefact", "comm": "allreduce"}, "accepted: "),
        ({"preset": "artefact", "cpus_per_server": 4}, "cannot run one worker and one"),
    ],
    ids=str,
)
def test_bad_cases_are_refused(config, message):
    case = {"config": config, "jobs": [{"submit_time": 0, "model": 0, "epochs": 9.0}]}
    with pytest.raises(JaxschedError, match=message) as refusal:
        simulate(case)
    assert "\n" not in str(refusal.value)
    assert not jax.config.jax_enable_x64
