"""The commands that pages show, which of them tests run, and the files that these read."""

import gzip
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as arrow
from pyarrow import parquet

from jaxsched.runs import checkpoints, saved_policies
from jaxsched.systems import functions, registry
from tests.docs.pages import ROOT, blocks, inline, name_of, pages


def commands(page) -> Iterator[str]:
    """Every line that calls the command line, or one of the examples through it."""
    code = [block.code for block in blocks(page) if block.language != "python"]
    for part in (*code, *inline(page)):
        for line in re.sub(r"\\\n\s*", " ", part).splitlines():
            words = re.sub(r"\s{2,}.*$", "", line.strip().removeprefix("$ "))  # words beside it
            words = re.sub(r"^(?:\w+=\S+ |srun(?: --\S+)* |mpirun -n \d+ )+", "", words)
            words = re.sub(r"^python examples/new_environment\.py ", "jaxsched ", words)
            if re.match(r"jaxsched [a-z]", words) and "..." not in words:
                yield words


ALL = [(name_of(page), words) for page in pages() for words in commands(page)]


class Rule(NamedTuple):
    """Commands that are run, and what is added so that they end soon.

    Attributes:
      pattern: of the whole command.
      more: further words; of an option that is given twice the last one counts.
    """

    pattern: str
    more: str = ""


FEW = "--num-traces 1 --num-jobs 20"
QUICK = (
    Rule(r"jaxsched list( \w+)?"),
    Rule(r"jaxsched doctor"),
    Rule(r"jaxsched traces list"),
    Rule(r"jaxsched traces (describe|import) .*"),
    Rule(r"jaxsched traces generate .*", "--num-jobs 200"),
)
"""No program is compiled."""

ADVICE = "--policies fifo,sjf --no-capacity"
COMPILED = (
    Rule(r"jaxsched evaluate sched2(/| --policy (sched2/)?)pretrained.*", FEW),
    Rule(r"jaxsched compare sched2 --\w+ runs/\w+ --html .*", f"{FEW} --policies fifo"),
    Rule(r"jaxsched simulate .*"),
    Rule(r"jaxsched leaderboard --trace jobs.txt .*", "--processes 1"),
    Rule(r"jaxsched advise month.csv (?!.*runs/mine).*", ADVICE),
    Rule(r"jaxsched replay (sched2-mixed|runs/\w+) .*", "--num-jobs 20"),
    Rule(r"jaxsched replay philly-like .*", "--num-jobs 50"),
)
"""Programs are compiled: extended tests. Trainings, benchmarks, whole comparisons and other
leaderboards take longer; what they do is tested in ``tests/cli``, ``tests/bench`` and
``tests/leaderboard``."""

MONTH = (
    Rule(
        r"jaxsched train cluster .* --trace month.csv .*",
        "--preset quick --set loop.num_updates=1 --set env.window=8",
    ),
    Rule(r"jaxsched compare cluster --checkpoint runs/mine .*", "--policies fifo"),
    Rule(r"jaxsched advise month.csv .*runs/mine .*", ADVICE),
)
"""A policy from one's own log, one after the other: extended."""

EXPORTS = (Rule(r"jaxsched export (runs/paper|sched2).*"),)
"""Slow: each traces, compiles and compares several programs."""


def chosen(rules: tuple[Rule, ...]) -> list[str]:
    """The commands of the pages that rules name, each once, with what is added."""
    found = {}
    for page, words in ALL:
        if page.startswith("docs/results/") or re.search(r"\[| [A-Z]{2,}\b", words):
            continue  # long ones, and what stands for the reader's own
        for rule in rules:
            if re.fullmatch(rule.pattern, words):
                found[words] = f"{words} {rule.more}".strip()
    return list(found.values())


def write_files(folder: Path) -> None:
    """What the pages call the reader's own: a log, a published trace, a case, a run."""
    lines = log_of(60)
    log = "\n".join(lines) + "\n"
    (folder / "cluster.csv").write_text(log)
    (folder / "month.csv").write_text(with_starts(log_of(150)))
    (folder / "philly.csv.gz").write_bytes(gzip.compress(log.encode()))
    (folder / "cluster_log.csv").write_text(HELIOS)
    (folder / "log.csv").write_text(log.replace(lines[0], "when,cards,took"))
    (folder / "jobs.txt").write_text(SACCT)
    (folder / "windows.csv").write_text("servers,begin,end\n0-1,60,3600\n")
    columns = zip(*(map(int, line.split(",")) for line in lines[1:]), strict=True)
    made = dict(zip(("created", "gpus", "elapsed"), map(list, columns), strict=True))
    parquet.write_table(arrow.table(made), folder / "log.parquet")
    case = ROOT / "tests" / "golden" / "sched2" / "01_worked_example.json"
    shutil.copy(case, folder / "case.json")
    (folder / "tests").symlink_to(ROOT / "tests")


def log_of(num_jobs: int) -> list[str]:
    """The lines of a log of rigid jobs that come over eleven hours."""
    draw = np.random.default_rng(0)
    submit = np.sort(draw.integers(0, 40_000, num_jobs))
    submit -= submit[0]
    lines = ["submit_time,num_gpus,duration"]
    for time in submit:
        lines.append(f"{time},{draw.choice([1, 2, 4, 8])},{draw.integers(300, 7200)}")
    return lines


def with_starts(lines: list[str]) -> str:
    """The log with a user and a start of each job, a minute after its submission."""
    rows = [f"{lines[0]},start_time,user"]
    for k, line in enumerate(lines[1:]):
        rows.append(f"{line},{int(line.split(',')[0]) + 60},{'ab'[k % 2]}")
    return "\n".join(rows) + "\n"


def write_run(folder: Path) -> None:
    """A run directory with the policy that comes with SCHED2."""
    system = registry.get("sched2")
    learned, saved = saved_policies.load("pretrained", system)
    facts = {
        "system": system.name,
        "behaviour_version": system.environment.behaviour_version,
        "environment": functions.environment_options(system, learned.env),
        "network": learned.network,
        "play": learned.play,
        "seed": 0,
        system.metrics.primary: 1.0,
    }
    checkpoints.save(folder / "policies" / "seed0", 1, saved[0].weights, facts)


SACCT = """JobID|Submit|Start|End|State|AllocTRES
1001|2026-03-02T08:00:00|2026-03-02T08:01:00|2026-03-02T09:01:00|COMPLETED|cpu=8,mem=32G,gres/gpu=2
1002|2026-03-02T08:05:00|2026-03-02T09:01:00|2026-03-02T11:00:00|COMPLETED|cpu=8,mem=32G,gres/gpu=4
1003|2026-03-02T09:00:00|2026-03-02T11:00:00|2026-03-02T11:30:00|FAILED|cpu=8,mem=32G,gres/gpu=1
"""
HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,\
duration,queue
1,u1,v,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
2,u2,v,16,64,2,TIMEOUT,2020-06-09 18:41:27,2020-06-09 18:41:37,2020-06-09 18:45:46,249,10
3,u3,v,2,1,1,COMPLETED,2020-06-09 18:42:29,2020-06-09 18:42:29,2020-06-09 19:42:29,3600,0
"""


def run_words(words: str) -> list[str]:
    """Arguments of a command."""
    return shlex.split(words, comments=True)[1:]
