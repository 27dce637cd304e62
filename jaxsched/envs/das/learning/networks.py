"""The networks of DAS (specification, sections 10.1-10.4): trunk, message, ordering, placement.

:class:`Trunk` turns one decision's observation into an :class:`Embedding`; what several decisions
share (the walk process) is built from embeddings in ``outlook.py`` and ``agents.py``.

Axes: ``...`` any batch axes, ``N`` positions, ``M`` machines, ``e`` width, ``h`` heads.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxsched import options
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learning.derived_features import derived_features
from jaxsched.envs.das.learning.walk_process import Basis, Kernel, Product
from jaxsched.envs.das.observation import Observation
from jaxsched.errors import JaxschedError
from jaxsched.options import Bounds, Count
from jaxsched.types import Array

Variant = Literal["DA", "DA+MC", "DA+RWGP", "DAS"]
Mean = Literal["learned", "zero"]
Follows = Literal["position", "job"]

STD_FLOOR = 1e-3
SIGMA_FLOOR = 0.05
BETA_MOST = 2.0
FLOAT = jnp.float32  # of all weights
SMALL = nn.initializers.normal(0.01)  # of the heads: actions of a new policy are near 0


@dataclass(frozen=True)
class DASNetwork:
    """Options of the networks.

    Attributes:
      variant: DAS; DA has neither messages (MC) nor the walk process (RWGP).
      width: e.
      heads: h, of the attention between positions.
      history: tau, earlier decisions that the walk process looks at.
      walk_length: L, of the longest walks.
      mean: prior mean of the walk process.
      product: how embeddings of a job and a machine are combined (section 10.3).
      kernel: of the walk process, per machine (node) or per graph.
      basis: features that express the kernel; centred ones are half as many.
      follows: what the walk process remembers of a position: what was done at the same position,
        as the specification has it, or what was done with the job that is there now.
      extra_features: show jobs and machines what the raw observation implies (``derived.py``).
      initial_std: of a new policy's priorities and, without the walk process, affinities, whose
        means are within -1 and 1.
    """

    variant: Variant = "DAS"
    width: Count = 64
    heads: Count = 4
    history: Count = 8
    walk_length: Annotated[int, Bounds(4)] = 16
    mean: Mean = "learned"
    product: Product = "hadamard"
    kernel: Kernel = "node"
    basis: Basis = "centred"
    extra_features: bool = False
    follows: Follows = "position"
    initial_std: Annotated[float, Bounds(above=STD_FLOOR, below=1)] = 0.5

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
          JaxschedError: an unknown option or an impossible size.
        """
        options.check(self)
        if self.width % (2 * self.heads):
            raise JaxschedError(
                f"DASNetwork.width is {self.width}; it must be a multiple of twice the "
                f"{self.heads} heads"
            )

    @property
    def communicates(self) -> bool:
        """Whether jobs get a message from the machines (MC)."""
        return self.variant in ("DA+MC", "DAS")

    def check(self, env: DAS) -> None:
        """Refuse an environment that does not show what is asked for."""
        if self.remembers and self.follows == "job" and not env.numbers:
            raise JaxschedError("das: a history that follows jobs needs env.numbers")

    @property
    def remembers(self) -> bool:
        """Whether placement is a walk process (RWGP), which needs the history."""
        return self.variant in ("DA+RWGP", "DAS")


class Embedding(NamedTuple):
    """What one decision's observation says.

    Attributes:
      jobs: ``[..., N, e]``.
      machines: ``[..., M, e]``.
      priority_mean: ``[..., N]``.
      priority_std: ``[..., N]``.
      affinity_mean: ``[..., N, M]``, prior mean of the walk process or mean of the diagonal head.
      affinity_std: ``[..., N, M]`` of the diagonal head; zero in the walk process.
    """

    jobs: Array
    machines: Array
    priority_mean: Array
    priority_std: Array
    affinity_mean: Array
    affinity_std: Array


class WalkScales(NamedTuple):
    """Learnt scalars of the walk process, float32."""

    rho: Array  # length scale
    beta: Array  # weight of longer walks, in (0, 2]
    noise: Array  # sigma**2


class Trunk(nn.Module):
    """Both agents' network up to the walk process.

    Attributes:
      env: for the sizes that derived features are relative to.
      options: see there.
    """

    env: DAS
    options: DASNetwork

    @nn.compact
    def __call__(self, observation: Observation) -> tuple[Embedding, WalkScales | None]:
        """Embed observations of leaves ``[..., N, 5]``, ``[..., M, 5]``, ``[..., N]``.

        Rows of ``observation.jobs`` that are not real may hold anything.
        """
        options, real = self.options, observation.real
        jobs, machines, pairs = read(self.env, options, observation)
        jobs = nn.relu(nn.Dense(options.width, name="jobs")(jobs))
        machines = nn.relu(nn.Dense(options.width, name="machines")(machines))
        if options.communicates:
            jobs = self._message(jobs, machines)
        jobs = self._attention(jobs, real)
        head = nn.Dense(2, kernel_init=SMALL, name="priority")(jobs)
        affinity_mean = self._combined("affinity_mean", jobs, machines)
        if pairs is not None:
            affinity_mean += nn.Dense(1, use_bias=False, kernel_init=SMALL, name="pairs")(pairs)[
                ..., 0
            ]
        affinity_mean = jnp.tanh(affinity_mean)
        affinity_std = jnp.zeros_like(affinity_mean)
        if not options.remembers:
            affinity_std = self._std(self._combined("affinity_std", jobs, machines))
        elif options.mean == "zero":
            affinity_mean = jnp.zeros_like(affinity_mean)
        embedding = Embedding(
            jobs=jobs,
            machines=machines,
            priority_mean=jnp.tanh(head[..., 0]),
            priority_std=self._std(head[..., 1]),
            affinity_mean=affinity_mean,
            affinity_std=affinity_std,
        )
        return embedding, self._scales() if options.remembers else None

    def _message(self, jobs: Array, machines: Array) -> Array:
        """Squeeze-and-communicate: a gate mixes the mean machine into each job (10.1)."""
        mean = jnp.mean(machines, axis=-2, keepdims=True)
        message = jnp.broadcast_to(mean, jobs.shape)
        both = jnp.concatenate([jobs, message], axis=-1)
        gate = nn.sigmoid(nn.Dense(self.options.width, name="gate")(both))
        return gate * message + (1 - gate) * jobs

    def _attention(self, jobs: Array, real: Array) -> Array:
        """One layer of attention between positions that knows their order (10.2)."""
        width, heads = self.options.width, self.options.heads
        z = jobs + position_encoding(jobs.shape[-2], width)
        depth = width // heads
        joint = nn.Dense(3 * width, use_bias=False, name="query_key_value")(z)
        query, key, value = (
            part.reshape(*z.shape[:-1], heads, depth) for part in jnp.split(joint, 3, axis=-1)
        )
        scores = jnp.einsum("...ihd,...jhd->...hij", query, key) / depth**0.5
        scores = jnp.where(real[..., None, None, :], scores, -1e9)
        mixed = jnp.einsum("...hij,...jhd->...ihd", jax.nn.softmax(scores, axis=-1), value)
        output = self.param("output", nn.initializers.lecun_normal(), (heads, depth, depth), FLOAT)
        mixed = jnp.einsum("...ihd,hdf->...ihf", mixed, output)
        return nn.LayerNorm(name="norm")(z + mixed.reshape(z.shape))

    def _combined(self, name: str, jobs: Array, machines: Array) -> Array:
        """A linear function of the products of both embeddings (10.3), ``[..., N, M]``."""
        width = self.options.width
        bias = self.param(f"{name}_bias", nn.initializers.zeros, (), FLOAT)
        if self.options.product == "hadamard":
            weighted = jobs * self.param(f"{name}_weight", SMALL, (width,), FLOAT)
        else:
            scale = nn.initializers.normal(0.01 / width**0.5)
            weighted = jobs @ self.param(f"{name}_weight", scale, (width, width), FLOAT)
        return jnp.einsum("...ie,...me->...im", weighted, machines) + bias

    def _std(self, spread: Array) -> Array:
        """Deviations, the initial one where the network says 0."""
        initial = self.options.initial_std
        offset = float(np.log(initial / (1 - initial)))
        return jnp.maximum(nn.sigmoid(spread + offset), STD_FLOOR)

    def _scales(self) -> WalkScales:
        def positive(name: str, value: float) -> Array:
            start = float(np.log(np.expm1(value)))
            return nn.softplus(self.param(name, nn.initializers.constant(start), (), FLOAT))

        rho = positive("rho", self.options.width**0.5)
        beta = jnp.minimum(positive("beta", 1.0), BETA_MOST)
        sigma = SIGMA_FLOOR + positive("sigma", 0.3 - SIGMA_FLOOR)
        return WalkScales(rho, beta, sigma**2)


def read(
    env: DAS, options: DASNetwork, observation: Observation
) -> tuple[Array, Array, Array | None]:
    """What the first layers read: rows of jobs and machines, features of pairs if any."""
    jobs = jnp.where(observation.real[..., None], observation.jobs, 0.0)
    machines = observation.machines
    if not options.extra_features:
        return jobs, machines, None
    derived = derived_features(env, Observation(jobs, machines, observation.real))
    jobs = jnp.concatenate([jobs, derived.jobs], axis=-1)
    return jobs, jnp.concatenate([machines, derived.machines], axis=-1), derived.pairs


def position_encoding(num_positions: int, width: int) -> np.ndarray:
    """Sines and cosines of the positions' indices, float32 ``[N, e]``."""
    rate = 10000.0 ** (-np.arange(0, width, 2) / width)
    angle = np.arange(num_positions)[:, None] * rate
    waves = np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    return waves.reshape(num_positions, width).astype("f4")
