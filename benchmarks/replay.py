"""Time of replaying a whole trace of rigid jobs under each policy, one call, per-job records.

    python -m benchmarks.replay philly.csv.gz --servers 309
    taskset -c 0 python -m benchmarks.replay philly-like --jobs 100000 --policies fifo-skip,srtf

Prints for each policy the time of the first call (which compiles), the median of the later ones,
jobs per second and the average JCT; ``--json FILE`` writes it all, ``--records FOLDER`` one table
of all jobs per policy (comma-separated, gzip).
"""

import argparse
import gzip
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.scripts import exit_status

POLICIES = "fifo,fifo-skip,fifo-easy,sjf,srtf,las"


def main() -> None:
    """Replay the trace and print a line for each policy."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace", help="a trace of any format, or a generator such as philly-like")
    parser.add_argument("--servers", type=int, default=309)
    parser.add_argument("--gpus-per-server", type=int, default=8)
    parser.add_argument("--policies", default=POLICIES, help="names with commas between")
    parser.add_argument("--jobs", type=int, help="of a generator: 100000; of a trace: the first")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--records", type=Path)
    options = parser.parse_args()
    run(options)


def run(options: argparse.Namespace) -> None:
    """See ``main``."""
    from jaxsched.errors import JaxschedError
    from jaxsched.provenance import surroundings
    from jaxsched.trace_replay import POLICIES, Cluster, from_trace
    from jaxsched.traces import clusters, load_trace

    names = options.policies.split(",")
    unknown = [name for name in names if name not in POLICIES]
    if unknown:
        raise JaxschedError(f"unknown policy {unknown[0]!r}; accepted: {', '.join(POLICIES)}")
    cluster = Cluster(options.servers, options.gpus_per_server)
    if options.trace in clusters.names():
        trace = clusters.generate_trace(options.trace, 0, options.jobs or 100_000)
    else:
        trace = load_trace(options.trace)
    table = from_trace(trace)
    table = table.window(0, options.jobs or len(table))
    digest = trace.digest()
    print(f"{trace.name}: {len(table):,} jobs on {cluster.num_gpus:,} GPUs, trace {digest[:12]}")
    results: dict[str, Any] = {}
    for name in names:
        found = results[name] = timed(table, cluster, POLICIES[name], options.repeats)
        records = found.pop("records")
        print(
            f"{name:16} {found['median_s']:7.2f} s ({found['first_s']:.1f} s with compiling), "
            f"{len(table) / found['median_s']:9,.0f} jobs/s, avg JCT "
            f"{found['summary']['avg_jct']:,.1f} s",
            flush=True,
        )
        if options.records:
            write_records(options.records / f"{name}.csv.gz", records)
    if options.json:
        about = {
            "trace": trace.name,
            "digest": digest,
            "jobs": len(table),
            "gpus": cluster.num_gpus,
        }
        result = {**about, **surroundings(), "policies": results}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


def timed(table: Any, cluster: Any, policy: Any, repeats: int) -> dict[str, Any]:
    """Times of a replay (s), its figures and its records."""
    from jaxsched.trace_replay import replay, summary

    seconds = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        records = replay(table, cluster, policy)
        seconds.append(time.perf_counter() - began)
    return {
        "first_s": seconds[0],
        "median_s": statistics.median(seconds[1:]),
        "min_s": min(seconds[1:]),
        "max_s": max(seconds[1:]),
        "summary": summary(records, cluster),
        "records": records,
    }


def write_records(path: Path, records: Any) -> None:
    """One row per job, in order of submission."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {name: column for name, column in records._asdict().items() if name != "cut"}
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))


if __name__ == "__main__":
    sys.exit(exit_status(main))
