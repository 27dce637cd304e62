"""Environment steps per second, alone and with a policy network, over a sweep of batch sizes."""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxsched
from jaxsched import traces
from jaxsched.bench import timing
from jaxsched.bench.budget import Budget, Pace
from jaxsched.bench.loops import (
    Chooser,
    at_random,
    by_policy,
    environment_loop,
    lowering_of,
    start_many,
)
from jaxsched.bench.peers import MissingPeer, Peer, known_peers
from jaxsched.core.environment import Environment
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.ops import target
from jaxsched.provenance import surroundings
from jaxsched.runs.overrides import change_environment
from jaxsched.systems import functions, presets, registry
from jaxsched.systems.system import System

BATCHES = tuple(2**power for power in range(6, 18))
STEPS_PER_REPEAT = {"environment": 2**19, "policy": 2**15, "peer": 2**15}
FEWEST_STEPS, MOST_STEPS = 4, 2**11
"""Of each environment in a repeat: few environments would else take minutes."""
FEWEST_ON_A_GPU = 64
"""Of each environment in a repeat there: the start of a program takes as long as one or two."""

ROW_S = 120.0
"""Budget of a row, compiling included, unless another one is asked for."""

REPEATS = 10

QUICK: dict[str, Any] = {
    "batches": (2**8, 2**11, 2**13),
    "repeats": 3,
    "steps_per_repeat": 2**11,
    "least_s": 0.1,
}
"""Arguments of a quick sweep."""

QUICK_S = 50.0  # budget of a quick sweep; starting takes the rest of the minute

FIGURES = ("environment", "policy")
Progress = Callable[[str], None]


def throughput(
    name: str,
    *,
    preset: str | None = None,
    batches: Sequence[int] = BATCHES,
    repeats: int = REPEATS,
    figures: Sequence[str] = FIGURES,
    network: str = "paper",
    options: dict[str, Any] | None = None,
    overrides: Sequence[str] = (),
    tables: Sequence[JobTable] | None = None,
    steps_per_repeat: int | None = None,
    least_s: float = 0.0,
    devices: int = 1,
    peers: bool = False,
    peer_python: str | None = None,
    budget: Budget | None = None,
    progress: Progress = lambda line: None,
) -> dict[str, Any]:
    """Measure a system's environment on the default device.

    Where an environment also steps through events between decisions, each row tells the share of
    the steps that took a decision, and decisions per second.

    Both figures include automatic reset and use every observation. ``environment`` takes uniform
    legal actions; ``policy`` the greedy ones of the paper's network with untrained weights. The
    bound by memory bandwidth, of which each row tells the fraction reached, is::

        bandwidth / (2 * state bytes + observation bytes)    [steps/s]

    (state read and written, observation written, once per step), with the bandwidth measured by
    ``timing.bandwidth_bytes_per_s`` in the same run.

    Args:
      name: the system.
      preset: take cluster and traces of this preset; the system's own by default.
      batches: numbers of environments; those for which the memory does not suffice are left out.
      repeats: timed repeats of each row, with new keys.
      figures: which of ``environment`` and ``policy``.
      network: kind of the policy network.
      options: static options of the environment; the paper's by default.
      overrides: the same as they are typed, ``env.NAME=VALUE`` each.
      tables: job tables; the system's test traces by default.
      steps_per_repeat: environment steps of all environments per repeat; fewer where that would
        be more than ``MOST_STEPS`` of each, or more than the row's budget.
      least_s: call a program as often in each repeat as takes so many seconds.
      devices: divide the environments between so many; rows with a batch that they cannot share
        equally use as many as can. Each device runs alone, nothing is exchanged.
      peers: measure other environments in between (``peers.known_peers``), those written in JAX
        at the same batches, the others for one episode at a time.
      peer_python: interpreter that has them; this one by default.
      budget: of the rows and of the sweep; no bounds by default. Where ``steps_per_repeat`` is
        absent, a few steps of each figure tell first what to expect.
      progress: called with a line before each row and one after it.

    Returns:
      A JSON-able dictionary: what was run and on what, ``rows``, ``best`` row by figure,
      ``peers`` with rows, best row and ratio of the best medians, or ``missing`` for those that
      are not installed or stopped, and ``stopped``: the rows at
      which the sweep of a figure ended because they would have taken longer than their budget.
      ``interrupted`` is true where Ctrl-C ended it after the first row.

    Raises:
      JaxschedError: unknown system or figure, bad sizes, more devices than there are, or an
        interpreter that cannot be run.
    """
    _check(batches, repeats, figures, devices)
    if "policy" in figures and target.lowering(0, alone=False) == target.KERNEL:
        raise JaxschedError(
            "bench: --lowering kernel has no policy; accepted: --figure environment"
        )
    subject = _subject(name, preset, options, tables, figures, network, devices, overrides)
    result: dict[str, Any] = {
        "kind": "throughput",
        "system": name,
        "preset": preset,
        "behaviour_version": subject.system.environment.behaviour_version,
        "environment": functions.environment_options(subject.system, subject.env),
        "network": network,
        "episodes": subject.env.num_episodes(subject.params),
        **surroundings(),
    }
    result["versions"]["jaxsched"] = jaxsched.__version__
    result["bandwidth_bytes_per_s"] = timing.bandwidth_bytes_per_s()
    with ExitStack() as stack:
        beside, result["peers"] = _peers(name, peer_python, devices, stack) if peers else ({}, [])
        sweep = Sweep(subject, repeats, steps_per_repeat, least_s, budget, beside, progress)
        try:
            for batch in batches:
                for figure in (*figures, *beside):
                    if figure in figures or beside[figure].batched or batch == batches[0]:
                        sweep.measure(figure, batch)
        except KeyboardInterrupt:
            if not any(sweep.rows[figure] for figure in figures):
                raise
            progress("interrupted; the rows so far are kept")
            result["interrupted"] = True
    if not any(sweep.rows[figure] for figure in figures):
        raise JaxschedError("bench: no batch size could be measured")
    rows = sorted(
        (row for figure in figures for row in sweep.rows[figure]),
        key=lambda row: batches.index(row["batch"]),
    )
    for row in rows:
        bound = result["bandwidth_bytes_per_s"] / row["bytes_per_step"]
        row["bandwidth_fraction"] = row["steps_per_s"]["median"] / bound
    result["rows"] = rows
    result["stopped"] = sweep.stopped
    result["peak_memory_bytes"] = timing.peak_memory_bytes()
    result["best"] = {f: _best(sweep.rows[f]) for f in figures if sweep.rows[f]}
    for key, peer in beside.items():
        if sweep.rows[key]:
            entry = _beside(peer.about, sweep.rows[key], sweep.rows["environment"])
            result["peers"].append(entry)
        elif peer.stopped:
            result["peers"].append({"name": key, "missing": peer.stopped})
    return result


def _peers(
    system: str, python: str | None, devices: int, stack: ExitStack
) -> tuple[dict[str, Peer], list[dict[str, Any]]]:
    """The workers of those that are installed, and entries of the others."""
    found, missing = {}, []
    for known in known_peers(system):
        try:
            found[known.name] = stack.enter_context(Peer(known, python, devices))
        except MissingPeer as error:
            missing.append({"name": known.name, "missing": str(error)})
    return found, missing


class Subject(NamedTuple):
    """What is measured: a system's environment, and what acts in it, by figure, on what."""

    system: System
    env: Environment
    params: Any
    choosers: dict[str, Chooser]
    devices: int = 1


def _subject(
    name: str,
    preset: str | None,
    options: dict[str, Any] | None,
    tables: Sequence[JobTable] | None,
    figures: Sequence[str],
    network: str,
    devices: int,
    overrides: Sequence[str],
) -> Subject:
    system = registry.get(name)
    env, names = functions.environment(system, **(options or {})), functions.traces(system)
    if preset is not None:
        recipe = presets.preset(system, preset)
        env, names = replace(recipe.env, **(options or {})), presets.recipe_traces(system, recipe)
    env = change_environment(env, overrides)
    tables = tables or traces.get(names.test, num_traces=names.num_test)
    params = env.params(system.jobs.adapted(tables))
    choosers: dict[str, Chooser] = {"environment": at_random(env.action_spec(params))}
    if "policy" in figures:
        weights = functions.init_weights(system, env, network, params)
        policy = functions.network_policy(system, env, network, "policy", "greedy")
        choosers["policy"] = by_policy(policy, weights, params)
    return Subject(system, env, params, choosers, devices)


class Sweep:
    """Rows of several figures, one after the other, each announced and within its budget.

    Attributes:
      rows: those measured, by figure.
      stopped: figure and batch at which a row would have taken too long, with the seconds.
    """

    def __init__(
        self,
        subject: Subject,
        repeats: int,
        steps_per_repeat: int | None,
        least_s: float,
        budget: Budget | None,
        peers: dict[str, Peer],
        progress: Progress,
    ) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in (*FIGURES, *peers)}
        self.stopped: list[dict[str, Any]] = []
        self._subject, self._peers, self._progress = subject, peers, progress
        self._repeats, self._steps, self._least_s = repeats, steps_per_repeat, least_s
        self._budget = budget or Budget(math.inf)
        self._pilots = budget is not None and steps_per_repeat is None

    def measure(self, figure: str, batch: int) -> None:
        """One row, unless the figure's sweep has stopped or stops here."""
        if any(entry["figure"] == figure for entry in self.stopped):
            return
        budget, label = self._budget, self._label(figure, batch)
        if self._pilots and not self.rows[figure] and figure in FIGURES:
            self._progress(f"{label}: {FEWEST_STEPS} steps first, to know what to expect")
            self._time(figure, batch, FEWEST_STEPS, 1, 0.0)
        usual = STEPS_PER_REPEAT["peer" if figure in self._peers else figure]
        batch = batch if figure in FIGURES or self._peers[figure].batched else 1
        num_steps = _num_steps(self._steps or usual, batch)
        fitting = budget.fitting_steps(figure, self._repeats) / batch
        if fitting < num_steps:
            num_steps = max(FEWEST_STEPS, int(fitting)) if self._steps is None else num_steps
        expected = budget.expected_s(figure, num_steps * batch, self._repeats)
        if expected is not None and expected > (left := budget.left_s()):
            left = max(left, 0.0)
            self.stopped.append(
                {"figure": figure, "batch": batch, "expected_s": expected, "budget_s": left}
            )
            self._progress(
                f"{label}: would take about {expected:,.0f} s, {left:,.0f} s are left for it; the "
                f"sweep of {figure} stops here"
            )
            return
        soon = "not known yet" if expected is None else f"about {expected:,.0f} s"
        self._progress(
            f"{label}: compiling, then {timing.WARM_UPS + self._repeats} times {num_steps} steps; "
            f"expected: {soon}"
        )
        self._keep(figure, self._time(figure, batch, num_steps, self._repeats, self._least_s))

    def _label(self, figure: str, batch: int) -> str:
        peer, name = self._peers.get(figure), self._subject.system.name
        return f"{peer.about['name'] if peer else f'{name} {figure}'}, batch {batch}"

    def _time(
        self, figure: str, batch: int, num_steps: int, repeats: int, least_s: float
    ) -> dict[str, Any]:
        """Measure, and learn what the next row will take."""
        watch = timing.Stopwatch()
        if figure in self._peers:
            row = self._peers[figure].time(
                batch=batch, num_steps=num_steps, repeats=repeats, least_s=least_s
            )
            row = {"batch": batch, **row}
        else:
            row = _row(self._subject, figure, batch, num_steps, repeats, least_s)
            row["figure"] = figure
        if "error" not in row:
            step_s = 1.0 / row["steps_per_s"]["median"]
            calls = timing.WARM_UPS + repeats * row["steps_per_repeat"] / num_steps
            start_s = watch.lap().wall_s - calls * num_steps * batch * step_s
            self._budget.learn(figure, Pace(max(start_s, row["compile_s"]), step_s))
        return row

    def _keep(self, figure: str, row: dict[str, Any]) -> None:
        """Add a row, unless it could not be measured; say what happened."""
        label = self._label(figure, row["batch"])
        if "error" in row:
            self._progress(f"{label}: left out ({row['error']})")
            return
        self.rows[figure].append(row)
        rate = row["steps_per_s"]["median"]
        some = row.get("decision_share", 1.0) < 1
        decisions = f", {row['decisions_per_s']:,.0f} decisions/s" if some else ""
        self._progress(f"{label}: {rate:,.0f} steps/s{decisions}")


def _check(batches: Sequence[int], repeats: int, figures: Sequence[str], devices: int) -> None:
    if not batches or min(batches) < 1:
        raise JaxschedError(f"bench: batch sizes must be at least 1, not {list(batches)}")
    if repeats < 1:
        raise JaxschedError(f"bench: repeats must be at least 1, not {repeats}")
    if not 1 <= devices <= jax.local_device_count():
        raise JaxschedError(
            f"bench: devices is {devices}; accepted: 1 to {jax.local_device_count()} here"
        )
    for figure in figures:
        if figure not in FIGURES:
            raise JaxschedError(f"bench: unknown figure {figure!r}; known are {', '.join(FIGURES)}")


def _num_steps(steps: int, batch: int) -> int:
    fewest = FEWEST_STEPS if target.on_cpu() else FEWEST_ON_A_GPU
    return min(max(fewest, steps // batch), MOST_STEPS)


def _row(
    subject: Subject, figure: str, batch: int, num_steps: int, repeats: int, least_s: float
) -> dict[str, Any]:
    env, params, chooser = subject.env, subject.params, subject.choosers[figure]
    devices = timing.sharing(batch, subject.devices)
    lowering = lowering_of(env, params, chooser)
    loop = environment_loop(
        env, params, chooser, batch=batch // devices, num_steps=num_steps, lowering=lowering
    )
    try:
        current = timing.laid_out(start_many(env, params, batch), devices)
        state = jax.tree.map(lambda leaf: leaf[0], current.state)
        observation, _ = jax.eval_shape(env.observe, state, params)
        timed = timing.measure(
            timing.over_devices(loop, devices),
            current,
            repeats,
            least_s=least_s,
            compiler_options=target.compiler_options(),
        )
    except jax.errors.JaxRuntimeError as error:  # out of memory
        return {"batch": batch, "error": str(error).splitlines()[0]}
    state_bytes, observed = timing.bytes_of(state), timing.bytes_of(observation)
    _, decided = timed.output
    row = timing.row(timed, batch=batch, num_steps=num_steps)
    share = float(np.mean(decided))
    return {
        **row,
        "devices": devices,
        "lowering": lowering,
        "decision_share": share,
        "decisions_per_s": share * row["steps_per_s"]["median"],
        "state_bytes_per_env": state_bytes,
        "observation_bytes": observed,
        "bytes_per_step": 2 * state_bytes + observed,
    }


def _best(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return max(rows, key=lambda row: row["steps_per_s"]["median"])


def _beside(
    about: dict[str, Any], theirs: list[dict[str, Any]], ours: list[dict[str, Any]]
) -> dict[str, Any]:
    """The rows of another project's environment, and how ours compare with them."""
    entry = {**about, "rows": theirs, "best": _best(theirs)}
    if ours:
        rates = [_best(rows)["steps_per_s"]["median"] for rows in (ours, theirs)]
        least = [min(row["cpu_ns_per_step"] for row in rows) for rows in (theirs, ours)]
        entry["ratio"], entry["cpu_ratio"] = rates[0] / rates[1], least[0] / least[1]
    return entry
