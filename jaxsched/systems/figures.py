"""Titles and notes of a report's figures that belong to one system alone."""

from collections.abc import Mapping
from typing import NamedTuple


class Curve(NamedTuple):
    """A curve over the started jobs: its title, and what it shows in a sentence or two."""

    title: str
    note: str


class MetricGroup(NamedTuple):
    """Metrics drawn together under a heading of their own, with a note on what they say."""

    title: str
    note: str
    metrics: tuple[str, ...]


class Figures(NamedTuple):
    """Figures of a report beside the usual bars.

    Attributes:
      curves: curve of ``Played.curves`` -> its words; others are called by their names.
      groups: metrics drawn together.
    """

    curves: Mapping[str, Curve] = {}
    groups: tuple[MetricGroup, ...] = ()
