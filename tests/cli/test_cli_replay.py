"""``jaxsched replay``: what a page can be made of, and what is refused."""

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest

from jaxsched.cli import main
from jaxsched.jobs.schedule import Pieces, Schedule
from jaxsched.results import recorded
from jaxsched.systems import functions, golden, registry
from tests.command_line import refused

GOLDEN = Path(__file__).parents[1] / "golden"
SHIPPED = Path(__file__).parents[2] / "jaxsched" / "envs" / "chic" / "pretrained"
MUTATIONS = 200
SMALL = {
    "sched2": "01_worked_example",
    "dl2": "hand_one_job",
    "chic": "optimus_hand",
    "das": "hand_two_machines",
    "mlfs": "02_chain_worked",
}


def schedules_of(path):
    """The schedules in a page."""
    data = path.read_text(encoding="utf-8").split('id="schedules">')[1].split("</script>")[0]
    return json.loads(data)["schedules"]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A trained policy beside a heuristic."""
    path = tmp_path_factory.mktemp("replay") / "page.html"
    arguments = ["replay", str(SHIPPED), "--policy", "round_robin", "--num-jobs", "4"]
    assert main([*arguments, "--html", str(path)]) == 0
    return path


@pytest.mark.slow  # tests/test_examples.py does the same with a smaller system
def test_a_trained_policy_beside_a_heuristic(page):
    learned, heuristic = schedules_of(page)
    assert (learned["policy"], heuristic["policy"]) == ("pretrained", "round_robin")
    assert learned["submit"] == heuristic["submit"] and len(learned["submit"]) == 4
    assert heuristic["decisions"] is None
    kept = learned["decisions"]
    assert kept["choices"][-1] == "void" and kept["every"] == 1
    assert len(kept["inputs"]) == len(kept["seen"][0])
    for scores, chosen in zip(kept["scores"], kept["chosen"], strict=True):
        legal = [(score, -i) for i, score in enumerate(scores) if score is not None]
        assert len(legal) > 1 and max(legal)[0] == scores[chosen]


@pytest.mark.slow  # golden cases say the same of policies that do not draw
def test_a_schedule_is_what_an_evaluation_plays():
    system = registry.get("chic")
    env = functions.environment(system)
    (table,) = system.jobs.workload.traces[0].make(0, 1, 30)[:1]
    table = table.take(slice(0, 4))
    player = recorded.players(system, ["random"], [], env, 4, {})[0]
    played = functions.play(system, player.env, player.policy, player.env.params([table]))
    schedule = recorded.record(system, player, table)
    jct = float(np.mean(schedule.finish - schedule.submit))
    assert jct == pytest.approx(float(played.metrics["avg_jct"][0]), rel=1e-6)
    busy = next(line for line in schedule.lines if line.chart == "utilisation")
    used = float(np.sum(np.diff(busy.times) * busy.values[:-1]))
    makespan = float(played.metrics["makespan"][0])
    assert used / makespan == pytest.approx(float(played.metrics["utilization"][0]), rel=1e-5)


@pytest.mark.slow  # as above
def test_a_named_trace_needs_no_system(page, tmp_path, capsys):
    path = tmp_path / "new" / "trace.html"
    arguments = ["replay", "chic-1.80", "--policy", "round_robin", "--num-jobs", "4"]
    assert main([*arguments, "--html", str(path)]) == 0
    assert "round_robin: 4 jobs" in capsys.readouterr().out
    (schedule,) = schedules_of(path)
    assert schedule["policy"] == "round_robin" and schedule["bands"][0][0] == "workers"


def nothing_is_compiled(monkeypatch, num_jobs=1):
    """Episodes end at once; all that comes before and after them is done."""
    one = Schedule(
        system="toy", policy="any", episode="any", unit="GPU", bands=(), pieces=Pieces.of([]),
        submit=np.zeros(num_jobs), start=np.zeros(num_jobs), finish=np.ones(num_jobs),
        model=np.zeros(num_jobs, int), models=("a",),
    )  # fmt: skip
    monkeypatch.setattr(recorded, "_recorded", lambda *arguments, **options: one)


@pytest.mark.parametrize("system", SMALL)
def test_cases_play_under_the_policies_that_are_asked_for(system, tmp_path, monkeypatch):
    nothing_is_compiled(monkeypatch)
    path = GOLDEN / system / f"{SMALL[system]}.json"
    assert main(["replay", str(path), "--html", str(tmp_path / "page.html")]) == 0
    name = {"sched2": "sif", "dl2": "drf", "chic": "optimus", "das": "tetris", "mlfs": "fifo"}
    case = json.loads(path.read_text(encoding="utf-8"))
    plain = {key: case[key] for key in case if key not in ("actions", "after_actions")}
    played = golden.episode_of(registry.get(system), {**plain, "policy": name[system]})
    assert name[system] in (played.name, played.policy.name) and played.most_steps is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["/no/such/file.json"], "is no folder, file or known trace"),
        (["/"], "holds no trained policy"),
        (["{golden}/das/rwgp_node.json"], "kind 'rwgp' has no schedule"),
        (["{golden}/sched2/06_rejects.json"], "lists tables that are refused"),
        (["{golden}/sched2/01_worked_example.json", "--system", "das"], "is a case of 'sched2'"),
        (["{golden}/sched2/01_worked_example.json", "--set", "env.window=3"], "--set goes with"),
        (["{golden}/sched2/01_worked_example.json", "--policy", "best"], "unknown policy"),
        (["{golden}/chic/optimus_hand.json", "--policy", "fifo"], "accepted: 'optimus'"),
        (["sched2-test-68", "--policy", "best"], "unknown policy"),
        (["sched2-test-68", "--policy", "fifo", "--policy", "fifo"], "different policies"),
        (["sched2-test-68", "--episode", "30"], "accepted: below 30"),
        (["sched2-test-68", "--set", "window"], "expected path=value"),
        (["sched2-test-68", "--set", "env.size=3"], "no field 'size'"),
        (["sched2-test-68", "--trace", "x"], "goes with a policy"),
        (["sched2-test-68", "--system", "nope"], "unknown system"),
        (["philly-like"], "name the system"),
        (["pretrained"], "name one"),
        (["pretrained-nope", "--system", "das"], "comes without"),
        ([str(SHIPPED), "--system", "dl2"], "system 'chic'"),
        (["sched2-test-68", "--html", "/proc/x/y.html"], "cannot be written"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, says, capsys, tmp_path, monkeypatch):
    nothing_is_compiled(monkeypatch)
    words = [word.format(golden=GOLDEN) for word in arguments]
    html = [] if "--html" in words else ["--html", str(tmp_path / "page.html")]
    assert says in refused(capsys, "replay", *words, *html)
    assert not (tmp_path / "page.html").exists()


def mutated(text, draw):
    """A text of a case in which something is wrong, or perhaps not."""
    kind = draw.randrange(4)
    if kind == 0:  # damaged
        at = draw.randrange(len(text))
        return text[:at] + draw.choice(["", "\x00", "}", '"', "é", "[" * 50]) + text[at + 1 :]
    if kind == 1:  # cut off
        return text[: draw.randrange(len(text))]
    case = json.loads(text)
    place = case
    while draw.random() < 0.7:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        inner = [key for key in keys if isinstance(place[key], dict | list) and place[key]]
        if not inner:
            break
        place = place[draw.choice(inner)]
    keys = list(place) if isinstance(place, dict) else list(range(len(place)))
    key = draw.choice(keys)
    if kind == 2:
        del place[key]
    else:
        junk = [None, True, -1, 0.5, 2**40, 10**400, "x", "../../etc/passwd", [], {}, [[]], 1e308]
        place[key] = draw.choice(junk)
    return json.dumps(case)


@pytest.mark.parametrize("system", SMALL)
def test_damaged_cases_are_one_line_or_a_page(system, tmp_path, capsys, monkeypatch):
    nothing_is_compiled(monkeypatch)
    text = (GOLDEN / system / f"{SMALL[system]}.json").read_text(encoding="utf-8")
    case = json.loads(text)
    case.pop("expect", None)
    text, draw = json.dumps(case), random.Random(system)
    path, html = tmp_path / "case.json", tmp_path / "page.html"
    statuses = []
    for _ in range(MUTATIONS // len(SMALL)):
        path.write_text(mutated(text, draw), encoding="utf-8", errors="surrogatepass")
        capsys.readouterr()
        status = main(["replay", str(path), "--html", str(html)])
        said = capsys.readouterr().err.strip().splitlines()
        assert (status, len(said)) in ((0, 0), (2, 1)), said
        if status:
            assert re.match(r"jaxsched: .{10,}", said[0])
        statuses.append(status)
    assert statuses.count(2) > len(statuses) // 2
