"""How fast an environment alone goes, as a row of a paper's script."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Outcome, Table, beside
from jaxsched.bench.throughput import throughput
from jaxsched.jobs import JobTable


def environment_row(
    lab: Lab,
    *,
    cluster: str,
    batches: Sequence[int],
    repeats: int,
    steps: int | None,
    options: Mapping[str, Any],
    tables: Sequence[JobTable],
    note: str,
) -> Outcome:
    """Uniformly random actions, automatic reset, on the default device.

    Args:
      lab: of the script.
      cluster: what the environment is called.
      batches: numbers of environments.
      repeats: of each measurement.
      steps: environment steps of a repeat; as many as the benchmark thinks right if absent.
      options: of the environment.
      tables: its episodes.
      note: what a step is.
    """
    measured = throughput(
        lab.system.name,
        batches=batches,
        repeats=repeats,
        figures=("environment",),
        options=dict(options),
        tables=tables,
        steps_per_repeat=steps,
        progress=lab.say,
    )
    rows = measured["rows"]
    table = Table(
        f"{cluster}: decisions and environment steps per second, uniformly random actions",
        ["environments", "decisions/s", "steps/s", "least", "most", "steps that decide (%)"],
        [
            [
                str(row["batch"]),
                row["decisions_per_s"],
                *(row["steps_per_s"][name] for name in ("median", "min", "max")),
                100 * row["decision_share"],
            ]
            for row in rows
        ],
        digits=0,
    )
    best = max(rows, key=lambda row: row["decisions_per_s"])
    words = f"{best['decisions_per_s']:,.0f} with {best['batch']}"

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        series = {
            "decisions/s": [(float(r["batch"]), r["decisions_per_s"]) for r in rows],
            "steps/s": [(float(r["batch"]), r["steps_per_s"]["median"]) for r in rows],
        }
        figures.curves(axes, series, x_label="environments", y_label="per second")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")

    notes = (note, "on a machine with other work these are lower bounds of the speed")
    memory = f"{measured['peak_memory_bytes'] / 2**30:.2f} with up to {rows[-1]['batch']}"
    checks = [
        beside("most decisions per second", "-", words),
        beside("most memory of the process or device so far (GiB)", "-", memory),
    ]
    return Outcome([table], checks, {"throughput": measured}, draw, notes)
