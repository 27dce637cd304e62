"""Names of deep-learning models: one spelling of each, and the others that are read as it.

Systems, schedules, pages and services write a model as ``NAMES`` does. Names of arrays' entries and
keys of shipped tables are its ``identifier``. What a front end or a stored file says goes through
``spelled``; a published trace keeps the words of its log, which no system reads as models.
"""

import re
from collections.abc import Sequence

NAMES = (
    "AlexNet",
    "CTC",
    "DeepSpeech",
    "DSSM",
    "InceptionBN",
    "InceptionV3",
    "LSTM",
    "MLP",
    "ResNet",
    "ResNet50",
    "ResNeXt110",
    "Seq2Seq",
    "SVM",
    "Transformer",
    "VGG16",
    "WLM",
)
"""The models that the systems know, as the whole library writes them."""

ALIASES = {
    "BatchNorm Inception": "InceptionBN",
    "BN-Inception": "InceptionBN",
    "CNN text classification": "CTC",
    "Deep Speech 2": "DeepSpeech",
    "Inception3": "InceptionV3",
    "ResNeXt": "ResNeXt110",
    "Text CNN": "CTC",
}
"""Other words for them. Capitals, spaces, hyphens, underscores and dots never matter: ``VGG-16``,
``vgg_16`` and ``Inception v3`` need no entry."""


def _key(name: str) -> str:
    return re.sub(r"[\s\-_./]", "", name).lower()


_BY_KEY = {
    **{_key(alias): name for alias, name in ALIASES.items()},
    **{_key(name): name for name in NAMES},
}


def spelled(name: str) -> str:
    """A model's name as the library writes it; a name that it does not know as it is."""
    return _BY_KEY.get(_key(name), name)


def identifier(name: str) -> str:
    """The name in small letters, as it stands in names of entries and in shipped tables."""
    return name.lower()


def index_of(name: str, models: Sequence[str]) -> int | None:
    """Place of a model, in any spelling, among a system's models; None if it is not there."""
    found = spelled(name)
    return models.index(found) if found in models else None
