"""Policies by the word that every command takes."""

import json

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.runs import saved_policies
from jaxsched.runs.overrides import change_environment
from jaxsched.runs.policies import find, find_trained, names_policy, on_cluster
from jaxsched.serve import decisions
from jaxsched.systems import registry

SCHED2 = registry.get("sched2")


@pytest.fixture(scope="module")
def folder():
    """A hand-over folder."""
    return str(saved_policies.pretrained_folder(SCHED2))


def test_every_spelling_of_a_rule():
    for word, system in (("fifo", SCHED2), ("sched2/fifo", SCHED2), ("sched2/fifo", None)):
        found = find(word, system)
        assert (found.system, found.rule, found.place) == (SCHED2, "fifo", "")
    assert find("strict_sif").system is SCHED2  # the only one that has it


def test_every_spelling_of_a_trained_policy(folder):
    for word, system in (
        ("pretrained", SCHED2), ("sched2/pretrained", SCHED2), ("sched2/pretrained", None),
        (folder, SCHED2), (folder, None),
    ):  # fmt: skip
        found = find(word, system)
        assert found.system is SCHED2 and not found.rule
        learned, (saved,) = found.trained()
        assert learned.name == "pretrained" and saved.meta["system"] == "sched2"
    assert find("dl2/pretrained-contended").place == "pretrained-contended"


def test_a_folder_comes_before_what_is_shipped(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "das").mkdir()
    (tmp_path / "das" / "pretrained").symlink_to(folder)
    assert find("das/pretrained").system is SCHED2
    assert find("sched2/pretrained").place == "pretrained"


@pytest.mark.parametrize(
    ("word", "system", "says"),
    [
        ("nope", SCHED2, "sched2: unknown policy 'nope'; known are fifo, sif"),
        ("sched2/nope", None, "sched2: unknown policy 'nope'"),
        ("sched2/nope", SCHED2, "sched2: unknown policy 'nope'"),
        ("das/tetris", SCHED2, "is of das; accepted: a policy of sched2"),
        ("das/pretrained", SCHED2, "is of das; accepted: a policy of sched2"),
        ("das/pretrained-large", None, "comes without a policy 'pretrained-large'"),
        ("pretrained", None, "name one, as in sched2/pretrained"),
        ("fifo", None, "is a rule of sched2, dl2, mlfs, cluster; accepted: SYSTEM/POLICY"),
        ("no/such/run", None, "no/such/run: holds no trained policy"),
        ("x" * 5000, None, "holds no trained policy"),
        ("pretrained-" + "x" * 5000, SCHED2, "comes without a policy"),
        ("", SCHED2, "unknown policy ''"),
        ("sched2/", None, "unknown policy ''"),
        ("a\0b", SCHED2, "unknown policy"),
    ],
)
def test_what_names_no_policy_is_refused(word, system, says):
    with pytest.raises(JaxschedError) as refused:
        find(word, system)
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_where_only_a_trained_policy_will_do(folder):
    for word in ("pretrained", "sched2/pretrained", folder):
        assert find_trained(word, SCHED2).trained()[0].name == "pretrained"
    for word in ("fifo", "sched2/fifo"):
        with pytest.raises(JaxschedError, match="is a rule of sched2; accepted: a trained policy"):
            find_trained(word, SCHED2)
    with pytest.raises(JaxschedError, match="nowhere: holds no trained policy"):
        find_trained("nowhere", SCHED2).trained()


def test_what_can_only_be_a_policy(folder):
    for word in (folder, "sched2/fifo", "sched2/nope", "pretrained", "pretrained-contended"):
        assert names_policy(word)
    for word in ("fifo", "sched2", "sched2-test-68", "trace.csv", "no/such"):
        assert not names_policy(word)


def test_a_trained_policy_on_another_cluster():
    learned, _ = find("sched2/pretrained").trained()
    larger = change_environment(learned.env, ["env.num_servers=20"])
    assert on_cluster(learned, SCHED2, learned.env) is learned
    moved = on_cluster(learned, SCHED2, larger)
    assert moved.env == larger and moved.weights is learned.weights
    chic, _ = find("chic/pretrained").trained()
    other = change_environment(chic.env, ["env.window=5"])
    with pytest.raises(JaxschedError, match="its network is for window 3, not 5"):
        on_cluster(chic, registry.get("chic"), other)


def test_services_take_the_same_words_and_the_cluster():
    from jaxsched.jobs.servers import Servers

    wanted = decisions.Wanted(
        "mine=sched2/fifo", ("env.window=4",), Servers(3, 2), {"mode": "block"}
    )
    (decider,) = decisions.load([wanted]).values()
    env = decider.env
    assert (decider.name, env.num_servers, env.gpus_per_server, env.window) == ("mine", 3, 2, 4)
    refused = decisions.Wanted("chic/optimus_event", (), Servers(3, 2))
    with pytest.raises(JaxschedError, match="one pool without servers"):
        decisions.load([refused])


def test_exports_take_the_same_words(tmp_path, folder):
    from jaxsched.runs.handing_over import export_found

    out = export_found(find("sched2/pretrained"), tmp_path / "one")
    again = export_found(find(folder), tmp_path / "two")
    names = ("system", "environment", "network_kind", "play")
    first, second = (json.loads((path / "manifest.json").read_text()) for path in (out, again))
    assert [first[name] for name in names] == [second[name] for name in names]
    with pytest.raises(JaxschedError, match="rule without weights"):
        export_found(find("sched2/fifo"), tmp_path / "three")
    with pytest.raises(JaxschedError, match="has no seeds"):
        export_found(find("sched2/pretrained"), tmp_path / "three", seed=0)
    with pytest.raises(JaxschedError, match="an environment of its own"):
        export_found(find("sched2/pretrained"), tmp_path / "three", changes=["env.window=3"])
