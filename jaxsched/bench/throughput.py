"""Environment steps per second, alone and with a policy network, over a sweep of batch sizes."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxsched
from jaxsched import traces
from jaxsched.bench import timing
from jaxsched.bench.loops import Chooser, at_random, by_policy, environment_loop, start_many
from jaxsched.bench.peers import Peer
from jaxsched.core.environment import Environment
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.systems import registry

BATCHES = tuple(2**power for power in range(6, 18))
QUICK_BATCHES = (2**8, 2**11, 2**13)
STEPS_PER_REPEAT = {"environment": 2**19, "policy": 2**15, "peer": 2**15}
FEWEST_STEPS, MOST_STEPS = 4, 2**11
"""Of each environment in a repeat: few environments would else take minutes."""

FIGURES = ("environment", "policy")
Progress = Callable[[str], None]


def throughput(
    name: str,
    *,
    preset: str | None = None,
    batches: Sequence[int] = BATCHES,
    repeats: int = 10,
    figures: Sequence[str] = FIGURES,
    network: str = "paper",
    options: dict[str, Any] | None = None,
    tables: Sequence[JobTable] | None = None,
    steps_per_repeat: int | None = None,
    peers: bool = False,
    peer_python: str | None = None,
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
      tables: job tables; the system's test traces by default.
      steps_per_repeat: environment steps of all environments per repeat; fewer where that would
        be more than ``MOST_STEPS`` of each.
      peers: measure jumanji's JobShop-v0 in between, at the same batches.
      peer_python: interpreter that has jumanji; this one by default.
      progress: called with a line about each row.

    Returns:
      A JSON-able dictionary: what was run and on what, ``rows``, ``best`` row by figure, and
      ``peers`` with rows, best row and ratio of the best medians.

    Raises:
      JaxschedError: unknown system or figure, bad sizes, or no jumanji where peers are wanted.
    """
    _check(batches, repeats, figures)
    system = registry.get(name)
    env, names = system.environment(**(options or {})), system.traces
    if preset is not None:
        recipe = system.preset(preset)
        env, names = replace(recipe.env, **(options or {})), system.recipe_traces(recipe)
    tables = tables or traces.get(names.test, num_traces=names.num_test)
    params = system.params(env, system.adapt(tables))
    choosers: dict[str, Chooser] = {"environment": at_random(env.action_spec(params))}
    if "policy" in figures:
        weights = system.init_weights(env, network, params)
        policy = system.network_policy(env, network, "policy", "greedy")
        choosers["policy"] = by_policy(policy, weights, params)
    result: dict[str, Any] = {
        "kind": "throughput",
        "system": name,
        "preset": preset,
        "behaviour_version": system.behaviour_version,
        "environment": system.environment_options(env),
        "network": network,
        "episodes": env.num_episodes(params),
        **timing.surroundings(),
    }
    result["versions"]["jaxsched"] = jaxsched.__version__
    result["bandwidth_bytes_per_s"] = timing.bandwidth_bytes_per_s()
    rows: list[dict[str, Any]] = []
    peer_rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        peer = stack.enter_context(Peer(peer_python)) if peers else None
        for batch in batches:
            for figure in figures:
                num_steps = _num_steps(steps_per_repeat or STEPS_PER_REPEAT[figure], batch)
                row = _row(env, params, choosers[figure], batch, num_steps, repeats)
                row["figure"] = figure
                _keep(row, rows, progress, f"{name} {figure}")
            if peer is not None:
                num_steps = _num_steps(steps_per_repeat or STEPS_PER_REPEAT["peer"], batch)
                row = peer.time(batch=batch, num_steps=num_steps, repeats=repeats)
                row = {"batch": batch, **row}
                _keep(row, peer_rows, progress, peer.about["name"])
    for row in rows:
        bound = result["bandwidth_bytes_per_s"] / row["bytes_per_step"]
        row["bandwidth_fraction"] = row["steps_per_s"]["median"] / bound
    result["rows"] = rows
    result["peak_memory_bytes"] = timing.peak_memory_bytes()
    result["best"] = {f: _best([r for r in rows if r["figure"] == f]) for f in figures}
    result["peers"] = []
    if peer is not None:
        best = _best(peer_rows)
        entry = {**peer.about, "rows": peer_rows, "best": best}
        if "environment" in figures:
            ours = result["best"]["environment"]
            entry["ratio"] = ours["steps_per_s"]["median"] / best["steps_per_s"]["median"]
            least = min(row["cpu_ns_per_step"] for row in rows if row["figure"] == "environment")
            entry["cpu_ratio"] = min(row["cpu_ns_per_step"] for row in peer_rows) / least
        result["peers"] = [entry]
    return result


def _check(batches: Sequence[int], repeats: int, figures: Sequence[str]) -> None:
    if not batches or min(batches) < 1:
        raise JaxschedError(f"bench: batch sizes must be at least 1, not {list(batches)}")
    if repeats < 1:
        raise JaxschedError(f"bench: repeats must be at least 1, not {repeats}")
    for figure in figures:
        if figure not in FIGURES:
            raise JaxschedError(f"bench: unknown figure {figure!r}; known are {', '.join(FIGURES)}")


def _num_steps(steps: int, batch: int) -> int:
    return min(max(FEWEST_STEPS, steps // batch), MOST_STEPS)


def _row(
    env: Environment, params: Any, chooser: Chooser, batch: int, num_steps: int, repeats: int
) -> dict[str, Any]:
    loop = environment_loop(env, params, chooser, batch=batch, num_steps=num_steps)
    try:
        # Copied, so that no leaf shares memory with ``params`` when the carry is donated.
        current = jax.tree.map(jnp.copy, start_many(env, params, batch))
        state = jax.tree.map(lambda leaf: leaf[0], current.state)
        observation, _ = jax.eval_shape(env.observe, state, params)
        timed = timing.measure(loop, current, repeats)
    except jax.errors.JaxRuntimeError as error:  # out of memory
        return {"batch": batch, "error": str(error).splitlines()[0]}
    state_bytes, observed = timing.bytes_of(state), timing.bytes_of(observation)
    _, decided = timed.output
    row = timing.row(timed, batch=batch, num_steps=num_steps)
    share = float(np.mean(decided))
    return {
        **row,
        "decision_share": share,
        "decisions_per_s": share * row["steps_per_s"]["median"],
        "state_bytes_per_env": state_bytes,
        "observation_bytes": observed,
        "bytes_per_step": 2 * state_bytes + observed,
    }


def _keep(row: dict[str, Any], rows: list[dict[str, Any]], progress: Progress, label: str) -> None:
    """Add a row, unless it could not be measured; say what happened."""
    if "error" in row:
        progress(f"{label}, batch {row['batch']}: left out ({row['error']})")
        return
    rows.append(row)
    rate = row["steps_per_s"]["median"]
    some = row.get("decision_share", 1.0) < 1
    decisions = f", {row['decisions_per_s']:,.0f} decisions/s" if some else ""
    progress(f"{label}, batch {row['batch']}: {rate:,.0f} steps/s{decisions}")


def _best(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if not rows:
        raise JaxschedError("bench: no batch size could be measured")
    return max(rows, key=lambda row: row["steps_per_s"]["median"])
