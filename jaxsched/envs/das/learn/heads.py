"""What the networks make of single decisions, at a cost that follows their real positions.

A window has room for many jobs and mostly holds a few. What is computed per position, or per pair
of positions, is left out behind a decision's last real position: decisions are taken together by a
few widths. On other devices than a processor that is done for networks with a walk process alone,
whose positions cost most: how many decisions have which width only the device knows, and each round
of a loop over them asks the host.

Axes: ``...`` any batch axes, ``D`` decisions, ``N`` positions, ``M`` machines, ``F`` features.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from jaxsched.envs.das.learn import walk_process as wp
from jaxsched.envs.das.learn.networks import Embedding, Trunk, WalkScales
from jaxsched.envs.das.rules.observation import Observation
from jaxsched.errors import JaxschedError
from jaxsched.ops import target
from jaxsched.ops.masked_map import map_chosen
from jaxsched.types import Array, PyTree

NarrowFunction = Callable[[int, PyTree, PyTree], PyTree]
"""``(width, shared, decisions) -> results``, leaves ``[D, ...]`` and ``[D, width, ...]``.

Of the decisions' first ``width`` positions alone, as if there were no others.
"""

SPLIT_FROM = 16
"""Positions from which on decisions are taken by width; fewer are all computed."""

CHUNK_POSITIONS, CHUNKS = 512, 16
"""Positions that are computed at once, at least; and at most so many chunks of each width."""


def widths_of(num_positions: int) -> tuple[int, ...]:
    """The widths, ascending; the last one is the whole window."""
    if num_positions < SPLIT_FROM:
        return (num_positions,)
    return (num_positions // 8, num_positions // 2, num_positions)


def by_width(narrow: NarrowFunction, shared: PyTree, decisions: PyTree, real: Array) -> PyTree:
    """``narrow`` of many decisions; differentiable in ``shared`` alone.

    Args:
      narrow: see there; its results are finite where the first positions are real.
      shared: what all decisions share, such as weights.
      decisions: leaves ``[D, ...]``.
      real: bool ``[D, N]``.

    Returns:
      Leaves ``[D, N, ...]``; zero, or any number, in positions that are not real.
    """
    size, num_positions = real.shape
    needed = _needed(real)
    below, parts = 0, []
    for width in widths_of(num_positions):
        chunk = min(size, max(CHUNK_POSITIONS // width, -(-size // CHUNKS)))
        chosen = (needed > below) & (needed <= width)
        part = map_chosen(partial(narrow, width), shared, decisions, chosen, chunk)
        parts.append(jax.tree.map(partial(_padded, num_positions - width), part))
        below = width
    return jax.tree.map(lambda *x: sum(x), *parts)


def play_by_width(narrow: NarrowFunction, shared: PyTree, decision: PyTree, real: Array) -> PyTree:
    """``narrow`` of one decision, of the least width that holds its jobs.

    Vectorised over decisions it is :func:`by_width`, whatever else is vectorised around that.
    Vectorised over ``shared`` first, it is ``narrow`` of whole windows.

    Args:
      narrow: see there.
      shared: what does not differ between decisions.
      decision: leaves without the axis D.
      real: bool ``[N]``.

    Returns:
      Leaves ``[N, ...]``; zero, or any number, in positions that are not real.

    Raises:
      JaxschedError: it is differentiated.
    """
    num_positions = real.shape[0]
    widths = widths_of(num_positions)

    def unbatched(width: int, shared: PyTree, decision: PyTree) -> PyTree:
        found = narrow(width, shared, jax.tree.map(lambda x: x[None], decision))
        found = jax.tree.map(partial(_padded, num_positions - width), found)
        return jax.tree.map(lambda x: x[0], found)

    @jax.custom_batching.custom_vmap
    def run(shared: PyTree, decision: PyTree, real: Array) -> PyTree:
        wider = _needed(real) > jnp.array(widths[:-1], jnp.int32)
        branch = jnp.sum(wider, dtype=jnp.int32)
        return jax.lax.switch(branch, [partial(unbatched, w) for w in widths], shared, decision)

    @run.def_vmap
    def _(
        axis_size: int, batched: Any, shared: PyTree, decision: PyTree, real: Array
    ) -> tuple[PyTree, Any]:
        shared_in, *given_in = batched
        if any(jax.tree.leaves(shared_in)):
            axes = jax.tree.map(lambda known: 0 if known else None, (shared_in, given_in[0]))
            results = jax.vmap(partial(unbatched, num_positions), axes, axis_size=axis_size)(
                shared, decision
            )
        else:
            decision, real = jax.tree.map(
                lambda known, x: x if known else jnp.broadcast_to(x, (axis_size, *jnp.shape(x))),
                tuple(given_in),
                (decision, real),
            )
            results = by_width(narrow, shared, decision, real)
        return results, jax.tree.map(lambda _: True, results)

    result: PyTree = run(*jax.tree.map(_not_differentiated, (shared, decision)), real)
    return result


@jax.custom_jvp
def _not_differentiated(x: Array) -> Array:
    return x


@_not_differentiated.defjvp
def _(primals: Any, tangents: Any) -> Any:
    raise JaxschedError("das: a policy at play cannot be differentiated; its agents can")


def _needed(real: Array) -> Array:
    """Positions up to the last real one, int32 ``[...]`` of bool ``[..., N]``."""
    place = jnp.arange(1, real.shape[-1] + 1, dtype=jnp.int32)
    return jnp.max(jnp.where(real, place, 0), axis=-1)


def _padded(behind: int, x: Array) -> Array:
    """``[D, width, ...]`` with zeros in so many positions behind."""
    return jnp.pad(x, [(0, 0), (0, behind), *[(0, 0)] * (x.ndim - 2)])


class Outlook(NamedTuple):
    """What follows from one decision's observation alone.

    Attributes:
      priority_mean: ``[..., N]``; here and below any number in positions that are not real.
      priority_std: ``[..., N]``; 1 in positions that are not real.
      affinity_mean: ``[..., N, M]``, prior mean of the walk process or mean of the diagonal head.
      affinity_std: ``[..., N, M]`` of the diagonal head, 1 in positions that are not real; zero
        in the walk process.
      features: of the walk process, an array ``[..., N, m, F]``, zero in positions that are not
        real; ``()`` in networks without it.
      evidence: what the decision tells the walk process, of leaves ``[..., N, ...]``, where it is
        known what was executed; else ``()``.
    """

    priority_mean: Array
    priority_std: Array
    affinity_mean: Array
    affinity_std: Array
    features: Any
    evidence: Any = ()


def outlook_of(
    trunk: Trunk, params: PyTree, observation: Observation, executed: Array | None = None
) -> Outlook:
    """The outlook of finite observations, all positions computed.

    Args:
      trunk: the networks.
      params: their weights.
      observation: of leaves ``[..., N, 5]``, ``[..., M, 5]``, ``[..., N]``.
      executed: affinities ``[..., N, M]`` of decisions that were taken, finite; for networks with
        a walk process.
    """
    outlook = _computed(trunk, params, observation, executed)
    return _settled(trunk, outlook, observation.real)


def takes_whole_windows(trunk: Trunk) -> bool:
    """Whether all positions of a window are computed, whatever they hold."""
    return not (target.on_cpu() or trunk.options.remembers)


def outlook_by_width(
    trunk: Trunk, params: PyTree, observation: Observation, executed: Array | None = None
) -> Outlook:
    """The same where positions are real, for many decisions; differentiable in ``params`` alone."""
    lead, num_positions = observation.real.shape[:-1], observation.real.shape[-1]
    one = len(widths_of(num_positions)) == 1 or math.prod(lead) == 1
    if one or takes_whole_windows(trunk):
        return outlook_of(trunk, params, observation, executed)
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[len(lead) :]), (observation, executed))
    found = by_width(partial(_narrow, trunk), params, flat, flat[0].real)
    found = jax.tree.map(lambda x: x.reshape(*lead, *x.shape[1:]), found)
    return _settled(trunk, found, observation.real)


def _computed(
    trunk: Trunk, params: PyTree, observation: Observation, executed: Array | None
) -> Outlook:
    embedding, scales = _embed(trunk, params, observation)
    features: Any = ()
    evidence: Any = ()
    if scales is not None:
        options = trunk.options
        graph = wp.machine_graph(embedding.jobs, embedding.machines, scales.rho, options.product)
        features = wp.kernel_features(
            graph, scales.beta, options.walk_length, options.basis, options.kernel
        )
        features = jnp.where(observation.real[..., None, None], features, 0.0)
        if executed is not None:
            evidence = wp.evidence(features, executed - embedding.affinity_mean)
    return Outlook(
        embedding.priority_mean,
        embedding.priority_std,
        embedding.affinity_mean,
        embedding.affinity_std,
        features,
        evidence,
    )


def _settled(trunk: Trunk, outlook: Outlook, real: Array) -> Outlook:
    """Standard deviations of 1 in positions that are not real."""
    settled = outlook._replace(priority_std=jnp.where(real, outlook.priority_std, 1.0))
    if trunk.options.remembers:
        return settled
    return settled._replace(affinity_std=jnp.where(real[..., None], outlook.affinity_std, 1.0))


def noise_of(trunk: Trunk, params: PyTree, observation: Observation) -> Array:
    """Noise variance of the walk process, a scalar; it does not depend on what is observed."""
    one = jax.tree.map(lambda x: jnp.zeros_like(x[(0,) * (observation.real.ndim - 1)]), observation)
    _, scales = _embed(trunk, params, one)
    assert scales is not None
    return scales.noise


def _narrow(
    trunk: Trunk, width: int, params: PyTree, decisions: tuple[Observation, Array | None]
) -> Outlook:
    """Outlooks of decisions ``[D, ...]``, of their first positions alone."""
    observation, executed = decisions
    seen = observation.narrowed(width)
    return _computed(trunk, params, seen, None if executed is None else executed[:, :width])


def _embed(
    trunk: Trunk, params: PyTree, observation: Observation
) -> tuple[Embedding, WalkScales | None]:
    return cast(tuple[Embedding, WalkScales | None], trunk.apply(params, observation))
