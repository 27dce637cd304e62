"""What the networks make of single decisions.

Axes: ``...`` any batch axes, ``D`` decisions, ``N`` positions, ``M`` machines, ``F`` features.
"""

import math
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from jaxsched.envs.das.learning import walk_process as wp
from jaxsched.envs.das.learning.networks import Embedding, Trunk, WalkScales
from jaxsched.envs.das.learning.padded_widths import by_width, widths_of
from jaxsched.envs.das.observation import Observation
from jaxsched.types import Array, PyTree


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


def outlook_by_width(
    trunk: Trunk, params: PyTree, observation: Observation, executed: Array | None = None
) -> Outlook:
    """The same where positions are real, for many decisions; differentiable in ``params`` alone."""
    lead, num_positions = observation.real.shape[:-1], observation.real.shape[-1]
    if len(widths_of(num_positions)) == 1 or math.prod(lead) == 1:
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
