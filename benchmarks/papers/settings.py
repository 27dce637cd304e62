"""What a reproduction is run with: sizes, seeds, changes of recipes; where job tables come from."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from jaxsched import traces
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.json_values import json_value
from jaxsched.pictures import check_picture

ROLE_SEEDS = {"train": 0, "validation": 2, "test": 7001}
"""Seeds of the job tables; that of the test is used for nothing else."""


@dataclass(frozen=True)
class Settings:
    """What decides the results of a run of rows, and where they go.

    Attributes:
      out: folder of all results.
      quick: small sizes, to see that everything works; verdicts are marked.
      seeds: of the trainings, side by side.
      overrides: changes of every recipe, ``path=value`` each.
      num_train: job tables to learn on; the recipe's number if absent.
      num_validation: job tables that policies are chosen on, likewise.
      num_test: job tables of the test, likewise.
      num_jobs: jobs of each table; as many as the workload has if absent.
      pictures: formats of pictures beside PNG, such as ``.pdf``, with their data as CSV.
    """

    out: Path
    quick: bool = False
    seeds: tuple[int, ...] = (0, 1, 2)
    overrides: tuple[str, ...] = ()
    num_train: int | None = None
    num_validation: int | None = None
    num_test: int | None = None
    num_jobs: int | None = None
    pictures: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that there is something to do."""
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise JaxschedError(f"seeds are {self.seeds}; accepted: one or more different ones")
        for name in ("num_train", "num_validation", "num_test", "num_jobs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise JaxschedError(f"{name} is {value}; accepted: a whole number from 1 on")
        for ending in self.pictures:
            check_picture(f"pictures{ending}")

    def deciding(self) -> dict[str, Any]:
        """All of it but the folder and the pictures, JSON-able."""
        plain = {field.name: json_value(getattr(self, field.name)) for field in fields(self)}
        del plain["out"], plain["pictures"]
        return plain


@dataclass(frozen=True)
class Workload:
    """What job tables are drawn from.

    Attributes:
      trace: a named trace; with ``options`` a mere label.
      options: of ``draw``, by name, where no named trace will do.
      num_jobs: jobs of each table, whatever the settings say.
    """

    trace: str
    options: tuple[tuple[str, Any], ...] = ()
    num_jobs: int | None = None

    def with_options(self, **options: Any) -> Self:
        """The same workload with some options changed."""
        return replace(self, options=tuple({**dict(self.options), **options}.items()))

    def tables(self, role: str, count: int | None, num_jobs: int | None) -> list[JobTable]:
        """The first tables of a role.

        Args:
          role: one of ``ROLE_SEEDS``.
          count: how many; the trace's own number if absent.
          num_jobs: jobs in each; the workload's own number if absent.
        """
        seed, num_jobs = ROLE_SEEDS[role], self.num_jobs or num_jobs
        if not self.options:
            return traces.get(self.trace, seed=seed, num_traces=count, num_jobs=num_jobs)
        options = dict(self.options)
        if num_jobs is not None:
            options["num_jobs"] = num_jobs
        return self.draw(seed, count or 1, **options)

    def draw(self, seed: int, count: int, **options: Any) -> list[JobTable]:
        """Tables drawn with options; systems that have such a generator say which."""
        del seed, count
        raise JaxschedError(f"{self.trace}: has no options; found {', '.join(options)}")


@dataclass(frozen=True)
class CutWorkload(Workload):
    """A workload whose shipped tables, too, are cut to the wanted numbers of tables and jobs."""

    def tables(self, role: str, count: int | None, num_jobs: int | None) -> list[JobTable]:
        """The first tables of a role, each of its first jobs."""
        tables = super().tables(role, count, num_jobs)[:count]
        return [table.take(slice(0, self.num_jobs or num_jobs)) for table in tables]


def digest(value: Any) -> str:
    """Sixteen hex digits of JSON-able data, the same for equal data."""
    text = json.dumps(json_value(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def key_of(**parts: Any) -> str:
    """Digest of named parts."""
    return digest(_sorted(parts))


def _sorted(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: parts[name] for name in sorted(parts)}
