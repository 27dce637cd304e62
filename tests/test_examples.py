"""The example of a new environment: its rules, and the ordinary commands on it from outside."""

import ast
import itertools
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.cli import main
from jaxsched.jobs import RIGID_JOBS, JobTable, from_records
from jaxsched.systems import functions
from jaxsched.traces import describe_tables, load_tables, write_tables
from tests.example_system import EXAMPLES, registered

TINY = (
    *("--set", "loop.num_envs=8", "--set", "loop.num_updates=4"),
    *("--set", "learner.learning_starts=32", "--set", "learner.capacity=256"),
    *("--set", "network=mlp-16", "--set", "evaluate_every=2", "--set", "checkpoint_every=2"),
    *("--num-traces", "3", "--num-jobs", "12"),
)


def drawn(example, *sizes):
    return example.JOBS.workload.traces[0].make(*sizes)


@pytest.fixture(scope="module")
def example():
    """The example's module, its system registered."""
    with registered() as module:
        yield module


@pytest.fixture(scope="module")
def run(example, tmp_path_factory):
    """A run directory of a tiny training."""
    path = tmp_path_factory.mktemp("weighted") / "run"
    assert main(["train", "weighted", "--out", str(path), *TINY]) == 0
    return path


# The rules


def played_by_hand(jobs, num_gpus, num_positions, actions):
    """Finish of each job and the positions that were occupied, by a plain loop."""
    free_at, clock, left = [0] * num_gpus, jobs[0][0], list(range(len(jobs)))
    finish, widths = {}, []
    for action in actions:
        waiting = [job for job in left if jobs[job][0] <= clock][:num_positions]
        widths.append(len(waiting))
        job = waiting[action if action < len(waiting) else 0]
        left.remove(job)
        gpu = free_at.index(min(free_at))
        free_at[gpu] = finish[job] = clock + jobs[job][1]
        if left:
            clock = max(clock, min(free_at), jobs[left[0]][0])
    return [finish[job] for job in range(len(jobs))], widths


@pytest.mark.parametrize(("num_gpus", "seed"), [(1, 0), (2, 1), (3, 2)])
def test_dynamics_follow_a_plain_loop(example, num_gpus, seed):
    rng = np.random.default_rng(seed)
    env = example.WeightedJobs(num_gpus=num_gpus, window=3)
    (table,) = drawn(example, seed, 1, 15)
    params = env.params([table, table.take(slice(0, 4))])
    jobs = list(zip(*(table[column.name].tolist() for column in example.JOBS.schema), strict=True))
    actions = rng.integers(0, 3, len(jobs)).tolist()
    finish, widths = played_by_hand(jobs, num_gpus, 3, actions)
    state, timestep = env.reset(jax.random.key(0), params, jnp.int32(0))
    step, ends, costs, rewards, seconds = jax.jit(env.step), {}, [], [], 0.0
    for index, action in enumerate(actions):
        positions = np.asarray(timestep.observation[: 3 * 3]).reshape(3, 3)
        assert np.count_nonzero(positions[:, 1]) == np.sum(timestep.action_mask) == widths[index]
        state, timestep = step(jax.random.key(1), state, jnp.int32(action), params)
        events = timestep.metrics
        ends[int(events.finished)] = int(events.of_finished["finish"])
        rewards.append(float(timestep.reward))
        costs.append(float(events.amounts["weighted_jct"]))
        seconds += float(timestep.elapsed)
        assert bool(timestep.terminated) == (index == len(jobs) - 1)
    assert [ends[job] for job in range(len(jobs))] == finish
    submit, duration, weight = np.array(jobs).T
    jct = np.array(finish) - submit
    assert sum(costs) == pytest.approx(np.sum(weight * jct) / weight.sum(), rel=1e-5)
    waited = np.sum(weight * (jct - duration))
    assert -example.COST_SCALE * sum(rewards) == pytest.approx(waited, rel=1e-5)
    assert jobs[0][0] + seconds == int(state.clock)
    after, again = step(jax.random.key(2), state, jnp.int32(1), params)  # absorbs
    jax.tree.map(np.testing.assert_array_equal, after, state)
    assert (float(again.reward), float(again.elapsed)) == (0, 0)
    assert bool(again.terminated) and bool(np.any(again.action_mask))


def test_smiths_rule_is_optimal_on_one_gpu(example):
    jobs = [(0, 40, 3), (0, 10, 1), (0, 25, 9), (0, 60, 2), (0, 5, 1)]
    names = [column.name for column in example.JOBS.schema]
    table = from_records(
        [dict(zip(names, job, strict=True)) for job in jobs], schema=example.JOBS.schema
    )
    env, system = example.WeightedJobs(num_gpus=1, window=5), example.SYSTEM
    total = sum(weight for _, _, weight in jobs)
    best = min(
        sum(jobs[job][2] * sum(jobs[j][1] for j in order[: i + 1]) for i, job in enumerate(order))
        for order in itertools.permutations(range(len(jobs)))
    )
    params = env.params([table])
    heuristic = functions.heuristic(system, "smith", env, 5, {})
    found = functions.play(system, env, heuristic.policy, params).metrics
    assert found["weighted_jct"] == pytest.approx(best / total)
    assert found["makespan"] == 140
    assert found["avg_wait"] == pytest.approx(np.mean([0, 25, 30, 40, 80]))


# The commands


def test_an_environment_of_ones_own_names_few_concepts():
    tree = ast.parse((EXAMPLES / "new_environment.py").read_text(encoding="utf-8"))
    ours = [node for node in ast.walk(tree) if getattr(node, "module", "") and node.level == 0]
    names = {a.name for node in ours if node.module.startswith("jaxsched") for a in node.names}
    assert len([name for name in names if name[0].isupper() and not name.isupper()]) <= 9


def test_it_trains_and_reports(run):
    comparison = json.loads((run / "comparison.json").read_text())
    assert [(p["name"], p["kind"]) for p in comparison["policies"]] == [
        *(("fifo", "baseline"), ("smith", "baseline"), ("random", "reference"), ("dqn", "learned")),
    ]
    assert comparison["metrics"]["weighted_jct"]["unit"] == "s"
    assert "paper" not in comparison
    page = (run / "report.html").read_text()
    assert "Weighted jobs on identical GPUs" in page
    assert "weighted JCT" in page
    assert "num gpus 2, window 6" in page


def test_its_schedules_can_be_looked_at(run, tmp_path):
    page = tmp_path / "page.html"
    options = ("--policy", str(run), "--policy", "fifo", "--num-jobs", "12", "--html", str(page))
    assert main(["replay", "weighted", *options]) == 0
    data = page.read_text().split('id="schedules">')[1].split("</script>")[0]
    learned, fifo = json.loads(data)["schedules"]
    assert (learned["policy"], fifo["policy"]) == ("run", "fifo")
    assert fifo["bands"] == [["running jobs", 2]] and len(fifo["pieces"]["job"]) == 12
    kept = learned["decisions"]
    assert kept["choices"][0] == "action0" and len(kept["inputs"]) == len(kept["seen"][0])
    for scores, chosen in zip(kept["scores"], kept["chosen"], strict=True):
        legal = [score for score in scores if score is not None]
        assert len(legal) > 1 and max(legal) == scores[chosen]
    in_report = json.loads((run / "comparison.json").read_text())["schedules"]
    assert {schedule["unit"] for schedule in in_report} == {"job"}
    assert "<h2>Jobs over time" in (run / "report.html").read_text()


def test_it_evaluates_and_compares(run, tmp_path, capsys):
    results = tmp_path / "values.json"
    drawn = ("--num-traces", "2", "--num-jobs", "12", "--json", str(results))
    assert main(["compare", "weighted", "--checkpoint", str(run), *drawn]) == 0
    learned = json.loads(results.read_text())["policies"][-1]
    assert main(["evaluate", "weighted", "--policy", str(run), *drawn]) == 0
    (alone,) = json.loads(results.read_text())["policies"]
    assert alone["metrics"] == learned["metrics"]
    assert np.all(np.array(alone["metrics"]["finished"]) == 12)
    assert main(["simulate", str(_case(tmp_path))]) == 2
    assert "weighted: runs no cases" in capsys.readouterr().err


def _case(folder):
    path = folder / "case.json"
    path.write_text(json.dumps({"system": "weighted", "kind": "actions"}))
    return path


def test_its_export_is_read_without_jax(run, tmp_path, capsys):
    assert main(["export", str(run), "--out", str(tmp_path / "policy")]) == 0
    reader = [sys.executable, str(EXAMPLES / "read_policy.py"), str(tmp_path / "policy")]
    found = subprocess.run(reader, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "all agree" in found.stdout
    manifest = json.loads((tmp_path / "policy" / "manifest.json").read_text())
    assert manifest["actions"]["names"] == [f"action{index}" for index in range(6)]
    assert {group["pattern"] for group in manifest["observation"]["groups"]} >= {
        *("position*.waits", "position*.weight", "gpu*.free_in"),
    }


def test_its_traces_are_known_everywhere(example, tmp_path):
    tables = drawn(example, 3, 2, 9)
    path = tmp_path / "jobs.csv"
    write_tables(path, tables)
    read = load_tables(path)  # recognised by its header
    assert read[0].schema == example.JOBS.schema
    assert [table.digest() for table in read] == [table.digest() for table in tables]
    assert describe_tables(read)["demand"] == {"1": 18}
    columns = {"submit_time": [0, 5], "num_gpus": [8, 1], "duration": [60, 9], "model": [0, 0]}
    rigid = JobTable(columns)
    (weighted,) = example.SYSTEM.jobs.adapted([rigid])
    assert rigid.schema == RIGID_JOBS
    assert weighted["weight"].tolist() == [8, 1]


def test_the_file_is_a_program():
    command = [sys.executable, str(EXAMPLES / "new_environment.py"), "list", "weighted"]
    paths = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, env=paths)
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    names = [line.partition(" ")[0] for line in lines]
    assert {"smith", "quick", "weighted"} <= set(names)
