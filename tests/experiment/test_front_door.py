"""The calls of ``import jaxsched``: train, compare, load, export, sweep, and their errors."""

import json
from dataclasses import replace

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxsched
from jaxsched.jobs import from_records
from jaxsched.systems import functions
from tests.command_line import policies_only

JOBS = [
    {"submit_time": 60 * k, "num_gpus": 1 + k % 4, "duration": 300 + 97 * (k % 7), "model": k % 6}
    for k in range(12)
]
TABLES = [from_records(JOBS), from_records([{**job, "num_gpus": 2} for job in JOBS[:9]])]
CLUSTER = {"num_servers": 4, "gpus_per_server": 4, "window": 3}
TINY = {
    **{f"env.{name}": value for name, value in CLUSTER.items()},
    "loop.num_envs": 4,
    "loop.rollout_length": 4,
    "loop.num_updates": 4,
    "learner.epochs": 1,
    "learner.num_minibatches": 1,
    "evaluate_every": 2,
    "checkpoint_every": 4,
    "value_network": "mlp-8",
}
ARGUMENTS = {"preset": "plain-ppo", "traces": TABLES, "test_traces": TABLES, "set": TINY}
PLAYED = {"traces": TABLES, **CLUSTER}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return jaxsched.train("sched2", seed=3, out=tmp_path_factory.mktemp("runs") / "a", **ARGUMENTS)


@pytest.fixture(scope="module")
def table(run):
    return jaxsched.compare("sched2", policies=["fifo", last_legal, first_legal, run], **PLAYED)


@jaxsched.policy(jax=True)
def last_legal(observation, mask, key):
    return mask.shape[-1] - 1 - mask[::-1].argmax()


def first_legal(observation, mask):
    assert isinstance(mask, np.ndarray)
    return int(np.flatnonzero(mask)[0])


def same(one, other):
    """The weights are equal to the bit."""
    for mine, theirs in zip(
        jax.tree.leaves(one.weights), jax.tree.leaves(other.weights), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_a_run_says_what_it_was_and_decides(run):
    assert run.finished and run.system == "sched2" and run.facts["preset"] == "plain-ppo"
    assert len(run.curves[0]) == 2 and run.best.score == max(point.score for point in run.curves[0])
    assert "best score" in repr(run) and len(repr(run)) < 120
    env, params = jaxsched.make("sched2", traces=TABLES, **CLUSTER)
    _, timestep = env.reset(jax.random.key(0), params)
    action = run.policy(np.asarray(timestep.observation), np.asarray(timestep.action_mask))
    assert isinstance(action, np.ndarray) and timestep.action_mask[int(action)]


def test_a_run_is_found_again_in_its_folder(run):
    again = jaxsched.load(run.path)
    assert again.finished and again.curves[0][0] == run.curves[0][0]
    assert again.facts == run.facts and run.facts["devices"] == 1 and run.facts["seeds"] == [3]
    assert again.scores == run.scores == [run.best.score]
    for one, other in zip(
        jax.tree.leaves(run.weights), jax.tree.leaves(again.weights), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert again.policy.network == run.policy.network


def test_a_report_is_that_of_the_command(run, tmp_path):
    training = jaxsched.training("sched2", seed=3, out=tmp_path / "a", **ARGUMENTS)
    with policies_only("sched2", "fifo"):
        result = training.report("how")
    assert [policy["name"] for policy in result["policies"]] == ["fifo", "ppo"]
    assert result["command"] == "how" and len(result["learning_curve"]["series"][0]["x"]) == 1
    assert json.loads((tmp_path / "a" / "comparison.json").read_text()) == result
    assert (tmp_path / "a" / "report.html").is_file()


def test_a_time_limit_stops_a_run_with_a_checkpoint(run, tmp_path):
    out = tmp_path / "late"
    half = jaxsched.train("sched2", seed=3, out=out, max_time=1e-6, **ARGUMENTS)
    assert not half.finished and len(half.curves[0]) < 2
    same(run, jaxsched.train("sched2", seed=3, out=out, resume=True, **ARGUMENTS))
    with pytest.raises(jaxsched.JaxschedError, match="a time limit of 'soon'"):
        jaxsched.training("sched2", max_time="soon")
    with pytest.raises(jaxsched.JaxschedError, match="^track paper: unknown; known are wandb"):
        jaxsched.training("sched2", out=tmp_path / "tracked", track="paper", **ARGUMENTS)


@pytest.mark.parametrize(
    ("scores", "best"),
    [([0.2, 0.5, 0.5], 1), ([None, 0.1, None], 1), ([float("nan"), 0.3], 1), ([None], 0), ([], 0)],
)
def test_the_best_seed_is_the_first_of_the_best_scores(run, scores, best):
    assert functions.best_of(run.owner, scores) == replace(run, scores=scores).best_seed == best


def test_stopped_and_resumed_is_one_go(run, tmp_path):
    seen = []

    def callback(progress):
        seen.append(progress)
        return progress.update < 2

    half = jaxsched.train("sched2", seed=3, out=tmp_path / "b", callback=callback, **ARGUMENTS)
    assert not half.finished and len(half.curves[0]) == 1
    assert seen[-1].update == 2 and seen[-1].score is not None and seen[-1].steps_per_s > 0
    whole = jaxsched.train("sched2", seed=3, out=tmp_path / "b", resume=True, **ARGUMENTS)
    assert whole.finished
    for one, other in zip(
        jax.tree.leaves(run.weights), jax.tree.leaves(whole.weights), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_loop_of_ones_own_and_a_run_without_a_folder():
    training = jaxsched.training("sched2", seed=3, **ARGUMENTS)
    for progress in training:
        assert progress.stage == "ppo"
        break
    run = training.finish()
    folder = run.path
    assert not run.finished and (folder / "config.json").is_file()
    del run, training
    assert not folder.exists()


def test_rules_as_functions_stand_beside_published_ones(table, run):
    assert set(table.policies) == {"fifo", "last_legal", "first_legal", run.learned.name}
    assert table.best == table.policies[0]
    lines = str(table).splitlines()
    assert lines[0].startswith("policy") and lines[1].startswith(table.best)
    assert "\u00b1" in lines[1] and all(len(line) <= 110 for line in lines[:5])
    first = jaxsched.compare("sched2", policies=[last_legal], **PLAYED)
    np.testing.assert_array_equal(
        first.values("last_legal", "avg_jct"), table.values("last_legal", "avg_jct")
    )


def test_a_comparison_is_saved_by_its_ending(table, tmp_path):
    for name in ("report.html", "bars.svg", "all.json", "rows.csv", "rows.parquet"):
        assert table.save(tmp_path / "new" / name).is_file()
    document = json.loads((tmp_path / "new" / "all.json").read_text())
    assert [entry["name"] for entry in document["policies"]][0] == "fifo"
    header, *rows = (tmp_path / "new" / "rows.csv").read_text().splitlines()
    assert header.startswith('"policy","kind","seed","episode"') and len(rows) == 4 * 2
    with pytest.raises(jaxsched.JaxschedError, match="accepted: a name that ends in .html"):
        table.save(tmp_path / "report.doc")


def test_data_frames(table, run):
    pytest.importorskip("pandas")
    frame = table.to_pandas()
    assert {"policy", "episode", "avg_jct"} <= set(frame.columns) and len(frame) == 8
    assert list(table.metrics.index) == list(table.policies)
    assert {"step", "episode_return"} <= set(run.metrics.columns)


def test_a_network_of_ones_own(tmp_path):
    class Torso(nn.Module):
        num_actions: int

        @nn.compact
        def __call__(self, observation):
            return nn.Dense(self.num_actions)(nn.relu(nn.Dense(4)(observation)))

    env, params = jaxsched.make("sched2", traces=TABLES, **CLUSTER)
    network = Torso(env.action_spec(params).num_actions)
    own = {**ARGUMENTS, "set": {**TINY, "loop.num_updates": 2}, "out": tmp_path / "own"}
    run = jaxsched.train("sched2", network=network, **own)
    assert run.policy.network == "Torso"
    again = jaxsched.load(tmp_path / "own", network=network)
    assert again.policy.network == "Torso"
    with pytest.raises(jaxsched.JaxschedError, match="a network of one's own, 'Torso'"):
        jaxsched.load(tmp_path / "own")
    table = jaxsched.compare("sched2", policies=["fifo", again], **PLAYED)
    assert "ppo" in table.policies or "own" in table.policies


def test_a_learner_of_ones_own():
    def counter(specs, config=None):
        shape = (*specs.observation.shape, specs.action.num_actions)

        def init(key, specs, params=None):
            return {"weights": jax.random.normal(key, shape), "updates": jnp.int32(0)}

        def act(state, observation, mask, key, greedy):
            scores = observation @ state["weights"]
            return jnp.where(mask, scores, -jnp.inf).argmax(-1).astype(jnp.int32), {}

        def update(state, rollout, key):
            state = {**state, "updates": state["updates"] + 1}
            return state, {"updates": state["updates"].astype(jnp.float32)}

        return jaxsched.Learner(init, act, update, policy_params=lambda state: state["weights"])

    small = {name: TINY[name] for name in TINY if name.startswith(("env", "loop", "eval", "check"))}
    run = jaxsched.train("sched2", learner=counter, **{**ARGUMENTS, "set": small})
    assert int(run.weights[0]["updates"]) in (2, 4)


def test_errors_are_the_commands_one_line(tmp_path):
    cases = [
        (lambda: jaxsched.train("nope"), "unknown system"),
        (lambda: jaxsched.train("sched2", preset="huge"), "unknown preset"),
        (lambda: jaxsched.train("sched2", set={"loop.speed": 1}), "no field 'speed'"),
        (lambda: jaxsched.train("sched2", resume=True), "resume is given without out"),
        (lambda: jaxsched.train("sched2", devices=0), "devices is 0; accepted"),
        (lambda: jaxsched.headroom("sched2", first_legal), "head-room is of rules and trained"),
        (lambda: jaxsched.replay("sched2", policies=[first_legal]), "replays show rules and"),
        (lambda: jaxsched.compare("sched2", policies=["nope"]), "unknown policy 'nope'"),
        (lambda: jaxsched.compare("sched2", policies=[3]), "a policy is 3; accepted"),
        (lambda: jaxsched.compare(7), "system is 7; accepted"),
        (lambda: jaxsched.load("sched2/fifo"), "is a rule; accepted"),
        (lambda: jaxsched.load(tmp_path), "holds no trained policy"),
        (lambda: jaxsched.policy(lambda mask: 0), "takes 1 arguments; accepted"),
        (lambda: jaxsched.export(3, tmp_path), "a policy is 3; accepted"),
    ]
    for call, words in cases:
        with pytest.raises(jaxsched.JaxschedError) as refused:
            call()
        assert words in str(refused.value) and "\n" not in str(refused.value), words
