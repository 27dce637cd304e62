"""Names of models: one spelling in every system, others read as it, entries of artefacts kept."""

import json

import numpy as np
import pytest

from jaxsched.elastic import models as elastic
from jaxsched.envs.mlfs.jobs import MODELS as MLFS
from jaxsched.envs.sched2.rules import MODELS as SCHED2
from jaxsched.jobs import from_records
from jaxsched.jobs.models import ALIASES, NAMES, identifier, index_of, spelled
from jaxsched.jobs.schedule import by_job
from jaxsched.jobs.stored_schedule import schedule_of
from jaxsched.runs import saved_policies
from jaxsched.systems import functions, registry

JOB = {"submit_time": 0, "num_gpus": 1, "duration": 60, "model": 0}


def test_every_system_spells_alike():
    used = {model.name for model in SCHED2} | set(elastic.NAMES) | set(MLFS)
    assert used == set(NAMES)
    assert all(spelled(name) == name for name in NAMES)
    assert set(ALIASES.values()) <= set(NAMES)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("VGG-16", "VGG16"),
        ("vgg16", "VGG16"),
        ("ResNet-50", "ResNet50"),
        ("resnet_50", "ResNet50"),
        ("ResNeXt-110", "ResNeXt110"),
        ("Inception v3", "InceptionV3"),
        ("Inception3", "InceptionV3"),
        ("Inception-BN", "InceptionBN"),
        ("cnn-text-classification", "CTC"),
        ("seq2seq", "Seq2Seq"),
        ("VGG19", "VGG19"),
        ("", ""),
    ],
)
def test_other_spellings_are_read(written, name):
    assert spelled(written) == name


def test_places_in_a_systems_table():
    names = [model.name for model in SCHED2]
    assert index_of("vgg-16", names) == names.index("VGG16") == 3
    assert index_of("GPT-2", names) is None and index_of("DSSM", names) is None


@pytest.mark.parametrize("system", ["dl2", "chic"])
def test_entries_of_shipped_policies_keep_their_names(system):
    known = registry.get(system)
    path = saved_policies.pretrained_folder(known) / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    stored = manifest["observation"]["names"]
    assert f"row0.{identifier('ResNet50')}" in stored
    env = functions.saved_environment(known, manifest["environment"])
    params = env.params(known.jobs.adapted([from_records([JOB])]))
    assert stored == list(env.observation_spec(params).names)


def test_schedules_that_were_stored_earlier_are_read():
    submit = np.zeros(2)
    stored = by_job("dl2", submit, submit, submit + 5, models=("resnet50", "ctc")).to_json()
    assert schedule_of(stored, "here").models == ("ResNet50", "CTC")
