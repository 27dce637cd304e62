"""The networks of DAS (specification, sections 10.1-10.4), and the words that name them.

:class:`Trunk` turns one decision's observation into an :class:`Embedding`: trunk, message, ordering
and placement; :func:`outlook_of` makes of it what follows from that decision alone, the features of
the walk process included. What several decisions share is built from that in ``agents.py``.
Networks may be shown features that the observation implies, so that they need not find them
themselves: an extra of ours (off by default), since an order that adapts to load needs to see it.

On a processor decisions are taken by the positions they use (:mod:`jaxsched.ops.by_width`); on
other devices that is done for networks with a walk process alone, whose positions cost most: how
many decisions have which width only the device knows, and each round of a loop over them asks the
host.

A word says which network a learned policy has, and with what options: ``das``, ``dl2``,
``rifling``, ``linear`` and ``scored``; options of DAS' networks that are not the paper's follow, as
in ``das:variant=DA+MC,heads=8``.

Axes: ``...`` any batch axes, ``D`` decisions, ``N`` positions, ``M`` machines, ``F`` features of
the walk process, ``e`` width, ``h`` heads.
"""

import contextlib
import math
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxsched import options
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.rules.observation import DAY_S, Observation, Recovered, recover
from jaxsched.errors import JaxschedError
from jaxsched.networks import walk_process as wp
from jaxsched.networks.exportable import LECUN_NORMAL, Precision, dense
from jaxsched.networks.walk_process import Basis, Kernel, Product
from jaxsched.ops import target
from jaxsched.ops.by_width import by_width, widths_of
from jaxsched.options import Bounds, Count
from jaxsched.types import Array, PyTree


class Derived(NamedTuple):
    """Derived features, about 0 to 1 each; rows of dummy positions are zero.

    Attributes:
      jobs: float32 ``[..., N, 12]``: log2 of GPUs, GPUs, log of the wait, instances that fit,
        whether all do, whether on one machine, and the load.
      machines: float32 ``[..., M, 9]``: free GPUs relative to the most free machine, whether idle,
        share of waiting jobs of which an instance fits, and the load.
      pairs: float32 ``[..., N, M, 8]``: share of the job's instances that fit on the machine,
        whether all do, shares of GPUs and of CPUs left free by them; then the same again for jobs
        that fit on one machine, else 0.
    """

    jobs: Array
    machines: Array
    pairs: Array


def derived_features(env: DAS, observation: Observation) -> Derived:
    """The derived features of observations of any batch axes."""
    vectorised = partial(jnp.vectorize, signature="(n,a),(m,b),(n)->(n,c),(m,d),(n,m,e)")

    @vectorised
    def unbatched(jobs: Array, machines: Array, real: Array) -> Derived:
        return Derived(*_derived(env, recover(env, Observation(jobs, machines, real))))

    return Derived(*unbatched(observation.jobs, observation.machines, observation.real))


def load_features(env: DAS, known: Recovered) -> Array:
    """How much waits and how full the cluster is, float32 ``[6]``.

    Share of positions in use; GPUs asked for and log2 of one more, relative to the cluster's; mean
    wait (log); share of GPUs free; most free GPUs on a machine.
    """
    total = env.num_servers * env.gpus_per_server
    count = jnp.sum(known.real, dtype=jnp.float32)
    asked = jnp.sum(known.num_gpus) / total
    wait = jnp.sum(known.wait_s) / jnp.maximum(count, 1.0)
    free = known.free[:, 0]
    return jnp.stack(
        [
            count / env.window,
            asked / 4,
            jnp.log2(1 + asked) / 4,
            _log_wait(wait),
            jnp.sum(free) / total,
            jnp.max(free) / env.gpus_per_server,
        ]
    )


def _log_wait(wait_s: Array) -> Array:
    return jnp.log1p(wait_s / 60) / jnp.log1p(DAY_S / 60)


def _derived(env: DAS, known: Recovered) -> tuple[Array, Array, Array]:
    instances = jnp.maximum(known.instances, 1)
    load = load_features(env, known)
    share = jnp.minimum(known.fit / instances[:, None], 1)
    room = jnp.sum(known.fit, axis=-1) / instances
    gpus = known.num_gpus
    jobs = jnp.stack(
        [
            jnp.log2(jnp.maximum(gpus, 1)) / 7,
            gpus / 64,
            _log_wait(known.wait_s),
            jnp.minimum(room, 1),
            room >= 1,
            jnp.max(share, axis=-1) >= 1,
        ],
        axis=-1,
    )
    jobs = jnp.concatenate([jobs, jnp.broadcast_to(load, (*gpus.shape, load.size))], axis=-1)
    free = known.free[:, 0]
    waiting, placeable = (
        jnp.sum(counted, axis=0, dtype=jnp.float32) for counted in (known.real, known.fit >= 1)
    )
    machines = jnp.stack(
        [
            free / jnp.maximum(jnp.max(free), 1),
            free == env.gpus_per_server,
            placeable / jnp.maximum(waiting, 1.0),
        ],
        axis=-1,
    )
    machines = jnp.concatenate(
        [machines, jnp.broadcast_to(load, (env.num_servers, load.size))], axis=-1
    )
    taken = jnp.minimum(known.fit, known.instances[:, None])[..., None] * known.requests[:, None]
    left = known.free - taken
    capacity = jnp.array([env.gpus_per_server, env.cpus_per_server], jnp.float32)
    pairs = jnp.concatenate([share[..., None], share[..., None] >= 1, left[..., :2] / capacity], -1)
    on_one = jnp.max(share, axis=-1) >= 1
    pairs = jnp.concatenate([pairs, jnp.where(on_one[:, None, None], pairs, 0)], axis=-1)
    real = known.real
    return jnp.where(real[:, None], jobs, 0), machines, jnp.where(real[:, None, None], pairs, 0)


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
      extra_features: show jobs and machines what the raw observation implies (``Derived``).
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
      precision: what layers multiply in while learning. With ``"bfloat16"`` embeddings of jobs and
        machines, and the attention between positions, are kept rounded to it; sums, softmax,
        normalisation and the outputs are computed in float32.
    """

    env: DAS
    options: DASNetwork
    precision: Precision = "float32"

    @nn.compact
    def __call__(self, observation: Observation) -> tuple[Embedding, WalkScales | None]:
        """Embed observations of leaves ``[..., N, 5]``, ``[..., M, 5]``, ``[..., N]``.

        Rows of ``observation.jobs`` that are not real may hold anything.
        """
        options, real = self.options, observation.real
        jobs, machines, pairs = read(self.env, options, observation)
        layer = partial(dense, self.precision)
        jobs = layer(options.width, "jobs", rectified=True)(jobs)
        machines = layer(options.width, "machines", rectified=True)(machines)
        if options.communicates:
            jobs = self._message(jobs, machines)
        jobs = self._attention(jobs, real)
        head = layer(2, "priority", kernel_init=SMALL)(jobs)
        affinity_mean = self._combined("affinity_mean", jobs, machines)
        if pairs is not None:
            affinity_mean += layer(1, "pairs", kernel_init=SMALL, use_bias=False)(pairs)[..., 0]
        affinity_mean = jnp.tanh(affinity_mean)
        affinity_std = jnp.zeros_like(affinity_mean)
        if not options.remembers:
            affinity_std = self._std(self._combined("affinity_std", jobs, machines))
        elif options.mean == "zero":
            affinity_mean = jnp.zeros_like(affinity_mean)
        embedding = Embedding(
            jobs=jobs.astype(FLOAT),
            machines=machines.astype(FLOAT),
            priority_mean=jnp.tanh(head[..., 0]),
            priority_std=self._std(head[..., 1]),
            affinity_mean=affinity_mean,
            affinity_std=affinity_std,
        )
        return embedding, self._scales() if options.remembers else None

    def _rounded(self, x: Array) -> Array:
        """What is kept of numbers in the precision of the products."""
        return x.astype(self.precision)

    def _message(self, jobs: Array, machines: Array) -> Array:
        """Squeeze-and-communicate: a gate mixes the mean machine into each job (10.1)."""
        mean = jnp.mean(machines, axis=-2, keepdims=True)
        message = jnp.broadcast_to(mean, jobs.shape)
        both = jnp.concatenate([jobs, message], axis=-1)
        gate = nn.sigmoid(dense(self.precision, self.options.width, "gate")(both))
        return self._rounded(gate * message + (1 - gate) * jobs)

    def _attention(self, jobs: Array, real: Array) -> Array:
        """One layer of attention between positions that knows their order (10.2)."""
        width, heads = self.options.width, self.options.heads
        z = jobs + position_encoding(jobs.shape[-2], width)
        depth = width // heads
        joint = dense(self.precision, 3 * width, "query_key_value", use_bias=False)(z)
        query, key, value = (
            part.reshape(*z.shape[:-1], heads, depth)
            for part in jnp.split(self._rounded(joint), 3, axis=-1)
        )
        scores = jnp.einsum("...ihd,...jhd->...hij", query, key).astype(FLOAT) / depth**0.5
        scores = jnp.where(real[..., None, None, :], scores, -1e9)
        share = self._rounded(jax.nn.softmax(scores, axis=-1))
        mixed = jnp.einsum("...hij,...jhd->...ihd", share, value)
        output = self.param("output", LECUN_NORMAL, (heads, depth, depth), FLOAT)
        mixed = jnp.einsum("...ihd,hdf->...ihf", mixed, self._rounded(output))
        return self._rounded(nn.LayerNorm(name="norm")(z + mixed.reshape(z.shape)))

    def _combined(self, name: str, jobs: Array, machines: Array) -> Array:
        """A linear function of the products of both embeddings (10.3), ``[..., N, M]``."""
        width = self.options.width
        bias = self.param(f"{name}_bias", nn.initializers.zeros, (), FLOAT)
        if self.options.product == "hadamard":
            weighted = jobs * self.param(f"{name}_weight", SMALL, (width,), FLOAT)
        else:
            scale = nn.initializers.normal(0.01 / width**0.5)
            weight = self.param(f"{name}_weight", scale, (width, width), FLOAT)
            weighted = jobs @ self._rounded(weight)
        weighted = self._rounded(weighted)
        products = jnp.einsum(
            "...ie,...me->...im", weighted, machines, preferred_element_type=FLOAT
        )
        return products + bias

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


KINDS = ("das", "dl2", "rifling", "linear", "scored")


def kind_of(policy: str, network: DASNetwork) -> str:
    """The kind of a policy; ``network`` matters to DAS only."""
    changed = [
        f"{field.name}={getattr(network, field.name)}"
        for field in fields(network)
        if getattr(network, field.name) != field.default
    ]
    return policy if policy != "das" or not changed else f"das:{','.join(changed)}"


def changed_kind(kind: str, **options: Any) -> str:
    """The kind of the same policy with other options of its network."""
    policy, network = read_kind(kind)
    return kind_of(policy, replace(network, **options))


def read_kind(kind: str) -> tuple[str, DASNetwork]:
    """Name and options of a kind; ``paper`` stands for DAS with the paper's options.

    Raises:
      JaxschedError: no such kind or option.
    """
    name, _, rest = ("das" if kind == "paper" else kind).partition(":")
    if name not in KINDS or (rest and name != "das"):
        raise JaxschedError(f"das: unknown network {kind!r}; known are {', '.join(KINDS)}")
    known = {field.name: field for field in fields(DASNetwork)}
    options: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        option, _, text = part.partition("=")
        if option not in known:
            raise JaxschedError(
                f"das: unknown network option {option!r}; known are {', '.join(known)}"
            )
        options[option] = _value_of(option, text, known[option].default)
    return name, DASNetwork(**options)


def _value_of(option: str, text: str, default: Any) -> Any:
    """A network option of the type of its default, from text."""
    if isinstance(default, str):
        return text
    accepted = "a whole number"
    if isinstance(default, bool):
        accepted = "True or False"
        if text in ("True", "False"):
            return text == "True"
    elif isinstance(default, float):
        accepted = "a number"
        with contextlib.suppress(ValueError):
            return float(text)
    elif text.isdecimal():
        return int(text)
    raise JaxschedError(f"das: network option {option} is {text!r}; accepted: {accepted}")


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
