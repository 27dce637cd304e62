"""Eight devices give what one gives, each does its part only, and nothing is sent in vain.

The devices are faked on a CPU, in a process of its own: they show that it works, not how fast.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from jaxsched.core import sharding
from jaxsched.errors import JaxschedError
from tests.collectives import collectives

ROOT = Path(__file__).parents[2]
EIGHT = "--xla_force_host_platform_device_count=8"
ROUNDING = 1e-6  # of sums in another order; parameters and states are of the order of 1

SENT = {
    "ppo": {"all-gather 1": 6, "all-reduce 1": 1, "all-reduce 2": 3},
    "dqn": {"all-gather 1": 9, "all-reduce 1": 1, "all-gather 2": 1, "all-reduce 2": 5},
    "actor_critic": {"all-gather 1": 1, "all-reduce 0": 1, "all-reduce 1": 2},
    "actor_critic_replay": {
        "all-gather 1": 9,
        "all-reduce 1": 2,
        "all-gather 2": 1,
        "all-reduce 2": 7,
    },
    "actor_critic_clusters": {"all-gather 1": 3, "all-reduce 1": 2, "all-reduce 2": 1},
    "cross_entropy": {"all-gather 1": 6, "all-reduce 1": 3, "all-reduce 3": 1},
    "search": {"all-gather 1": 1, "all-reduce 1": 3},
    "imitation": {"all-gather 1": 3, "all-reduce 1": 1, "all-reduce 2": 2},
    "branching": {
        "all-gather 1": 8,
        "all-reduce 1": 2,
        "collective-permute 1": 1,
        "all-reduce 2": 4,
    },
}
"""At most so many of each kind; the number tells in how many loops it stands.

Depth 1 is once per update: the rollout to where it is learnt from or stored, and totals. Depth 2 is
once per gradient step (of cross-entropy, depth 3), never per environment step, whose loop has the
same depth: the learners without gradient steps in a loop have nothing there."""

SHARE = {"dqn": 0.5, "actor_critic_replay": 0.5, "actor_critic_clusters": 0.25, "search": 0.5}
"""Of the carry's bytes on each device, at most: replay and members are divided."""


def worker(folder, *parts):
    environment = {**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {EIGHT}"}
    command = [sys.executable, "-m", "tests.core.sharding_worker", str(folder), *parts]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return worker(tmp_path_factory.mktemp("eight"), "ppo", "evaluation")


def check_learner(name, facts):
    assert facts["apart"] <= ROUNDING
    assert set(facts["sent"]) <= set(SENT[name])
    for kind, count in facts["sent"].items():
        assert count <= SENT[name][kind], kind
    assert facts["share"] <= SHARE.get(name, 0.95)


def test_ppo_learns_the_same_on_eight_devices(found):
    check_learner("ppo", found["ppo"])


def test_evaluations_are_the_same_bits_on_eight_devices(found):
    assert found["evaluation"] == 0


@pytest.mark.slow
def test_seeds_are_the_same_bits_and_checkpoints_go_on_with_two_devices_and_with_one(tmp_path):
    found = worker(tmp_path, "seeds", "checkpoints")
    assert found["seeds"] == {"apart": 0, "sent": 1, "share": 1 / 8}  # metrics are sent, once
    assert set(found["checkpoints"]) == {"apart 1", "apart 2"}
    assert max(found["checkpoints"].values()) <= ROUNDING


@pytest.mark.slow
def test_every_learner_learns_the_same_on_eight_devices(tmp_path):
    others = [name for name in SENT if name != "ppo"]
    found = worker(tmp_path, *others)
    for name in others:
        check_learner(name, found[name])


def test_collectives_are_counted_by_loop():
    text = """
%sum (a: f32[], b: f32[]) -> f32[] {
}
%inner (p: f32[2]) -> f32[2] {
  %x = f32[2]{0} all-reduce(%p), to_apply=%sum
}
%outer (p: f32[2]) -> f32[2] {
  %y = (f32[2]{0}, f32[2]{0}) all-gather-start(%p), dimensions={0}
  %w = f32[2] while(%y), condition=%test, body=%inner
}
%test (p: f32[2]) -> pred[] {
}
ENTRY %main (p: f32[2]) -> f32[2] {
  %z = f32[2] while(%p), condition=%test, body=%outer
  ROOT %r = f32[2]{0} all-reduce(%z), to_apply=%sum
}
"""
    expected = {("all-reduce", 2): 1, ("all-gather", 1): 1, ("all-reduce", 0): 1}
    assert collectives(text) == expected


def test_one_device_has_no_mesh():
    assert sharding.make_mesh(1) is None
    assert sharding.make_mesh(None) is None
    tree = {"a": 1}
    with sharding.on(None):
        assert sharding.split(tree) is tree and sharding.whole(tree) is tree


def test_what_devices_cannot_share_equally_is_refused():
    for mesh in (None, SimpleNamespace(shape={"seeds": 1, "envs": 8})):
        sharding.check_divisible(mesh, num_envs=16, num_seeds=3)
    with pytest.raises(JaxschedError, match="num_envs is 12; 8 devices need a multiple of 8"):
        sharding.check_divisible(mesh, num_envs=12, num_seeds=3)
    seeds = SimpleNamespace(shape={"seeds": 2, "envs": 1})
    with pytest.raises(JaxschedError, match="number of seeds is 3; 2 devices need"):
        sharding.check_divisible(seeds, num_envs=12, num_seeds=3)


def test_more_devices_than_there_are_are_refused():
    with pytest.raises(JaxschedError, match="^devices is 8; there is 1 CPU device$"):
        sharding.make_mesh(8)
    with pytest.raises(JaxschedError, match="shard is 'layers'; accepted: envs, seeds"):
        sharding.make_mesh(1, "layers")
