"""Results of a sweep: a table, a data frame, a picture."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxsched.errors import JaxschedError
from jaxsched.experiment import frames
from jaxsched.experiment.temporary import TemporaryFolder
from jaxsched.files import PathLike, make_folder
from jaxsched.jobs.metrics import Metric
from jaxsched.pictures import ENDINGS
from jaxsched.runs.sweep import FILE, summary
from jaxsched.units import readable_time

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 100
"""Characters of a printed table."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """What ``jaxsched.sweep`` returns.

    ``print`` shows a row a setting, the best mean over its seeds first.

    Attributes:
      rows: of each setting and seed: ``values`` (as the command takes them), ``seed``, ``score`` on
        the validation traces, ``update`` of the best policy, ``last`` score, ``policy`` (its
        folder).
      over: of each setting its values, by how the command takes them.
      metric: name of the score.
      path: folder of the sweep.
      folder: holds the temporary directory, where no folder was asked for.
    """

    rows: Sequence[Mapping[str, Any]]
    over: Mapping[str, Mapping[str, Any]]
    metric: Metric
    path: Path
    folder: TemporaryFolder | None = None

    @property
    def paths(self) -> list[str]:
        """The settings."""
        return list(self.over)

    @property
    def higher(self) -> bool:
        """Whether a higher score is better."""
        return self.metric.better == "higher"

    @cached_property
    def settings(self) -> list[dict[str, Any]]:
        """Scores by settings, the best mean first (:func:`jaxsched.runs.sweep.summary`)."""
        return summary(self.rows, higher=self.higher)

    @property
    def best(self) -> dict[str, Any]:
        """The setting with the best mean score over its seeds."""
        return self._values(self.settings[0])

    @property
    def best_policy(self) -> Path:
        """Folder of the best policy of the best setting."""
        return self.path / str(self.settings[0]["policy"])

    @property
    def record(self) -> Path:
        """The file with all rows, and what was asked for."""
        return self.path / FILE

    def to_pandas(self) -> Any:
        """A data frame: a row a setting and seed.

        Raises:
          JaxschedError: pandas is not installed.
        """
        return frames.frame(self._columns())

    def save(self, path: PathLike) -> Path:
        """Write the sweep in the form that the file's ending asks for.

        Args:
          path: ``.png``, ``.svg`` or ``.pdf`` a line per setting across parallel axes, ``.csv`` or
            ``.parquet`` the rows of ``to_pandas``.

        Raises:
          JaxschedError: another ending, or the file cannot be written.
        """
        path = Path(path)
        forms: dict[str, Callable[[Path], object]] = {
            **dict.fromkeys(ENDINGS, self._write_picture),
            **dict.fromkeys(frames.ENDINGS, self._write_rows),
        }
        if path.suffix not in forms:
            raise JaxschedError(f"{path}: accepted: a name that ends in {', '.join(forms)}")
        make_folder(path)
        forms[path.suffix](path)
        return path

    def table(self) -> "Table":
        """A row a setting, the best first: mean, least and most of its seeds' scores."""
        from rich.table import Table

        shown = readable_time if self.metric.unit == "s" else "{:.5g}".format
        table = Table(title=f"{self.metric.label} on the validation traces, best first")
        for path in self.paths:
            table.add_column(path)
        for column in ("mean", "least", "most", "seeds"):
            table.add_column(column, justify="right")
        for entry in self.settings:
            scores = entry["scores"]
            figures = map(shown, (entry["mean"], min(scores), max(scores)))
            values = (entry["values"][path] for path in self.paths)
            table.add_row(*values, *figures, str(len(scores)))
        return table

    def __str__(self) -> str:
        """The table."""
        from rich.console import Console

        console = Console(file=io.StringIO(), width=WIDTH, markup=False, emoji=False)
        with console.capture() as text:
            console.print(self.table())
        return text.get().rstrip("\n")

    def __repr__(self) -> str:
        """One line."""
        return f"Sweep({len(self.rows)} trainings, best {self.best})"

    def _values(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a row as they were given."""
        return {path: values[row["values"][path]] for path, values in self.over.items()}

    def _columns(self) -> dict[str, list[Any]]:
        rows = [
            self._values(row) | {name: value for name, value in row.items() if name != "values"}
            for row in self.rows
        ]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def _write_picture(self, path: Path) -> None:
        from jaxsched.pictures import save_figure
        from jaxsched.report.sweeps import parallel_coordinates

        label, higher = self.metric.label, self.higher
        figure = parallel_coordinates(self.paths, self.settings, label=label, higher=higher)
        save_figure(figure, path)

    def _write_rows(self, path: Path) -> None:
        frames.write_columns(path, self._columns())
