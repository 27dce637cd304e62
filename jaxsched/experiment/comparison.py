"""Results of a comparison: a table, a data frame, a report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from jaxsched.errors import JaxschedError, counted
from jaxsched.experiment import frames
from jaxsched.files import PathLike, make_folder, write_json
from jaxsched.report.readable import aligned
from jaxsched.report.schema import Comparison as Document
from jaxsched.report.summary import Summary, number

PICTURES = (".svg", ".png", ".pdf")
WIDTH = 100
"""Characters of a printed table."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """What ``jaxsched.compare`` and ``jaxsched.evaluate`` return.

    ``print`` shows one row a policy, best first; notebooks show the same as a table.

    Attributes:
      document: all values, as ``--json`` writes them (:mod:`jaxsched.report.schema`).
      setting: the ``load`` that was asked for and the ``servers`` as "4 x 8 GPUs", where known.
      times: evaluates all policies once more and returns the times of all jobs.
    """

    document: Document
    setting: Mapping[str, Any] = field(default_factory=dict)
    times: Callable[[], Sequence[Mapping[str, Any]]] | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The set-up in words and numbers: cluster, load, episodes, versions, device."""
        return {**self.setting, **self.document["facts"]}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was dropped, raised, capped or drawn when traces became episodes."""
        return tuple(self.document.get("notes", ()))

    @property
    def primary(self) -> str:
        """The metric by which policies are ranked."""
        return self.document["primary"]

    @cached_property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies, best first; those that leave jobs unfinished are last."""
        left = self._summary.unfinished
        higher = self.document["metrics"][self.primary]["better"] == "higher"

        def rank(name: str) -> tuple[bool, float]:
            mean = float(np.mean(self.values(name, self.primary)))
            return name in left, -mean if higher else mean

        return tuple(sorted((entry["name"] for entry in self.document["policies"]), key=rank))

    @property
    def best(self) -> str:
        """Name of the policy with the best mean of the primary metric."""
        return self.policies[0]

    @property
    def metrics(self) -> Any:
        """Means over episodes and seeds: a data frame with a row a policy, best first.

        Raises:
          JaxschedError: pandas is not installed.
        """
        names = list(self.document["metrics"])
        columns = {
            metric: [float(np.mean(self.values(name, metric))) for name in self.policies]
            for metric in names
        }
        return frames.frame(columns, index=self.policies)

    def values(self, policy: str, metric: str) -> np.ndarray[Any, Any]:
        """A metric of a policy, float64 ``[seeds, episodes]``; a rule has one seed.

        Raises:
          JaxschedError: there is no such policy or metric.
        """
        for entry in self.document["policies"]:
            if entry["name"] == policy:
                if metric not in entry["metrics"]:
                    known = ", ".join(entry["metrics"])
                    raise JaxschedError(f"metric is {metric!r}; accepted: {known}")
                return np.atleast_2d(np.asarray(entry["metrics"][metric], np.float64))
        known = ", ".join(entry["name"] for entry in self.document["policies"])
        raise JaxschedError(f"policy is {policy!r}; accepted: {known}")

    def to_pandas(self) -> Any:
        """A data frame: one row a policy, seed and episode, one column a metric.

        Raises:
          JaxschedError: pandas is not installed.
        """
        return frames.frame(self._columns())

    def jobs(self) -> Any:
        """A data frame of all jobs: policy, episode, job, submission, start, end (s) and GPUs.

        Evaluates all policies once more.

        Raises:
          JaxschedError: pandas is not installed, or the comparison was read from a file.
        """
        if self.times is None:
            raise JaxschedError("the comparison holds no times of jobs; accepted: a new one")
        parts = [frames.frame(part) for part in self.times()]
        found = frames.pandas().concat(parts, ignore_index=True)
        return found.rename(columns={"trace": "episode", "job_id": "job"})

    def save(self, path: PathLike) -> Path:
        """Write the comparison in the form that the file's ending asks for.

        Args:
          path: ``.html`` a report, ``.svg``, ``.png`` or ``.pdf`` bars, ``.json`` all values,
            ``.csv`` or ``.parquet`` the rows of ``to_pandas``.

        Raises:
          JaxschedError: another ending, or the file cannot be written.
        """
        path = Path(path)
        forms: dict[str, Callable[[Path], object]] = {
            ".html": self._write_html,
            ".json": self._write_json,
            **dict.fromkeys(frames.ENDINGS, self._write_rows),
            **dict.fromkeys(PICTURES, self._write_picture),
        }
        if path.suffix not in forms:
            raise JaxschedError(f"{path}: accepted: a name that ends in {', '.join(forms)}")
        make_folder(path)
        forms[path.suffix](path)
        return path

    def __str__(self) -> str:
        """One row a policy, best first: means and half the width of their 95 % intervals.

        Metrics that have no room are left out; where a policy was trained, the verdict follows.
        """
        names = [self.primary, *(name for name in self.document["metrics"] if name != self.primary)]
        columns = [["policy", *self.policies]]
        for metric in names:
            column = self._column(metric)
            if sum(_width(each) + 2 for each in [*columns, column]) <= WIDTH:
                columns.append(column)
        lines = aligned(list(zip(*columns, strict=True)))
        episodes = self.document["episodes"]
        lines.append(f"means over {counted(episodes['count'], 'episode')} of {episodes['source']}")
        if self._summary.of_kind("learned"):
            lines.append(self._summary.verdict.headline)
        return "\n".join(lines)

    def _column(self, metric: str) -> list[str]:
        """A metric's name and its cells, one for each policy."""
        digits = self.document["metrics"][metric]["digits"]
        cells = [self._summary.cells.get((name, metric)) for name in self.policies]
        texts = [
            ""
            if cell is None
            else f"{number(cell.estimate, digits)} ±{number((cell.high - cell.low) / 2, digits)}"
            for cell in cells
        ]
        return [metric, *texts]

    def __repr__(self) -> str:
        """One line."""
        count = self.document["episodes"]["count"]
        return (
            f"Comparison({self.document['system']}: {len(self.policies)} policies, "
            f"{count} episodes, best {self.best!r})"
        )

    def _repr_html_(self) -> str:
        return str(self.metrics.style.format(precision=4).to_html())

    @cached_property
    def _summary(self) -> Summary:
        return Summary(self.document)

    def _columns(self) -> dict[str, list[Any]]:
        names = list(self.document["metrics"])
        found: dict[str, list[Any]] = {name: [] for name in ("policy", "kind", "seed", "episode")}
        found |= {name: [] for name in names}
        kinds = {entry["name"]: entry["kind"] for entry in self.document["policies"]}
        for policy in self.policies:
            values = {name: self.values(policy, name) for name in names}
            seeds, episodes = values[self.primary].shape
            for seed in range(seeds):
                found["policy"] += [policy] * episodes
                found["kind"] += [kinds[policy]] * episodes
                found["seed"] += [seed] * episodes
                found["episode"] += range(episodes)
                for name in names:
                    found[name] += values[name][seed].tolist()
        return found

    def _write_html(self, path: Path) -> None:
        from jaxsched.report.html import write_html

        write_html(self.document, path)

    def _write_json(self, path: Path) -> None:
        write_json(path, self.document)

    def _write_picture(self, path: Path) -> None:
        from jaxsched.report.plot import plot_comparison

        plot_comparison(self.document, path)

    def _write_rows(self, path: Path) -> None:
        frames.write_columns(path, self._columns())


def _width(column: Sequence[str]) -> int:
    return max(len(text) for text in column)
