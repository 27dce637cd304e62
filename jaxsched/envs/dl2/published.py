"""What DL2's published simulator gives, beside what was measured here (artefact track, section 9).

Completion times in slots: ``coarse`` counts whole slots, ``fine`` the last one up to the end. The
saved numbers of learned policies are coarse, and come with the code's authors' files.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxsched.envs.dl2.traces import published_tables
from jaxsched.jobs import JobTable, digest_tables
from jaxsched.systems.claims import row


class Published(NamedTuple):
    """Means over sequences."""

    coarse: float
    fine: float | None = None
    makespan: float | None = None  # in whole slots
    slot_reward: float | None = None


FIVE = {
    "drf_artefact": Published(7.373, 6.774, 59.6, 1.018),
    "optimus_artefact": Published(3.530, 2.831, 42.8, 1.404),
    "srtf_artefact": Published(23.640, 22.882, 84.4, 0.716),
    "fifo_artefact": Published(23.690, 22.930, 84.4, 0.716),
    "tetris_artefact": Published(22.160, 21.373, 85.6, 0.704),
    "DL2, saved at step 400": Published(5.570),
    "DL2, saved at step 500": Published(5.577),
}
"""On the five sequences that are shipped."""

TEN = {
    "drf_artefact": Published(9.363, 8.798, 64.1, 0.952),
    "optimus_artefact": Published(3.690, 3.011, 44.7, 1.353),
    "srtf_artefact": Published(25.443, 24.690, 88.0, 0.690),
    "fifo_artefact": Published(25.452, 24.700, 87.9, 0.691),
    "tetris_artefact": Published(25.140, 24.361, 89.6, 0.677),
    "DL2, saved at step 400": Published(6.222),
    "DL2, saved at step 500": Published(6.160),
    "DL2, a longer run, steps 5000 to 6000": Published(5.65, None, 55.0),
}
"""On all ten that were published."""

METRICS = {
    "coarse": ("avg_jct_coarse", "JCT, whole slots"),
    "fine": ("avg_jct_slots", "JCT, slots"),
    "makespan": ("makespan_coarse", "makespan, whole slots"),
    "slot_reward": ("mean_slot_reward", "reward of a slot"),
}
COARSE = "avg_jct_coarse"


def published_table(
    tables: Sequence[JobTable], summary: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """Each policy with a published figure, that figure and what was measured.

    Args:
      tables: what was played. Figures are of these sequences if they are the shipped ones, else of
        the ten published, and so not of what was played.
      summary: policy -> mean of each metric.

    Returns:
      ``title``, ``columns`` and ``rows`` of words.
    """
    same = digest_tables(tables) == digest_tables(published_tables())
    figures, of = (FIVE, "these five sequences") if same else (TEN, "its ten sequences")
    columns = ["policy"]
    for _, words in METRICS.values():
        columns += [f"{words}: published", "here"]
    names = [*figures, *(name for name in summary if name not in figures)]
    rows = []
    for name in names:
        row = [name]
        for field, (metric, _) in METRICS.items():
            known = getattr(figures[name], field) if name in figures else None
            row.append("" if known is None else f"{known:g}")
            row.append(f"{summary[name][metric]:.3f}" if name in summary else "")
        rows.append(row)
    title = f"DL2's published simulator, on {of}, and here"
    return {"title": title, "columns": columns, "rows": rows}


NEAR = 0.05  # of the saved result, within which ours reproduces it


def published_claims(
    summary: Mapping[str, Mapping[str, float]], learned: str
) -> list[dict[str, Any]]:
    """Targets of a policy learned in the simulator: DRF, the saved DL2, the Optimus that knows all.

    Compared by its own run on the same sequences where there is one.
    """
    here = summary[learned][COARSE]
    drf, oracle = (summary[f"{name}_artefact"][COARSE] for name in ("drf", "optimus"))
    near = abs(drf - FIVE["drf_artefact"].coarse) < 0.001  # the five shipped sequences
    saved = (FIVE if near else TEN)["DL2, saved at step 500"].coarse
    return [
        row("JCT in whole slots against DRF's", round(drf, 3), here, says=f"< {drf}", none=drf),
        row("against the saved DL2's, step 500", saved, here, says=f"= {saved} +- {NEAR * saved}"),
        row(
            "against the Optimus that knows speeds",
            round(oracle, 3),
            here,
            says=f"< {oracle}",
            none=oracle,
        ),
    ]
