"""The replay page: recorded schedules and the script that draws them, in one HTML file.

The script stands in ``templates/``; the schedules travel in the page as JSON.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.files import write_whole
from jaxsched.jobs.schedule import Schedule
from jaxsched.report.html import script_safe, templates_of
from jaxsched.report.replay.aligned import aligned
from jaxsched.report.style import colour_sheet, replay_colours
from jaxsched.units import readable_time

NARROW = "\u202f"  # space between a number and its unit


def write_replay(
    schedules: Sequence[Schedule], path: str | Path, *, title: str, facts: Mapping[str, str]
) -> Path:
    """Write ``render_replay`` to ``path`` whole (UTF-8, parents created) and return the path."""
    target = Path(path)
    page = render_replay(schedules, title=title, facts=facts)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, page.encode())
    return target


def render_replay(schedules: Sequence[Schedule], *, title: str, facts: Mapping[str, str]) -> str:
    """The whole page, which loads nothing.

    Args:
      schedules: of one episode, one for each policy; side by side in this order.
      title: of the page.
      facts: name -> what is known of all of them, shown at the top.

    Raises:
      JaxschedError: there is none, or they are of different jobs.
    """
    if not schedules:
        raise JaxschedError("there is no schedule to show; accepted: one or more")
    counts = [len(schedule.submit) for schedule in schedules]
    if len(set(counts)) > 1:
        raise JaxschedError(
            f"the schedules have {', '.join(map(str, counts))} jobs; accepted: one episode under "
            "several policies"
        )
    schedules = aligned(schedules)
    content = {
        "schedules": [schedule.to_json() for schedule in schedules],
        "colours": replay_colours(),
    }
    return str(
        templates_of("jaxsched.report.replay")
        .get_template("replay.html.j2")
        .render(
            title=title,
            sheet=colour_sheet(),
            facts=[(name, fact) for name, fact in facts.items() if fact],
            panels=[_panel(index, schedule) for index, schedule in enumerate(schedules)],
            data=script_safe(json.dumps(content, separators=(",", ":"), allow_nan=False)),
        )
    )


def _panel(index: int, schedule: Schedule) -> dict[str, Any]:
    rows = f"{schedule.num_rows} rows of {schedule.unit}s"
    words = summary_of(schedule)
    told = ", ".join(f"{name} {value}" for name, value in words)
    return {
        "index": index,
        "policy": schedule.policy,
        "summary": words,
        "label": f"Schedule of {len(schedule.submit)} jobs on {rows} under {schedule.policy}: "
        f"{told}",
        "notes": schedule.notes,
        "decides": schedule.decisions is not None,
    }


def summary_of(schedule: Schedule) -> list[tuple[str, str]]:
    """Names and texts of the figures that a reader wants first; means over finished jobs."""
    done = schedule.finish >= 0
    words = [("finished", f"{int(done.sum())} of {len(done)}")]
    if done.any():
        completion = schedule.finish[done] - schedule.submit[done]
        waited = (schedule.start - schedule.submit)[done]
        span = schedule.finish[done].max() - schedule.submit.min()
        words += [
            ("mean completion time", readable_time(float(completion.mean()), NARROW)),
            ("mean wait", readable_time(float(waited.mean()), NARROW)),
            ("makespan", readable_time(float(span), NARROW)),
        ]
    if schedule.deadline is not None and done.any():
        met = np.mean(schedule.finish[done] <= schedule.deadline[done])
        words.append(("deadlines met", f"{100 * met:.0f}\u202f%"))
    return words
