"""Every cell of the pages of results is of the recipe, setting and episodes that its column says.

Pages are read as text and the papers' own recipes as JSON, without the code that makes the pages.
"""

import json
import lzma
import re
import shlex
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks.evidence.parts import OwnReading
from benchmarks.evidence.sources import plays
from benchmarks.evidence.systems import SYSTEMS
from benchmarks.papers.chic import common, mixed
from jaxsched.systems.claims import NOT_REPRODUCED, VERDICTS

ROOT = Path(__file__).parents[3]
RESULTS, PAGES = ROOT / "benchmarks" / "results", ROOT / "docs" / "results"
SUMMARY = (PAGES / "README.md").read_text(encoding="utf-8")
FRONT = (ROOT / "README.md").read_text(encoding="utf-8")


@cache
def document(name):
    packed = RESULTS / f"{name}.xz"
    text = (
        lzma.decompress(packed.read_bytes()) if packed.is_file() else (RESULTS / name).read_text()
    )
    return json.loads(text)


def tables(text):
    """Rows of all tables, as cells by heading."""
    found, head = [], None
    for line in text.splitlines():
        if not line.startswith("|"):
            head = None
            continue
        cells = [
            cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")
        ]
        if head is None:
            head = cells
        elif set("".join(cells)) - set("-|"):
            found.append(dict(zip(head, cells, strict=True)))
    return found


def system_of(cell):
    return re.search(r"\((?:docs/results/)?(\w+)\.md\)", cell)[1]


def options(command):
    """The preset and the changes of a command or of a part of one."""
    words = shlex.split(command)
    changes = {words[i + 1] for i, word in enumerate(words) if word == "--set"}
    named = [word for word in ("--preset", "--cases") if word in words]
    preset = words[words.index(named[0]) + 1] if named else None
    return preset, {re.sub(r"\s", "", change) for change in changes}


def trained_by(system, file):
    """The command that trained the policies of a file: its own, or that of the notes."""
    command = document(file)["command"]
    if "jaxsched train" in command or "--cases" in command:
        return command
    run = re.search(r"--checkpoint (\S+)", command)[1]
    notes = re.sub(r"\s+", " ", (PAGES / f"{system}_notes.md").read_text(encoding="utf-8"))
    (found,) = [c for c in re.findall(r"`(jaxsched train [^`]*)`", notes) if f"--out {run}" in c]
    return found


def estimate(cell):
    return float(re.match(r"[+-][\d.]+", cell)[0])


def values(found, name, metric):
    (entry,) = [p for p in found["policies"] if p["name"] == name]
    return np.atleast_2d(np.asarray(entry["metrics"][metric], float))


def check_comparison(row, system, file):
    found = document(file)
    assert options(row["recipe"].strip("`")) == options(trained_by(system, file)), "recipe"
    assert row["cluster"] == found["facts"]["cluster"], "cluster"
    count, source = found["episodes"]["count"], found["episodes"]["source"]
    assert row["episodes"] == f"{count} of {source}", "episodes"
    (own,) = [o for e in SYSTEMS if e.system == system for o in e.own if told_in(o, row)]
    learned = values(found, own.player.policy, own.metrics[0])
    rule = values(found, row["against"].strip("`"), own.metrics[0])
    assert learned.shape == (int(row["seeds"]), count), "seeds"
    assert abs(100 * (learned.mean() / rule.mean() - 1) - estimate(row["change"])) < 0.006, "change"
    if row["untrained network"] != "-":
        before = values(found, f"{own.player.policy}, untrained", own.metrics[0])
        change = 100 * (before.mean() / rule.mean() - 1)
        assert abs(change - estimate(row["untrained network"])) < 0.006, "untrained network"


def told_in(own, row):
    file = own.player.file if hasattr(own, "player") else own.file
    return f"`{file}`" == row["file"] and f"`{own.against}`" == row["against"]


def check_ratios(row, file):
    (found,) = document(file)
    assert row["cluster"] == f"{found['num_servers']} machines", "cluster"
    assert row["episodes"].startswith(f"{found['episodes']}: das-normal, "), "episodes"
    assert int(row["seeds"]) == len(found["seeds"]), "seeds"
    assert not found["variants"] and options(row["recipe"].strip("`")) == ("paper", set()), "recipe"
    for column, policy in (("change", "learned"), ("untrained network", "untrained")):
        ratio = found["policies"][policy]["ratios"]["JCT (min)"][0]
        assert abs(100 * (ratio - 1) - estimate(row[column])) < 0.006, column


def check_pairs(row, file):
    """A file of ``benchmarks.mlfs_pairs``; the notes tell how its policies were trained."""
    found = document(file)
    notes = re.sub(r"\s+", " ", (PAGES / "mlfs_notes.md").read_text(encoding="utf-8"))
    preset, changes = options(row["recipe"].strip("`"))
    told = " ".join(
        ["jaxsched train mlfs --preset", preset, *(f"--set {x}" for x in sorted(changes))]
    )
    assert f"`{told} --num-seeds" in notes and f"`benchmarks/results/{file}.xz`" in notes, "recipe"
    assert (row["cluster"], found["cluster"]) == ("5 servers of 4 GPUs", "small"), "cluster"
    assert row["episodes"] == f"{found['draws']} of mlfs-small-x3", "episodes"
    (metrics,) = (load["metrics"] for load in found["loads"].values())
    rule = np.asarray(metrics[row["against"].strip("`")]["avg_jct"])
    for column, policy in (("change", "searched"), ("untrained network", "untrained")):
        learned = np.atleast_2d(metrics[policy]["avg_jct"])
        assert policy == "untrained" or learned.shape == (int(row["seeds"]), found["draws"]), (
            "seeds"
        )
        change = 100 * (learned.mean() / rule.mean() - 1)
        assert abs(change - estimate(row[column])) < 0.006, column


def check_readings(row, system, file):
    preset, changes = options(row["recipe"].strip("`"))
    found = document(file)
    (name,) = [n for n, told in found["readings"].items() if set(told["changes"]) == changes]
    (own,) = [o for e in SYSTEMS if e.system == system for o in e.own if of_reading(o, file, name)]
    assert preset == own.study.preset_of(own.name), "recipe"
    assert row["episodes"] == f"{own.study.test.number} of {own.study.test.name}", "episodes"
    (world,) = [part for part in found["loads"].values() if name in part["metrics"]]
    assert world["seed"] == own.study.test.seed, "episodes"
    rule = np.asarray(world["metrics"][row["against"].strip("`")][own.study.shown])
    for column, policy in (("change", name), ("untrained network", f"{name}, untrained")):
        learned = np.asarray(world["metrics"][policy][own.study.shown])
        assert learned.shape == (int(row["seeds"]), own.study.test.number), "seeds"
        change = 100 * (learned.mean() / rule.mean() - 1)
        assert abs(change - estimate(row[column])) < 0.006, column


def of_reading(own, file, name):
    return isinstance(own, OwnReading) and (own.file, own.name) == (file, name)


def check_recipe(row):
    """A row of the table of the papers' own recipes against its file."""
    system, file = system_of(row["system"]), row["file"].strip("`")
    if re.match(r"\w+_readings_", file):
        check_readings(row, system, file)
    elif file.startswith("das_paper"):
        check_ratios(row, file)
    elif "draws" in document(file):
        check_pairs(row, file)
    else:
        check_comparison(row, system, file)


RECIPES = [row for row in tables(SUMMARY) if "recipe" in row]


@pytest.mark.parametrize("row", RECIPES, ids=lambda row: row["file"].strip("`") + row["against"])
def test_own_recipes_are_those_of_their_files(row):
    check_recipe(row)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("recipe", "`--preset quick`"),
        ("cluster", "13 servers of 2 GPUs"),
        ("episodes", "100 of dl2-testbed"),
        ("seeds", "5"),
        ("change", "-44.10 %"),
    ],
)
def test_a_cell_of_something_else_is_found(column, value):
    row = next(row for row in RECIPES if row["file"] == "`dl2_paper_cpu2.json`")
    with pytest.raises(AssertionError, match=column):
        check_recipe(row | {column: value})


def test_every_own_recipe_stands_in_the_summary():
    assert len(RECIPES) == sum(len(evidence.own) for evidence in SYSTEMS)
    masked = [row for row in RECIPES if system_of(row["system"]) == "sched2"]
    assert all("masked" in r["departures from the text"] for r in masked)
    assert all("discount" in r["departures from the text"] for r in masked)


def counted(text):
    return {
        system_of(next(iter(row.values()))): tuple(int(row[verdict]) for verdict in VERDICTS)
        for row in tables(text)
        if set(VERDICTS) < set(row)
    }


def test_verdicts_are_counted_as_they_stand_on_the_pages():
    pages = {}
    for evidence in SYSTEMS:
        rows = tables((PAGES / f"{evidence.system}.md").read_text(encoding="utf-8"))
        claims = [row for row in rows if "verdict" in row]
        found = Counter(row["verdict"] for row in claims)
        assert set(found) <= {*VERDICTS, "-"}
        assert all(r["reason"] != "-" for r in claims if r["verdict"] == NOT_REPRODUCED)
        pages[evidence.system] = tuple(found[verdict] for verdict in VERDICTS)
    assert counted(SUMMARY) == pages
    assert counted(FRONT) == pages


FRONT_ROWS = [row for row in tables(FRONT) if "best rule known" in row]


@pytest.mark.parametrize("number", range(len(FRONT_ROWS)))
def test_the_front_page_has_the_episodes_and_rules_of_its_files(number):
    row = FRONT_ROWS[number]
    label = row["system, fresh episodes"]
    linked = next(r for r in FRONT_ROWS[number::-1] if "](" in r["system, fresh episodes"])
    system = system_of(linked["system, fresh episodes"])
    plain = [re.sub(r"(?<=\d) (?=\d{3})", "", row[name]) for name in ("learned", "best rule known")]
    shown = [float(re.search(r"[\d.]+", text)[0]) for text in plain]
    rule = re.search(r"`(\w+)`", row["best rule known"])[1]
    (evidence,) = [e for e in SYSTEMS if e.system == system]
    for contest in evidence.contests:
        if contest.rule_name != rule:
            continue
        played = plays(contest.learned.file, contest.learned.part)
        both = [played.of(n, contest.metrics[0]) for n in (contest.learned.policy, contest.rule)]
        digits = [
            len(str(x).partition(".")[2]) if "." in t else 0
            for x, t in zip(shown, plain, strict=True)
        ]
        if all(
            abs(v.mean() - x) <= 0.51 * 10**-d for v, x, d in zip(both, shown, digits, strict=True)
        ):
            episodes = re.search(r"(\d+) (?:tables|sequences|episodes|workloads)", label)
            assert episodes is None or int(episodes[1]) == both[0].shape[1]
            return
    pytest.fail(f"no contest of {system} has {shown} against {rule}")


CONTESTS = [(evidence, contest) for evidence in SYSTEMS for contest in evidence.contests]


@pytest.mark.parametrize(("evidence", "contest"), CONTESTS, ids=lambda part: part.title)
def test_titles_of_contests_are_of_their_files(evidence, contest):
    played = plays(contest.learned.file, contest.learned.part)
    episodes = played.of(contest.rule, contest.metrics[0]).shape[1]
    told = re.search(r"(\d+|one) fresh", contest.title)
    assert told is None or told[1].replace("one", "1") == str(episodes)
    cluster = played.facts.get("cluster", "")
    place = re.search(r"(\d+) (servers|machines)", contest.title)
    if place and cluster:
        assert re.match(r"\d+", cluster)[0] == place[1], cluster
    page = (PAGES / f"{evidence.system}.md").read_text(encoding="utf-8")
    assert f"## Learned against `{contest.rule_name}`: {contest.title}\n" in page


def test_recipes_that_reasons_name_are_those_of_the_rows():
    named = 0
    for system in ("sched2", "chic"):
        page = (PAGES / f"{system}.md").read_text(encoding="utf-8")
        for claim in tables(page):
            recipe = re.search(r"by our recipe `(\w+)`", claim.get("reason", ""))
            if recipe is None:
                continue
            if system == "sched2":
                of_row = document(f"sched2_{claim['row']}_cpu2.json")["settings"]["preset"]
            else:
                of_row = (mixed if claim["row"] in ("M", "X4") else common).PRESETS["chic"]
            assert recipe[1] == of_row, claim
            named += 1
    assert named > 20
