"""The one training loop: unroll, update, repeat, as a pure function of its carry.

Nothing here depends on the algorithm (a :class:`~jaxsched.core.learner.Learner`) or the system
(an :class:`~jaxsched.core.environment.Environment`). A host loop calls :func:`chunk` and logs,
evaluates, checkpoints or swaps the environment parameters in between::

    carry = init(env, learner, config, key, params)
    while updates_done < config.num_updates:
        carry, metrics = chunk(env, learner, config, carry, params, num_updates=100)
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import chex
import jax
import jax.numpy as jnp

from jaxsched.core.environment import Current, Environment
from jaxsched.core.learner import Branching, Learner, Metrics
from jaxsched.core.look_ahead import Branches, branches
from jaxsched.core.monte_carlo import Weights
from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.core.rollout import BatchPolicy, Running, play_ahead, start_batch, unroll
from jaxsched.core.sharding import (
    described,
    laid_out,
    over_environments,
    over_seeds,
    split_layout,
    whole,
    whole_layout,
)
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import unbatched
from jaxsched.options import Count, check
from jaxsched.runtime import check_not_forked
from jaxsched.types import Array, ArraySpec, PRNGKey, PyTree, Rollout, Specs

BRANCHES = 2**31 - 1  # folded into a key that the learner splits, so no small number


@dataclass(frozen=True)
class LoopConfig:
    """Sizes of the training loop; all static.

    Attributes:
      num_envs: parallel environments, ``B``.
      rollout_length: steps of each environment between two updates, ``T``.
      num_updates: updates of the whole training, which the host loop cuts into chunks.
      time_limit: cut (truncate) episodes after this many steps; ``None`` for no limit.
      num_random_streams: environments ``i`` and ``i + num_random_streams`` draw the same random
        numbers in steps and resets (common random numbers); ``None``: each its own.
      head_start: before the first update the initial policy takes from 0 to nearly this many
        steps, more in each next environment, so that they cover all parts of an episode;
        ``None``: all begin at the start of one.
    """

    num_envs: Count
    rollout_length: Count
    num_updates: Count
    time_limit: Count | None = None
    num_random_streams: Count | None = None
    head_start: Count | None = None

    def __post_init__(self) -> None:
        """Check that every size is a positive number."""
        check(self)
        streams = self.num_random_streams
        if streams is not None and self.num_envs % streams:
            raise JaxschedError(
                f"LoopConfig.num_random_streams is {streams}; it must divide num_envs, "
                f"{self.num_envs}"
            )

    @property
    def steps_per_update(self) -> int:
        """Environment steps of a rollout, over all environments."""
        return self.num_envs * self.rollout_length


class Carry(NamedTuple):
    """The whole state of a training run; resuming from its checkpoint gives the same bits."""

    learner_state: Any
    current: Current  # leaves [B, ...]
    running: Running  # leaves [B]
    key: PRNGKey  # typed key, constant: update ``u`` uses ``fold_in(key, u)``
    update: Array  # int32 scalar, updates done


def init(
    env: Environment,
    learner: Learner,
    config: LoopConfig,
    key: PRNGKey,
    params: Any,
    network_params: PyTree | None = None,
) -> Carry:
    """Start a run: reset ``num_envs`` environments and initialise the learner.

    Args:
      env: the environment.
      learner: the algorithm.
      config: sizes of the loop.
      key: typed key (``jax.random.key``); the whole run is a function of it. With keys ``[N]``
        every leaf of the carry gets a leading axis of N seeds.
      params: environment parameters, shared by the seeds.
      network_params: network parameters to start from (a warm start), with the axis of seeds if
        there is one; drawn if absent.

    Raises:
      JaxschedError: the sizes do not meet the learner's needs.
    """
    check_not_forked()
    check_needs(env, learner, config, params)
    return _start(env, learner, config, key, params, network_params)


def check_needs(env: Environment, learner: Learner, config: LoopConfig, params: Any) -> None:
    """Refuse sizes that the learner cannot learn from (:class:`~jaxsched.core.learner.Needs`).

    Raises:
      JaxschedError: one line that says what was found and what is needed.
    """
    sizes = {
        "num_envs": config.num_envs,
        "rollout_length": config.rollout_length,
        "num_random_streams": config.num_random_streams or config.num_envs,
        "decisions": config.steps_per_update,
    }
    for need in learner.needs.sizes:
        if not need.holds(sizes[need.of]):
            what = "num_envs * rollout_length" if need.of == "decisions" else need.of
            raise JaxschedError(
                f"LoopConfig: {what} is {sizes[need.of]}; the learner needs it to be {need.rule} "
                f"{need.number} ({need.because})"
            )
    if not learner.needs.whole_episodes:
        return
    bound = env.max_steps(params)
    if bound != config.rollout_length:
        raise JaxschedError(
            f"LoopConfig: rollout_length is {config.rollout_length}; the learner needs whole "
            f"episodes, whose length here is {bound} (wrappers.FixedLength sets it)"
        )
    if config.head_start is not None:
        raise JaxschedError(
            f"LoopConfig: head_start is {config.head_start}; the learner needs whole episodes, "
            "which begin at their beginning (None)"
        )


@partial(
    jax.jit,
    static_argnames=("env", "learner", "config", "num_updates"),
    donate_argnames="carry",
)
def chunk(
    env: Environment,
    learner: Learner,
    config: LoopConfig,
    carry: Carry,
    params: Any,
    *,
    num_updates: int,
) -> tuple[Carry, Metrics]:
    """Run ``num_updates`` updates in one device call; ``carry`` is consumed.

    Compiled once per ``num_updates`` (ahead of time with ``chunk.lower(...).compile()``). Chunks
    of any lengths give the same bits as one call over their sum. On an ambient mesh
    (:func:`jaxsched.core.sharding.on`) environments or seeds are divided between its devices;
    results are those of one device up to the order of sums.

    Args:
      env: the environment.
      learner: the algorithm.
      config: sizes of the loop.
      carry: from :func:`init` or the chunk before; its buffers are reused. One of several seeds is
        advanced for all of them side by side.
      params: environment parameters, shared by the seeds; other values may be passed in each
        chunk.
      num_updates: static length of the chunk.

    Returns:
      The next carry, and metrics of float32 ``[num_updates]`` (``[num_seeds, num_updates]``):
      those of the learner, and ``episodes``, ``episode_return_sum``, ``episode_length_sum`` over
      the episodes that ended during the update's rollout, ``reward_mean`` over its steps.
    """

    def run(carry: Carry, params: Any) -> tuple[Carry, Metrics]:
        step = partial(_update, env, learner, config, params)
        return jax.lax.scan(step, carry, length=num_updates)

    if carry.update.ndim == 0:
        carry, metrics = run(carry, params)
    else:
        carry, metrics = over_seeds(jax.vmap(run, (0, None)), carry, params)
    return _placed(learner, carry), whole(metrics)


@partial(jax.jit, static_argnames=("env", "learner", "config"))
def _start(
    env: Environment,
    learner: Learner,
    config: LoopConfig,
    key: PRNGKey,
    params: Any,
    network_params: PyTree | None,
) -> Carry:
    def one(key: PRNGKey, network_params: PyTree | None) -> Carry:
        learner_key, env_key, run_key = jax.random.split(key, 3)
        current, running = start_batch(
            env, env_key, params, config.num_envs, config.num_random_streams
        )
        learner_state = learner.init(learner_key, _specs(env, params), network_params)
        if config.head_start is not None:
            current, running = play_ahead(
                env,
                _exploring(learner, learner_state),
                jax.random.fold_in(env_key, 1),
                current,
                running,
                params,
                length=config.head_start,
                time_limit=config.time_limit,
                num_random_streams=config.num_random_streams,
            )
        carry = Carry(learner_state, current, running, run_key, jnp.int32(0))
        # Copied, so that no leaf shares memory with ``params`` when the carry is donated.
        return jax.tree.map(jnp.copy, carry)

    made = one(key, network_params) if key.ndim == 0 else jax.vmap(one)(key, network_params)
    return _placed(learner, made)


def _specs(env: Environment, params: Any) -> Specs:
    """Specs for the learner, in the 32 bits of its experience (``rollout.unroll``)."""

    def single(spec: Any) -> Any:
        wide = isinstance(spec, ArraySpec) and jnp.issubdtype(spec.dtype, jnp.floating)
        return replace(spec, dtype=jnp.float32) if wide else spec

    return jax.tree.map(single, env.specs(params))


def abstract(
    env: Environment,
    learner: Learner,
    config: LoopConfig,
    key: PRNGKey,
    params: Any,
    network_params: PyTree | None = None,
) -> Carry:
    """The result of :func:`init` as ``jax.ShapeDtypeStruct`` leaves: nothing is allocated.

    On an ambient mesh they have a sharding. For compiling a chunk ahead of time.
    """
    check_needs(env, learner, config, params)
    begin = partial(_start, env, learner, config)
    carry: Carry = jax.eval_shape(begin, key, params, network_params)
    return described(carry, _layout(learner, carry), stacked=key.ndim > 0)


def _placed(learner: Learner, carry: Carry) -> Carry:
    """The carry in its layout on the ambient mesh, if there is one."""
    return laid_out(carry, _layout(learner, carry), stacked=carry.update.ndim > 0)


def _layout(learner: Learner, carry: Carry) -> Carry:
    """The layout of one seed's carry on the ambient mesh."""
    seeds = carry.update.ndim
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[seeds:], x.dtype), carry)
    return Carry(
        learner.layout(one.learner_state),
        split_layout(one.current, 0),
        split_layout(one.running, 0),
        *whole_layout((one.key, one.update)),
    )


def _check_shapes(rollout: Rollout) -> None:
    """What learners rely on, while they are traced: leaves ``[T, B, ...]``, and scalars a step."""
    steps = [rollout.reward, rollout.terminated, rollout.truncated, rollout.elapsed]
    chex.assert_rank(steps, 2)
    chex.assert_equal_shape_prefix(jax.tree.leaves(rollout._replace(branches=())), 2)


def _update(
    env: Environment, learner: Learner, config: LoopConfig, params: Any, carry: Carry, _: None
) -> tuple[Carry, Metrics]:
    """One rollout and one update."""
    act_key, learn_key = jax.random.split(jax.random.fold_in(carry.key, carry.update))
    current, running, rollout, ended = unroll(
        env,
        _exploring(learner, carry.learner_state),
        act_key,
        carry.current,
        carry.running,
        params,
        length=config.rollout_length,
        time_limit=config.time_limit,
        num_random_streams=config.num_random_streams,
    )
    if learner.branching is not None:
        found = _branches(env, learner, carry.learner_state, current.state, params, learn_key)
        rollout = rollout._replace(branches=found)
    _check_shapes(rollout)
    learner_state, metrics = learner.update(carry.learner_state, rollout, learn_key)
    metrics = {
        **metrics,
        "episodes": ended.episodes,
        "episode_return_sum": ended.return_sum,
        "episode_length_sum": ended.length_sum,
        "reward_mean": jnp.mean(rollout.reward),
    }
    following = Carry(learner_state, current, running, carry.key, carry.update + 1)
    return _placed(learner, following), metrics


def _exploring(learner: Learner, learner_state: Any) -> BatchPolicy:
    """The exploring policy of a learner in training."""
    return lambda observation, mask, key: learner.act(
        learner_state, observation, mask, key, greedy=False
    )


def _branches(
    env: Environment, learner: Learner, learner_state: Any, states: Any, params: Any, key: PRNGKey
) -> Branches:
    """Values of candidate actions at the environments' states, leaves ``[B, ...]``."""
    branching = cast(Branching, learner.branching)

    def act(state: Any, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        def greedily(observation: PyTree, mask: PyTree) -> PyTree:
            return learner.act(state, observation, mask, key, greedy=True)[0]

        return unbatched(greedily, view.observation, view.mask), memory

    greedy = branching.greedy or Policy("greedy", no_memory, act)
    weights = Weights(learner_state, branching.params(learner_state))

    def each(given: tuple, shared: tuple) -> Branches:
        weights, params = shared
        return jax.vmap(
            lambda state, key: branches(
                env,
                greedy,
                branching.config,
                weights,
                state,
                params,
                key,
                branching.rivals,
                branching.closing,
            )
        )(*given)

    keys = jax.random.split(jax.random.fold_in(key, BRANCHES), jax.tree.leaves(states)[0].shape[0])
    return over_environments(each, (states, keys), (weights, params))
