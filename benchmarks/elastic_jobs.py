"""Elastic jobs of Pollux' workloads under every policy, beside what its simulator published.

    python -m benchmarks.elastic_jobs --data DIR [--published DIR] [--out FILE.json]

``--data``: the folder with ``traces`` and ``workloads*`` of Pollux' simulator
(github.com/petuum/adaptdl, branch osdi21-artifact, ``simulator``). ``--published``: its folder
``results-jobload``, with completion times of every job; of Tiresias' jobs it is counted how many
have the published time to the second. 16 nodes of 4 GPUs; eight workloads of each load.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status, read_json, table
from jaxsched.errors import JaxschedError
from jaxsched.files import write_whole
from jaxsched.provenance import surroundings
from jaxsched.trace_replay.elastic import POLICIES, read_workload, replay_elastic
from jaxsched.trace_replay.goodput import read_applications

FOLDERS = {"0.5": "workloads-0.5", "1.0": "workloads", "1.5": "workloads-1.5"}
FOLDERS |= {"2.0": "workloads-2.0", "realistic": "workloads-realistic"}
"""Load, in 160 jobs in eight hours, and its folder; ``realistic``: as users configure jobs."""
PUBLISHED = ("tiresias", "pollux", "optimus")
SHARED = "tiresias"
"""The policy that both play."""


def play(data: Path, published: Path | None) -> dict[str, Any]:
    """Means of every workload by load and policy.

    Raises:
      JaxschedError: files are missing or wrong.
    """
    applications = read_applications(data / "traces")
    loads: dict[str, Any] = {}
    for load, folder in FOLDERS.items():
        files = sorted((data / folder).glob("workload-*.csv"))
        if not files:
            raise JaxschedError(f"{data / folder}: has no workload-K.csv")
        theirs = _published(published, load)
        found: dict[str, Any] = {"jobs": [], "avg_jct": {}, "p99_jct": {}, "restarts": {}}
        same = total = 0
        for file in files:
            jobs = read_workload(file)
            found["jobs"].append(len(jobs))
            for policy in POLICIES:
                records = replay_elastic(jobs, applications, policy)
                for name, value in (
                    ("avg_jct", np.mean(records.jct)),
                    ("p99_jct", np.percentile(records.jct, 99)),
                    ("restarts", np.mean(records.restarts)),
                ):
                    found[name].setdefault(policy, []).append(float(value))
                if policy == SHARED and SHARED in theirs:
                    times = theirs[SHARED]["jcts"][file.stem]
                    same += sum(
                        times[job.name] == jct
                        for job, jct in zip(jobs, records.jct.tolist(), strict=True)
                    )
                    total += len(jobs)
        found["published"] = {
            policy: [document["avgs"][file.stem] for file in files]
            for policy, document in theirs.items()
        }
        if total:
            found["tiresias_equal"] = [same, total]
        loads[load] = found
        print(
            f"{load}: { ({p: round(np.mean(v)) for p, v in found['avg_jct'].items()}) }", flush=True
        )
    return loads


def _published(folder: Path | None, load: str) -> dict[str, Any]:
    if folder is None:
        return {}
    files = {policy: folder / f"{policy}-{load}" / "summary.json" for policy in PUBLISHED}
    return {policy: read_json(file) for policy, file in files.items() if file.exists()}


def shown(loads: dict[str, Any]) -> str:
    """Mean completion times (s) over the workloads of each load, ours and published ones."""
    head = ["load", "jobs", *(f"`{policy}`" for policy in POLICIES)]
    head += [f"published: {policy}" for policy in PUBLISHED]
    rows = []
    for load, found in loads.items():
        theirs = [found["published"].get(policy) for policy in PUBLISHED]
        cells = [*(found["avg_jct"][policy] for policy in POLICIES), *theirs]
        means = [f"{np.mean(each):,.0f}" if each else "-" for each in cells]
        rows.append([load, f"{len(found['jobs'])} x {found['jobs'][0]}", *means])
    return table(head, rows)


def main() -> None:
    """Play, print the table, write what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--published", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    loads = play(options.data, options.published)
    print(shown(loads))
    for load, found in loads.items():
        if "tiresias_equal" in found:
            same, total = found["tiresias_equal"]
            print(f"{load}: {same} of {total} jobs under {SHARED} end as published")
    if options.out is not None:
        document = {**surroundings(), "loads": loads}
        write_whole(options.out, (json.dumps(document, indent=1) + "\n").encode())


if __name__ == "__main__":
    sys.exit(exit_status(main))
