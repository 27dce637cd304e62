"""What the page of a system is made of."""

from dataclasses import dataclass


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
      ranked_by: the policy whose completion times say how congested an episode is; no tenths if
        empty.
    """

    title: str
    learned: Player
    rule: str
    metrics: tuple[str, ...]
    ranked_by: str = ""


@dataclass(frozen=True)
class Own:
    """The paper's own recipe here.

    Attributes:
      player: the policy.
      against: a rule in the same file.
      metrics: what is told.
    """

    player: Player
    against: str
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class OwnRatios:
    """The paper's own recipe here, judged by ratios of means over episodes.

    Attributes:
      file: of ``benchmarks.das_ratios``.
      metrics: what is told.
      against: the rule that the ratios are to.
      words: how far the training went.
    """

    file: str
    metrics: tuple[str, ...]
    against: str
    words: str


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
class Evidence:
    """All that the page of a system shows.

    Attributes:
      system: its name.
      title: heading.
      claim: the paper's main claim, in one sentence.
      contests: the first is the row of the summary.
      own: the paper's own recipe.
      headroom: JSON files of ``jaxsched headroom``.
      rows: JSON files of paper rows, whose claims are listed.
      cost: of the main result.
      words: paragraphs: what holds, what does not, and why.
    """

    system: str
    title: str
    claim: str
    contests: tuple[Contest, ...] = ()
    own: tuple[Own | OwnRatios, ...] = ()
    headroom: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    cost: tuple[Cost, ...] = ()
    words: tuple[str, ...] = ()
