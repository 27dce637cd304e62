"""What the page of a system is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.readings import Study


@dataclass(frozen=True)
class Player:
    """A policy in a file.

    Attributes:
      file: in ``benchmarks/results``.
      policy: its name there.
      part: of a paper's row, the key of ``values``.
    """

    file: str
    policy: str
    part: str = ""


@dataclass(frozen=True)
class Contest:
    """A learned policy against a rule on episodes that were used for nothing else.

    Attributes:
      title: the episodes, in words.
      learned: who is judged.
      rule: name of the best rule known, or of one that the paper has, in the same file.
      metrics: what is told, the one that decides first.
      rule_called: the name that the rule has today, where the file has another.
      ranked_by: the policy whose completion times say how congested an episode is; no tenths if
        empty.
    """

    title: str
    learned: Player
    rule: str
    metrics: tuple[str, ...]
    ranked_by: str = ""
    rule_called: str = ""

    @property
    def rule_name(self) -> str:
        """What pages call the rule."""
        return self.rule_called or self.rule


@dataclass(frozen=True)
class Recipe:
    """A recipe that was run here for the paper's own.

    Attributes:
      preset: the preset.
      changes: settings that differ from the preset's, as ``--set`` takes them.
      also: further departures from the paper's text, which no setting shows.
      trained: how far the training went, where not to its end.
    """

    preset: str
    changes: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    trained: str = ""


@dataclass(frozen=True)
class Own:
    """The paper's own recipe here.

    Attributes:
      recipe: what was run.
      player: the policy.
      against: a rule in the same file.
      metrics: what is told.
      cluster: that was learnt and played on, where the file does not say.
      episodes: how many of what, where the file does not say.
    """

    recipe: Recipe
    player: Player
    against: str
    metrics: tuple[str, ...]
    cluster: str = "-"
    episodes: str = ""


@dataclass(frozen=True)
class OwnRatios:
    """The paper's own recipe here, judged by ratios of means over episodes.

    Attributes:
      recipe: what was run.
      file: of ``benchmarks.das_ratios``.
      metrics: what is told.
      against: the rule that the ratios are to.
      source: what the episodes are, which the file does not say.
    """

    recipe: Recipe
    file: str
    metrics: tuple[str, ...]
    against: str
    source: str


@dataclass(frozen=True)
class OwnReading:
    """The paper's own recipe here, under one reading of its text.

    Attributes:
      recipe: what was run.
      study: the readings.
      file: of the study.
      name: of the reading.
      against: a rule in the same file.
      cluster: that was learnt and played on, which the file does not say.
    """

    recipe: Recipe
    study: Study
    file: str
    name: str
    against: str
    cluster: str


OwnAny = Own | OwnRatios | OwnReading


@dataclass(frozen=True)
class Cost:
    """What a result costs.

    Attributes:
      command: that trains it.
      file: comparison that the training wrote, with its time and steps; or a paper's row.
      paper: what the paper says of its own training.
      part: of a paper's row, the key of ``trained``.
      curve: a comparison that the same training wrote, for its learning curve; ``file`` if empty.
    """

    command: str
    file: str
    paper: str
    part: str = ""
    curve: str = ""

    @property
    def curve_file(self) -> str:
        """The comparison whose learning curve is shown; empty if there is none."""
        return self.curve or ("" if self.part else self.file)


@dataclass(frozen=True)
class Readings:
    """What MLFS' text leaves open, played; files of ``benchmarks.mlfs_readings``.

    Attributes:
      ranked: every reading.
      confirmed: the chosen one on fresh workloads.
      controlled: MLF-C, by what it stops jobs.
      shares: other loads.
      windows: rooms for jobs in the cluster, file -> two of its parts.
    """

    ranked: str
    confirmed: str
    controlled: str
    shares: str
    windows: Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class LearnedReadings:
    """What a paper's text leaves open, each reading learnt.

    Attributes:
      study: the readings.
      file: of the study.
      rivals: rules that readings are compared with, the first also with what the last stage of the
        recipe began with.
      told: above the tables.
      worlds: above the table of a world, where there are several.
      more: further metrics whose means are shown.
    """

    study: Study
    file: str
    rivals: tuple[str, ...]
    told: str
    worlds: Mapping[str, str] = field(default_factory=dict)
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """All that the page of a system shows.

    Attributes:
      system: its name.
      title: heading.
      claim: the paper's main claim, in one sentence, with its setting.
      contests: the first is the row of the summary.
      own: the paper's own recipe.
      headroom: JSON files of ``jaxsched headroom``.
      rows: JSON files of paper rows, whose claims are listed.
      cost: of the main result.
      words: paragraphs: what holds, what does not, and why.
      readings: of what the paper's text leaves open.
      learned_readings: the same, each learnt.
    """

    system: str
    title: str
    claim: str
    contests: tuple[Contest, ...] = ()
    own: tuple[OwnAny, ...] = ()
    headroom: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    cost: tuple[Cost, ...] = ()
    words: tuple[str, ...] = ()
    readings: Readings | None = None
    learned_readings: LearnedReadings | None = None
