"""Policies that are played from hand-over folders, and the ones that come with a system."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.cli import main
from jaxsched.errors import JaxschedError
from jaxsched.exports.hand_over import load_export
from jaxsched.runs import saved_policies
from jaxsched.systems import functions, registry
from tests.command_line import refused

SYSTEM = registry.get("sched2")
FOLDER = saved_policies.pretrained_folder(SYSTEM)


PRETRAINED = [
    (name, policy)
    for name in registry.names()
    for policy in saved_policies.shipped(registry.get(name))
]


@pytest.mark.parametrize(("name", "policy"), PRETRAINED)
def test_pretrained_policies_give_their_golden_scores(name, policy):
    system = registry.get(name)
    learned, (saved,) = saved_policies.load(policy, system)
    assert learned.name == policy and learned.play == "greedy"
    golden = saved.meta["golden"]
    if functions.array_policy(system, learned.env, learned.network) is not None:
        return  # tests/exports/test_programs.py follows its program
    assert len(golden["rows"]) >= 8
    network = functions.network(system, learned.env, learned.network)
    for row in golden["rows"]:
        scores = network.apply(saved.weights, jnp.asarray(row["observation"], jnp.float32))
        np.testing.assert_allclose(scores, row["scores"], atol=golden["tolerance"], rtol=1e-5)


def test_a_folder_plays_as_by_name(tmp_path):
    """On traces on which it differs from the rule that it started as."""
    copy = tmp_path / "mine"
    shutil.copytree(FOLDER, copy)
    tables = traces.get("sched2-mixed", seed=3, num_traces=2, num_jobs=150)
    played = []
    for path in ("pretrained", copy):
        learned, _ = saved_policies.load(path, SYSTEM)
        policy = functions.network_policy(
            SYSTEM, learned.env, learned.network, learned.name, learned.play
        )
        params = learned.env.params(tables)
        weights = jax.tree.map(jnp.asarray, learned.weights[0])
        played.append(
            functions.play(SYSTEM, learned.env, policy, params, weights).metrics["avg_jct"]
        )
    assert learned.name == "mine"
    np.testing.assert_array_equal(*played)
    rule = functions.heuristic(SYSTEM, "strict_sif", learned.env, 150, {})
    assert not np.array_equal(
        functions.play(SYSTEM, rule.env, rule.policy, params).metrics["avg_jct"], played[0]
    )


def test_the_command_knows_the_name(capsys):
    words = ("--trace", "sched2-68", "--num-traces", "1", "--num-jobs", "20")
    assert main(["evaluate", "sched2", "--policy", "pretrained", *words]) == 0
    assert "pretrained" in capsys.readouterr().out
    line = refused(capsys, "evaluate", "sched2", "--policy", "pretrain", *words)
    assert "pretrained, or the folder of a trained policy" in line


def changed(tmp_path, **facts):
    """A copy of the folder whose manifest says something else."""
    copy = tmp_path / "changed"
    shutil.copytree(FOLDER, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest | facts))
    return copy


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"network_kind": None}, "does not tell its kind of network and how it plays"),
        ({"play": None}, "does not tell its kind of network and how it plays"),
        ({"play": "often"}, "does not tell its kind of network and how it plays"),
        ({"environment": None}, "its environment is no list of options"),
        ({"environment": [1]}, "its environment is no list of options"),
        ({"network_kind": "scoring"}, "weights do not fit the network 'scoring'"),
        ({"network_kind": "paper"}, "weights do not fit the network 'paper'"),
        ({"system": "chic"}, "the policy has system 'chic', expected 'sched2'"),
        ({"behaviour_version": 99}, "the policy has behaviour version 99"),
        ({"environment": {"servers": 3}}, "unknown environment option 'servers'"),
    ],
)
def test_what_does_not_fit_is_refused(facts, words, tmp_path):
    with pytest.raises(JaxschedError, match=words):
        saved_policies.load(changed(tmp_path, **facts), SYSTEM)


def test_a_system_may_come_without_one(monkeypatch):
    with pytest.raises(
        JaxschedError, match="without a policy 'pretrained-x'; there are pretrained"
    ):
        saved_policies.load("pretrained-x", SYSTEM)
    monkeypatch.setattr(saved_policies, "shipped", lambda system: ())
    with pytest.raises(JaxschedError, match="sched2: comes without a policy 'pretrained'$"):
        saved_policies.load("pretrained", SYSTEM)


def test_exports_tell_what_plays_them():
    manifest = load_export(FOLDER).manifest
    assert manifest["network_kind"] == "linear" and manifest["play"] == "greedy"
