"""E1, E2, E5: completion times, utilisation and makespan, other arrival patterns."""

from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.dl2.common import (
    JCT,
    JCT_LABEL,
    PRESETS,
    RULES,
    cluster,
    comparison,
    outcome,
    rules,
    study,
    values_of,
)
from benchmarks.papers.lab import Lab, Study
from benchmarks.papers.outcome import Check, Outcome, Table, beside, percent
from benchmarks.papers.samples import Sample, below, difference, mean_of, sample_of
from benchmarks.papers.settings import Workload
from jaxsched.envs.dl2.show.paper import (
    REDUCTION,
    REDUCTION_BY_ARRIVALS,
    UTILIZATION,
)
from jaxsched.systems import functions

MANY, MANY_RIVALS = "large", ("drf", "tetris", "optimus")
SHIPPED = "pretrained-contended"
MANY_NOTE = (
    "dl2 is the shipped policy of 60 servers and 120 jobs; nothing was learnt on 500 servers; the "
    "test tables come from a seed that is used for nothing else"
)
OFFLINE = {"supervised.skip": True, "params.overlap": 0, "params.contention": 0}
ARRIVALS = {"poisson": "dl2-poisson", "uniform": "dl2-uniform", "google": "dl2-google"}


def studies(lab: Lab) -> dict[str, Study]:
    """DL2 and OfflineRL on both clusters, by label."""
    every = {}
    for name, preset in PRESETS.items():
        every[f"dl2, {name}"] = study(lab, preset)
        every[f"offline_rl, {name}"] = study(lab, preset, OFFLINE)
    return every


def play_clusters(lab: Lab) -> dict[str, dict[str, Sample]]:
    """Every policy on the test tables of each cluster: cluster -> policy -> metrics."""
    every = studies(lab)
    trained = lab.train_all(every)
    samples = {}
    for name in PRESETS:
        chosen = every[f"dl2, {name}"]
        tables = lab.test_tables(chosen.workload, chosen.recipe)
        found = rules(lab, RULES, cluster(lab, name), tables)
        for policy in ("offline_rl", "dl2"):
            found[policy] = lab.play(trained[f"{policy}, {name}"], tables)
        samples[name] = found
    return samples


def completion_times(lab: Lab) -> Outcome:
    """E1, Fig. 9."""
    samples = play_clusters(lab)
    tables = [
        comparison(f"{name}: mean completion time", found, ("drf", "optimus"))
        for name, found in samples.items()
    ]
    checks = _sim_checks(samples["sim"]) + _testbed_checks(samples["testbed"])

    def draw(figure: Any) -> None:
        for axes, (name, found) in zip(figure.subplots(1, 2), samples.items(), strict=True):
            points = {JCT: [mean_of(sample, JCT) for sample in found.values()]}
            figures.bars(axes, list(found), points, y_label=JCT_LABEL, title=name, slant=True)

    values = {name: values_of(found) for name, found in samples.items()}
    note = "OfflineRL learns without the hidden overlap and contention; it is chosen with them"
    return outcome(tables, checks, values, draw, note)


def _sim_checks(found: dict[str, Sample]) -> list[Check]:
    means = {name: float(sample[JCT].mean()) for name, sample in found.items()}
    others = {name: mean for name, mean in means.items() if name != "drf"}
    runner_up = max(others, key=lambda name: others[name])
    rivals = {name: mean for name, mean in means.items() if name != "dl2"}
    best = min(rivals, key=lambda name: rivals[name])
    tetris = -below(found["optimus"], found["tetris"], JCT).estimate
    return [
        beside(
            f"sim: DRF highest; less the next, {runner_up} (slots)",
            "> 0",
            difference(found["drf"], found[runner_up], JCT),
        ),
        beside("sim: Optimus above Tetris, share", "< 0", tetris, shown=percent),
        beside(
            f"sim: DL2 lowest; less the next, {best} (slots)",
            "< 0",
            difference(found["dl2"], found[best], JCT),
        ),
        *(_reduced("sim", found, rival) for rival in ("drf", "optimus", "offline_rl")),
    ]


def _testbed_checks(found: dict[str, Sample]) -> list[Check]:
    rivals = {name: float(found[name][JCT].mean()) for name in ("tetris", "optimus")}
    next_ = max(rivals, key=lambda name: rivals[name])
    return [
        beside(
            f"testbed: DRF highest of three; less {next_} (slots)",
            "> 0",
            difference(found["drf"], found[next_], JCT),
        ),
        *(_reduced("testbed", found, rival) for rival in ("drf", "tetris", "optimus")),
        beside(
            "testbed: DL2 below OfflineRL",
            _reduction("offline_rl"),
            percent(below(found["dl2"], found["offline_rl"], JCT)),
        ),
    ]


def _reduced(where: str, found: dict[str, Sample], rival: str) -> Check:
    """The reduction of Figure 9 on a cluster."""
    return _below(where, found, rival, _reduction(rival))


def _reduction(rival: str) -> str:
    """The paper's, in words."""
    return percent(REDUCTION[rival], 1) if rival in REDUCTION else "> 0"


def _below(where: str, found: dict[str, Sample], rival: str, paper: str) -> Check:
    gain = below(found["dl2"], found[rival], JCT)
    return beside(f"{where}: DL2 below {rival}", paper, gain, shown=percent)


def many_servers(lab: Lab) -> Outcome:
    """E16: 500 servers and 200 jobs, the size of the paper's simulations."""
    recipe = lab.recipe(MANY)
    tables = lab.test_tables(Workload(recipe.traces.test), recipe)
    found = rules(lab, (*RULES, "optimus_fill", "probe"), recipe.env, tables)
    env, policy, weights = lab.shipped(SHIPPED, num_servers=recipe.env.num_servers)
    played = functions.play(lab.system, env, policy, env.params(tables), weights)
    found["dl2"] = sample_of([played])
    checks = [_below("500 servers", found, rival, "> 0") for rival in MANY_RIVALS]

    def draw(figure: Any) -> None:
        points = {JCT: [mean_of(sample, JCT) for sample in found.values()]}
        figures.bars(figure.subplots(), list(found), points, y_label=JCT_LABEL, slant=True)

    return Outcome(
        [comparison("500 servers, 200 jobs", found, ("drf", "optimus"))],
        checks,
        values_of(found),
        draw,
        [MANY_NOTE],
    )


def utilisation(lab: Lab) -> Outcome:
    """E2."""
    samples = play_clusters(lab)
    tables, checks = [], []
    for name, found in samples.items():
        rows: list[list[Any]] = [
            [policy, mean_of(s, "utilization"), mean_of(s, "makespan").estimate / 1200.0]
            for policy, s in found.items()
        ]
        columns = ["policy", "GPU utilisation", "makespan (slots of 1200 s)"]
        tables.append(Table(f"{name}: utilisation and makespan", columns, rows, 3))
        longer = -below(found["dl2"], found["drf"], "makespan").estimate
        checks.append(
            beside(f"{name}: makespan of DL2 over DRF's, less 1", "< 0", longer, shown=percent)
        )
        for policy, paper in UTILIZATION.items():
            share = float(found[policy]["utilization"].mean())
            item = f"{name}: GPU utilisation of {policy}"
            checks.append(beside(item, f"{paper:.2f}", f"{share:.3f}"))

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, 2)
        names = list(samples["sim"])
        for place, (metric, words) in zip(
            axes,
            {"utilization": "GPU utilisation", "makespan": "makespan (s)"}.items(),
            strict=True,
        ):
            series = {c: [mean_of(f[n], metric) for n in names] for c, f in samples.items()}
            figures.bars(place, names, series, y_label=words, slant=True)

    values = {name: values_of(found) for name, found in samples.items()}
    return outcome(tables, checks, values, draw)


def arrivals(lab: Lab) -> Outcome:
    """E5, Fig. 12: DL2 trained for each arrival pattern."""
    every = {
        name: study(lab, PRESETS["sim"], workload=Workload(trace))
        for name, trace in ARRIVALS.items()
    }
    trained = lab.train_all({f"dl2, {name} arrivals": s for name, s in every.items()})
    samples, tables, checks = {}, [], []
    for name, chosen in every.items():
        played = lab.test_tables(chosen.workload, chosen.recipe)
        found = rules(lab, ("drf", "tetris", "optimus"), chosen.recipe.env, played)
        found["dl2"] = lab.play(trained[f"dl2, {name} arrivals"], played)
        samples[name] = found
        tables.append(comparison(f"{name} arrivals", found, ("drf", "optimus")))
        checks.append(_below(name, found, "optimus", REDUCTION_BY_ARRIVALS))

    def draw(figure: Any) -> None:
        policies = list(samples["poisson"])
        series = {p: [mean_of(f[p], JCT) for f in samples.values()] for p in policies}
        figures.bars(figure.subplots(), list(samples), series, y_label=JCT_LABEL)

    return outcome(tables, checks, {n: values_of(f) for n, f in samples.items()}, draw)
