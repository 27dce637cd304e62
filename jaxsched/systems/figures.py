"""Titles and notes of a report's figures that belong to one system alone."""

from collections.abc import Mapping
from typing import NamedTuple


class Curve(NamedTuple):
    """A curve over the started jobs: its title, and a sentence or two on what it shows."""

    title: str
    note: str


class MetricGroup(NamedTuple):
    """Metrics drawn together under their own heading, with an explanatory note."""

    title: str
    note: str
    metrics: tuple[str, ...]


class Figures(NamedTuple):
    """Figures of a report beside the usual bars.

    Attributes:
      curves: curve of ``Played.curves`` -> its words; others are labelled by their names.
      groups: metrics drawn together.
    """

    curves: Mapping[str, Curve] = {}
    groups: tuple[MetricGroup, ...] = ()
