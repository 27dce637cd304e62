"""Plays an episode and records its schedule: heuristics, trained policies, golden cases."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.core.policies import Policy
from jaxsched.core.trajectory import Score, Trajectory, record_trajectory
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.jobs.schedule import Decisions, Schedule, check_pieces
from jaxsched.results.comparison import Learned
from jaxsched.systems import functions, golden
from jaxsched.systems.parts import compiled_together
from jaxsched.systems.recording import Recording
from jaxsched.systems.system import System
from jaxsched.types import ArraySpec, DiscreteSpec, PyTree, action_names

MOST_NUMBERS = 400_000  # of all decisions that a recorded schedule keeps
MOST_DECISIONS, LEAST_DECISIONS = 4_000, 100


class Player(NamedTuple):
    """Who plays.

    Attributes:
      name: what the picture calls the policy.
      env: the environment that it plays in.
      policy: the decision rule.
      weights: of it.
      network: kind of its network; None: it has none, and its decisions are not kept.
    """

    name: str
    env: Environment
    policy: Policy
    weights: PyTree = ()
    network: str | None = None


def players(
    system: System,
    names: Sequence[str],
    learned: Sequence[Learned],
    env: Environment,
    num_jobs: int,
    options: Mapping[str, Any],
) -> list[Player]:
    """Heuristics by name and trained policies (of several seeds the first) as players.

    Args:
      system: of all of them.
      names: heuristics; those of one environment are compiled as one program.
      learned: trained policies.
      env: cluster of the heuristics.
      num_jobs: of the longest table to be played.
      options: of the heuristics.
    """
    heuristics = [functions.heuristic(system, name, env, num_jobs, options) for name in names]
    found = [
        Player(name, *heuristic)
        for name, heuristic in zip(names, compiled_together(heuristics), strict=True)
    ]
    for entry in learned:
        policy = functions.network_policy(system, entry.env, entry.network, entry.name, entry.play)
        found.append(Player(entry.name, entry.env, policy, entry.weights[0], entry.network))
    return found


def record(
    system: System,
    player: Player,
    table: JobTable,
    *,
    decisions: bool = True,
    on_steps: Callable[[int], None] = lambda steps: None,
) -> Schedule:
    """The schedule of one policy on one job table, as an evaluation of that table would play it.

    Args:
      system: the system.
      player: who plays.
      table: the episode.
      decisions: keep what a network saw and how it scored its choices.
      on_steps: called with the steps played so far (progress).

    Raises:
      JaxschedError: the system draws no schedules, or the episode does not end.
    """
    params = player.env.params([table])
    return _recorded(system, player, params, table.name, decisions=decisions, on_steps=on_steps)


def record_case(system: System, case: Mapping[str, Any], name: str) -> Schedule:
    """The schedule of a golden case.

    Args:
      system: of the case.
      case: the case.
      name: of the episode.

    Raises:
      JaxschedError: the case is malformed, is no episode, or its table must be refused.
    """
    with golden.precision(system):
        played = golden.episode_of(system, case)
        policy = played.policy
        player = Player(played.name or policy.name, played.env, policy, played.weights)
        most_steps, state = played.most_steps, played.state
        return _recorded(system, player, played.params, name, most_steps=most_steps, state=state)


def _recorded(
    system: System,
    player: Player,
    params: Any,
    episode: str,
    *,
    most_steps: int | None = None,
    state: PyTree | None = None,
    decisions: bool = False,
    on_steps: Callable[[int], None] = lambda steps: None,
) -> Schedule:
    recording = system.log.recording(player.env)
    env = recording.env
    score, most_seen = None, 0
    if player.network is not None and decisions:
        score = _score(system, env, player.network, params)
        width = sum(_size(spec) for spec in _leaves(env.observation_spec(params)))
        width += sum(_size(spec) for spec in _leaves(env.action_spec(params)))
        most_seen = int(np.clip(MOST_NUMBERS // max(width, 1), LEAST_DECISIONS, MOST_DECISIONS))
    if most_steps == 0:
        raise JaxschedError("no action is listed, so there is nothing to show")
    trajectory = record_trajectory(
        env,
        player.policy,
        recording.recorder,
        params,
        recording.moment,
        weights=player.weights,
        clock=recording.clock,
        score=score,
        most_seen=most_seen,
        most_steps=most_steps,
        state=state,
        on_steps=on_steps,
    )
    made = recording.schedule(env, params, 0, trajectory)
    if made is None:
        raise JaxschedError(f"{system.name}: does not say how its episodes are drawn")
    notes = (
        made.notes if trajectory.ended else (*made.notes, "The episode is not played to its end.")
    )
    schedule = replace(made, policy=player.name, episode=episode, system=system.name, notes=notes)
    if trajectory.seen is not None:
        kept = _decisions(recording, params, trajectory)
        schedule = replace(schedule, decisions=kept)
    check_pieces(schedule)
    return schedule


def _score(system: System, env: Environment, kind: str, params: Any) -> Score:
    if isinstance(env.action_spec(params), DiscreteSpec):
        apply: Score = functions.network(system, env, kind).apply
        return apply
    return _nothing  # the action itself is what the network says


def _nothing(weights: PyTree, observation: PyTree) -> PyTree:
    del weights, observation
    return ()


def _decisions(recording: Recording, params: Any, trajectory: Trajectory) -> Decisions:
    """What was kept of decisions, by name."""
    seen, env = trajectory.seen, recording.env
    assert seen is not None
    spec = env.action_spec(params)
    if isinstance(spec, DiscreteSpec):
        names = list(action_names(spec))
        legal = np.asarray(seen.mask, bool)
        scores = np.where(legal, _flat(seen.scores), np.nan)
        chosen = np.asarray(seen.action, np.int64)
    else:
        names, scores = _names(spec), _flat(seen.action)
        chosen = np.full(len(scores), -1, np.int64)
    return Decisions(
        times=np.asarray(seen.time, np.float64),
        inputs=tuple(_names(env.observation_spec(params))),
        seen=_flat(seen.observation),
        choices=names,
        scores=scores,
        chosen=chosen,
        every=trajectory.every,
    )


def _flat(tree: PyTree) -> np.ndarray:
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


def _is_spec(node: Any) -> bool:
    return isinstance(node, ArraySpec | DiscreteSpec)


def _leaves(spec: PyTree) -> list[Any]:
    return jax.tree.leaves(spec, is_leaf=_is_spec)


def _size(spec: Any) -> int:
    return spec.num_actions if isinstance(spec, DiscreteSpec) else int(np.prod(spec.shape))


def _names(spec: PyTree) -> list[str]:
    """A name for each number of a flattened pytree of arrays: its own, or its place."""
    names: list[str] = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(spec, is_leaf=_is_spec)[0]:
        if leaf.names:
            names += leaf.names
            continue
        stem = "".join(str(getattr(key, "key", getattr(key, "name", key))) for key in path)
        places = np.ndindex(*leaf.shape)
        names += [f"{stem or 'entry'}{list(place)}" for place in places]
    return names
