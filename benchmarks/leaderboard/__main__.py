"""The leaderboard: every policy that can act on rigid jobs, on common workloads, with bounds.

    python -m benchmarks.leaderboard                            generated workloads only
    python -m benchmarks.leaderboard --data DIR                 real ones of that folder as well
    python -m benchmarks.leaderboard --trace my.csv --load 0.8  a trace of your own

Prints, for each workload, the average JCT of every policy and its distance to what no schedule can
beat, for generated ones with --draws 10 also its interval over draws, and at the end all workloads
side by side; writes OUT/leaderboard.json and OUT/leaderboard.png. What OUT/leaderboard.json has is
not played again: stop with Ctrl-C and call it once more.
"""

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.scripts import exit_status


def main() -> int:
    """Play what is asked for and is not there yet; print, write and draw everything."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of public traces")
    parser.add_argument("--workloads", help="names with commas between; all that can be had")
    parser.add_argument("--trace", type=Path, action="append", help="one more trace; repeatable")
    parser.add_argument("--load", type=float, default=0.9, help="of --trace; 0.9")
    parser.add_argument("--policies", help="names with commas between; all by default")
    parser.add_argument("--jobs", type=int, help="play no more than the first so many jobs")
    parser.add_argument("--iterations", type=int, default=30, help="of the bounds from prices")
    parser.add_argument("--seed", type=int, default=0, help="of generated workloads, the first")
    parser.add_argument("--draws", type=int, default=1, help="of each generated workload")
    parser.add_argument("--out", type=Path, default=Path("runs/leaderboard"))
    return exit_status(partial(run, parser.parse_args()))


def run(options: argparse.Namespace) -> None:
    """See ``main``."""
    from benchmarks.leaderboard import Standings, play, prepare
    from benchmarks.leaderboard.picture import draw
    from benchmarks.leaderboard.text import overall_table, workload_table
    from jaxsched.bench.timing import surroundings
    from jaxsched.files import write_whole

    policies = chosen_policies(options.policies)
    workloads = chosen_workloads(options)
    file = options.out / "leaderboard.json"
    options.out.mkdir(parents=True, exist_ok=True)
    settings = {
        "policies": list(policies),
        "jobs": options.jobs,
        "iterations": options.iterations,
        "seed": options.seed,
        "draws": options.draws,
    }
    done = finished(file, settings)
    for number, workload in enumerate(workloads, 1):
        ready = prepare(workload, options.data, seed=options.seed, num_jobs=options.jobs)
        if not same_work(done.get(workload.name), ready):
            began = time.perf_counter()

            def report(line: str, name: str = workload.name, number: int = number) -> None:
                print(f"[{number}/{len(workloads)} {name}] {line}", flush=True)

            report(f"{len(ready.table):,} jobs on {ready.cluster.num_gpus} GPUs")
            draws = [ready, *redrawn(workload, ready, options)]
            found = play(draws, policies, iterations=options.iterations, report=report)
            report(f"done in {time.perf_counter() - began:.0f} s")
            done[workload.name] = found.to_json()
            document = {"settings": settings, **surroundings(), "workloads": done}
            write_whole(file, (json.dumps(document, indent=1) + "\n").encode())
    boards = [Standings.from_json(done[workload.name]) for workload in workloads]
    for board in boards:
        print("\n" + "\n".join(workload_table(board)))
    print("\n" + "\n".join(overall_table(boards)))
    draw(options.out / "leaderboard.png", boards)
    print(f"\nwritten to {file} and {options.out / 'leaderboard.png'}")


def redrawn(workload: Any, first: Any, options: argparse.Namespace) -> list[Any]:
    """A generated workload again with the seeds that follow, on the same cluster; else nothing."""
    from benchmarks.leaderboard import prepare

    if not workload.is_generated:
        return []
    seeds = range(options.seed + 1, options.seed + options.draws)
    same = workload._replace(load=first.load, num_servers=first.cluster.num_servers)
    return [prepare(same, None, seed=seed, num_jobs=options.jobs) for seed in seeds]


def chosen_policies(names: str | None) -> dict[str, Any]:
    """The policies asked for, all by default."""
    from jaxsched.errors import JaxschedError
    from jaxsched.trace_replay import POLICIES

    if names is None:
        return dict(POLICIES)
    unknown = [name for name in names.split(",") if name not in POLICIES]
    if unknown:
        raise JaxschedError(f"unknown policy {unknown[0]!r}; accepted: {', '.join(POLICIES)}")
    return {name: POLICIES[name] for name in names.split(",")}


def chosen_workloads(options: argparse.Namespace) -> list[Any]:
    """The workloads asked for; by default the generated ones and those whose files are there."""
    from benchmarks.leaderboard import WORKLOADS, Workload
    from jaxsched.errors import JaxschedError
    from jaxsched.traces.text import stem

    own = [Workload(stem(path), str(path.resolve()), options.load) for path in options.trace or ()]
    if len({workload.name for workload in own}) < len(own):
        found = ", ".join(workload.name for workload in own)
        raise JaxschedError(f"traces are named {found}; accepted: files of different names")
    by_name = {workload.name: workload for workload in (*WORKLOADS, *own)}
    if options.workloads is None:
        return own or [
            workload
            for workload in WORKLOADS
            if workload.is_generated or (options.data and (options.data / workload.source).exists())
        ]
    mine = {workload.name for workload in own}
    unknown = [name for name in options.workloads.split(",") if name not in by_name]
    if unknown:
        raise JaxschedError(f"unknown workload {unknown[0]!r}; accepted: {', '.join(by_name)}")
    return [*own, *(by_name[name] for name in options.workloads.split(",") if name not in mine)]


def finished(file: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Workloads of an earlier call with the same settings; none if the file is no such record."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(document, dict) or document.get("settings") != settings:
        return {}
    workloads = document.get("workloads")
    return workloads if isinstance(workloads, dict) else {}


def same_work(done: Any, ready: Any) -> bool:
    """Whether a workload of an earlier call has the jobs and the cluster of this one."""
    return isinstance(done, dict) and all(
        done.get(name) == value
        for name, value in {
            "digest": ready.digest,
            "num_jobs": len(ready.table),
            "num_servers": ready.cluster.num_servers,
        }.items()
    )


if __name__ == "__main__":
    sys.exit(main())
