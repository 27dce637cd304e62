"""How much there is to gain: what look-ahead over a base policy reaches on the same episodes.

Two look-aheads play beside the heuristics and the given runs. One knows what the base knows, and
what an environment's ``resample_future`` tells of the futures to expect; the other, a clairvoyant,
knows the future itself. Neither is a bound: both look one step ahead of one base.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.core.look_ahead import look_ahead
from jaxsched.core.monte_carlo import LookAhead, LookAheadParams, Weights, look_ahead_params
from jaxsched.core.policies import Policy
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.results.comparison import Contest, Learned, compare, distinct, policy_entry
from jaxsched.results.statistics import Interval, paired_difference
from jaxsched.systems import functions
from jaxsched.systems.parts import Heuristic, Played
from jaxsched.systems.system import System
from jaxsched.types import DiscreteSpec, PyTree

REDRAWN, CLAIRVOYANT = "look_ahead", "clairvoyant"
EPISODES_AT_ONCE = 20
SHOWN = ("avg_jct", "makespan")
"""Metrics of the table beside the primary one."""
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Settings:
    """How far the look-aheads look; see ``LookAhead`` and ``LookAheadParams``.

    Attributes:
      futures: redrawn futures; 0: only the clairvoyant plays.
      alternatives: candidates of a decision; None: all legal actions.
      horizon_s: how far is played on; None: the system's own.
      margin: standard errors that a gain over redrawn futures must exceed.
      discount_s: rewards ``t`` seconds later count ``exp(-t / discount_s)``.
    """

    futures: int = 8
    alternatives: int | None = None
    horizon_s: float | None = None
    margin: float = 2.0
    discount_s: float = float("inf")

    def sizes(self, futures: int) -> LookAhead:
        """What is compiled, for so many futures."""
        return LookAhead(futures=futures, alternatives=self.alternatives)

    def params(self, system: System) -> LookAheadParams:
        """What is not."""
        horizon = system.training.planning_horizon_s if self.horizon_s is None else self.horizon_s
        return look_ahead_params(horizon_s=horizon, margin=self.margin, discount_s=self.discount_s)


class Base(NamedTuple):
    """What is looked ahead from.

    Attributes:
      name: of the policy.
      player: environment, policy and weights.
      rivals: heuristics of the same environment, whose actions are tried where an action is not
        one choice of several; none where it is.
    """

    name: str
    player: Heuristic
    rivals: dict[str, Policy]


def find_base(
    contest: Contest, base: str | Learned, environment: Environment, names: Sequence[str]
) -> Base:
    """What the look-aheads improve on.

    Args:
      contest: the system, its options and the episodes.
      base: name of a heuristic, or a trained policy (the first seed of which plays).
      environment: cluster of the heuristics.
      names: heuristics that may be rivals.

    Raises:
      JaxschedError: nothing can be tried beside the actions of this base.
    """
    system, most = contest.system, max(len(table) for table in contest.tables)

    def heuristic(name: str) -> Heuristic:
        return functions.heuristic(system, name, environment, most, contest.options)

    if isinstance(base, Learned):
        policy = functions.network_policy(system, base.env, base.network, base.name, base.play)
        name, player = base.name, Heuristic(base.env, policy, base.weights[0])
    else:
        name, player = base, heuristic(base)
    if isinstance(player.env.action_spec(player.env.params(contest.tables[:1])), DiscreteSpec):
        return Base(name, player, {})
    others = {other: heuristic(other) for other in names if other != name}
    rivals = {
        other: found.policy
        for other, found in others.items()
        if found.env == player.env and not jax.tree.leaves(found.weights)
    }
    if not rivals:
        raise JaxschedError(
            f"{system.name}: there is nothing to try beside the actions of {name}; accepted: a "
            "base whose action is one choice of several, or one with other heuristics beside it"
        )
    return Base(name, player, rivals)


def measure(
    contest: Contest,
    names: Sequence[str],
    learned: Sequence[Learned],
    base: str | Learned | None,
    settings: Settings,
    *,
    environment: Environment,
    on_progress: Progress = lambda words, done, total: None,
) -> dict[str, Any]:
    """Play heuristics, runs and both look-aheads on the same episodes.

    Args:
      contest: what is compared on what.
      names: heuristics.
      learned: trained policies, with the base if it is one.
      base: what the look-aheads improve on; None: the heuristic with the best mean of the primary
        metric on these episodes, of those that do not know the future.
      settings: of the look-aheads.
      environment: cluster of the heuristics.
      on_progress: called with what is played next, and how many of how many episodes of it are
        played.

    Returns:
      A comparison as ``jaxsched.report.schema`` describes it, and under ``headroom`` the base, the
      settings, what each policy knows, and the rows of the table.

    Raises:
      JaxschedError: nothing can be looked ahead from this base.
    """
    system = contest.system
    for futures in {settings.futures, 0}:
        settings.sizes(futures)  # refuse bad sizes and parameters before any work
    values = settings.params(system)
    if base is not None:
        find_base(contest, base, environment, names)  # refuse a bad base, too
    if isinstance(base, str) and base not in names:
        names = [*names, base]
    called = distinct(learned, [*names, REDRAWN, CLAIRVOYANT])
    if isinstance(base, Learned):
        base = called[[id(policy) for policy in learned].index(id(base))]
    learned = called
    result = compare(
        contest,
        names,
        learned,
        environment=environment,
        on_policy=lambda name: on_progress(name, 0, len(contest.tables)),
    )
    if base is None:
        told = [name for name, info in system.policies.items() if info.clairvoyant]
        base = _best(result, system.metrics.primary, "baseline", "reference", without=told)
    found = find_base(contest, base, environment, names)
    rows, seconds = {}, {}
    for label, policy, env, note in _look_aheads(system, settings, found):
        begin = perf_counter()
        given = Weights(found.player.weights, values)
        played = _play(system, env, policy, contest.tables, given, on_progress)
        seconds[label] = perf_counter() - begin
        rows[label] = policy_entry(system, label, "reference", note, [played])
    result["policies"] += rows.values()
    result["headroom"] = {
        "base": found.name,
        "rivals": list(found.rivals),
        "settings": {k: _number(v) for k, v in asdict(settings).items()}
        | {"horizon_s": _number(float(values.horizon_s))},
        "wall_s": seconds,
        "rows": _rows(result, found, learned),
    }
    return result


def _look_aheads(
    system: System, settings: Settings, base: Base
) -> Iterator[tuple[str, Policy, Environment, str]]:
    """Name, policy, environment and one line of each look-ahead."""
    env = system.training.planning(base.player.env)
    rivals = tuple(base.rivals.values())
    # What a clairvoyant would do tells of the true future, however the others are drawn.
    fair = tuple(
        policy for name, policy in base.rivals.items() if not system.policies[name].clairvoyant
    )
    if settings.futures and env.can_resample_future and (fair or not rivals):
        sizes = settings.sizes(settings.futures)
        policy = look_ahead(env, base.player.policy, sizes, REDRAWN, fair)
        yield REDRAWN, policy, env, f"look-ahead from {base.name} on redrawn futures"
    policy = look_ahead(env, base.player.policy, settings.sizes(0), CLAIRVOYANT, rivals)
    yield CLAIRVOYANT, policy, env, f"look-ahead from {base.name} on the true future"


def _play(
    system: System,
    env: Environment,
    policy: Policy,
    tables: Sequence[JobTable],
    weights: PyTree,
    on_progress: Progress,
) -> Played:
    """All episodes, a few at a time; of one size, so that they share a program."""
    chunks = -(-len(tables) // EPISODES_AT_ONCE)
    size = -(-len(tables) // chunks)
    parts = []
    for chunk in range(chunks):
        on_progress(policy.name, chunk * size, len(tables))
        chosen = [tables[place % len(tables)] for place in range(chunk * size, (chunk + 1) * size)]
        key = jax.random.key(chunk)
        parts.append(
            functions.play(system, env, policy, env.params(chosen), weights, key=key).metrics
        )
    metrics = {
        metric: np.concatenate([part[metric] for part in parts])[: len(tables)]
        for metric in system.metrics.shown
    }
    return Played(metrics, {}, [])


def _best(
    result: Mapping[str, Any], metric: str, *kinds: str, without: Collection[str] = ()
) -> str:
    """The heuristic of these kinds with the best mean of a metric, empty if there is none."""
    sign = -1.0 if result["metrics"][metric]["better"] == "lower" else 1.0
    means = {
        entry["name"]: sign * float(np.mean(entry["metrics"][metric]))
        for entry in result["policies"]
        if entry["kind"] in kinds and entry["name"] not in (REDRAWN, CLAIRVOYANT, *without)
    }
    return max(means, key=means.__getitem__, default="")


def _rows(
    result: Mapping[str, Any], found: Base, learned: Sequence[Learned]
) -> list[dict[str, Any]]:
    """The table: who, what it knows, and per metric the mean and the difference to the base."""
    entries = {entry["name"]: entry["metrics"] for entry in result["policies"]}
    primary, base = result["primary"], found.name
    metrics = [primary, *(m for m in SHOWN if m in result["metrics"] and m != primary)]

    def cells(name_of: Callable[[str], str]) -> dict[str, Any]:
        shown = {}
        for metric in metrics:
            name = name_of(metric)
            mine, theirs = entries[name][metric], entries[base][metric]
            if name in (REDRAWN, CLAIRVOYANT):
                theirs = np.atleast_2d(theirs)[:1]  # look-ahead starts from the first seed
            difference = None if name == base else _shown(paired_difference(mine, theirs))
            shown[metric] = {"policy": name, "mean": float(np.mean(mine)), "difference": difference}
        return shown

    state, seen = "state", "observation"
    rows: list[tuple[str, str, Callable[[str], str]]] = []
    if _best(result, primary, "baseline"):
        rows.append(("best baseline", state, lambda metric: _best(result, metric, "baseline")))
    reference = _best(result, primary, "reference")
    if reference and reference != base:
        rows.append((reference, state, lambda _: reference))
    rows.append((base, state if found.player.policy.privileged else seen, lambda _: base))
    names = [run.name for run in learned if run.name != base]
    rows += [(name, seen, lambda _, name=name: name) for name in names]  # type: ignore[misc]
    looks = {REDRAWN: "state, odds", CLAIRVOYANT: "state, future"}
    rows += [
        (name, knows, lambda _, name=name: name)  # type: ignore[misc]
        for name, knows in looks.items()
        if name in entries
    ]
    return [{"row": row, "knows": knows, "metrics": cells(of)} for row, knows, of in rows]


def _shown(interval: Interval) -> dict[str, float]:
    return {"estimate": interval.estimate, "low": interval.low, "high": interval.high}


def _number(value: Any) -> Any:
    """A number as JSON takes it: none for infinity."""
    return None if value == float("inf") else value
