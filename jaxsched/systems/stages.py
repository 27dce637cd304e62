"""The stages of a recipe, as the training driver runs them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, cast

import jax.numpy as jnp

from jaxsched.algorithms.actor_critic_settings import ActorCriticConfig
from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.core.environment import Environment
from jaxsched.core.learner import Learner
from jaxsched.core.training import check_needs
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, rescale_arrivals
from jaxsched.jobs.segments import segment_starts, segments
from jaxsched.networks.exportable import ExportableModule
from jaxsched.systems import functions
from jaxsched.systems.learners import Parts, known, with_loop
from jaxsched.systems.parts import TrainingSetup
from jaxsched.systems.policy_model import PolicyModel, beside_critic
from jaxsched.systems.recipe import Recipe, Stage
from jaxsched.systems.system import System
from jaxsched.types import Array, ArraySpec
from jaxsched.wrappers.fixed_length import FixedLength
from jaxsched.wrappers.privileged_state import PrivilegedState, Reads, everything, seen
from jaxsched.wrappers.recorded import Recorded
from jaxsched.wrappers.teacher import TaughtEnvironment

ParamsAt = Callable[[float], Any]
"""The environment's parameters by training progress."""


def stages_of(system: System, recipe: Recipe, tables: Sequence[JobTable]) -> list[TrainingSetup]:
    """Environment, learner and loop of each stage.

    Args:
      system: the system.
      recipe: the recipe.
      tables: the training tables.

    Raises:
      JaxschedError: an unknown network, teacher or learner, parameters that are refused, a loop
        whose sizes are not what the learner needs, a search for a policy that draws its actions,
        or all stages left out.
    """
    chosen = [stage for stage in recipe.stages if not stage.skip]
    if not chosen:
        names = ", ".join(stage.name for stage in recipe.stages)
        raise JaxschedError(f"all stages are left out; accepted: one of {names} that is not")
    if recipe.play != "greedy" and any(isinstance(x.learner, EvolutionConfig) for x in chosen):
        raise JaxschedError(f"play is {recipe.play!r}; accepted with a search: greedy")
    env, kind = recipe.env, recipe.network
    policy = functions.network_policy(system, env, kind, recipe.policy, recipe.play)
    common: dict[str, Any] = {
        "play_env": env,
        "policy": policy,
        "play": recipe.play,
        "network": kind,
        "variants": system.recipes.departures.of(recipe),
    }
    made: list[tuple[Any, ParamsAt]] = []

    def params_of(env: Environment, stage: Stage) -> ParamsAt:
        """The parameters, computed once for all stages with the same episodes."""
        updates = stage.loop.num_updates if stage.episodes.shared else 0
        wanted = env, dict(stage.params), stage.episodes, stage.adjust, updates
        for key, params_at in made:
            if key == wanted:
                return params_at
        made.append((wanted, _params_at(env, stage, tables)))
        return made[-1][1]

    return [TrainingSetup(**_parts(system, recipe, stage, params_of), **common) for stage in chosen]


def steps_per_update(stage: Stage) -> int:
    """Environment steps of one update, with the most that branching may take.

    Raises:
      JaxschedError: their number depends on the environment.
    """
    tried = 0
    if isinstance(stage.learner, BranchingConfig):
        tried = stage.loop.num_envs * stage.learner.look_ahead.most_steps()
    return stage.loop.steps_per_update + tried


def budget(recipe: Recipe) -> int:
    """Environment steps of all stages of a recipe that are not left out, of one seed.

    Raises:
      JaxschedError: as ``steps_per_update``.
    """
    chosen = (stage for stage in recipe.stages if not stage.skip)
    return sum(stage.loop.num_updates * steps_per_update(stage) for stage in chosen)


def _parts(
    system: System,
    recipe: Recipe,
    stage: Stage,
    params_of: Callable[[Environment, Stage], ParamsAt],
) -> dict[str, Any]:
    """Components of a stage."""
    env: Environment = replace(recipe.env, **stage.env)
    loop = stage.loop
    config = with_loop(stage.learner, loop)
    model = system.networks.model(env, recipe.network, **stage.network_options)
    learns_in = env if stage.wrap is None else stage.wrap(env)
    teacher: Callable[[str], Any] | None = partial(functions.teacher, system, env=env)
    if model is None:
        parts = _of_network(system, recipe, stage, env)
    else:
        model = _model_in_precision(model, stage.precision)
        model = beside_critic(model) if stage.critic == "state" else model
        learns_in, teacher = model.learns_in(learns_in), model.teacher
        parts = _of_model(model, stage)
    if stage.critic == "state":
        if stage.teacher is not None:
            raise JaxschedError("critic is 'state'; accepted with a teacher: observation")
        learns_in = PrivilegedState(learns_in)
    learner = _made(parts._replace(config=config), stage.critic)
    if stage.data is None and stage.teacher is not None:
        if teacher is None:
            raise JaxschedError(f"teacher is {stage.teacher!r}; accepted: None with a search")
        learns_in = TaughtEnvironment(learns_in, teacher(stage.teacher))
    if learner.needs.whole_episodes:
        learns_in = FixedLength(learns_in, loop.rollout_length, whole=stage.cut)
    params_at = params_of(env, stage)
    if stage.data is not None:
        recorded = cache(stage.data(env, stage.teacher or "", params_at(0.0)))
        learns_in, params_at = Recorded(), lambda progress: recorded()
    check_needs(learns_in, learner, loop, None)  # fixed lengths need no params
    saved = recipe.checkpoint_every if stage.checkpoint_every is None else stage.checkpoint_every
    return {
        "name": stage.name,
        "env": learns_in,
        "learner": learner,
        "loop": loop,
        "params_at": params_at,
        "gradient_steps": getattr(config, "gradient_steps", 0),
        "evaluate_every": stage.evaluate_every or loop.num_updates,
        "checkpoint_every": saved or loop.num_updates,
    }


def _made(parts: Parts, critic: str) -> Learner:
    """The learner of a stage; with a value network if ``make`` calls for one."""
    asked = []

    def value() -> Any:
        asked.append(True)
        return parts.value()

    learner = known(parts.config).make(parts._replace(value=value))
    if critic == "state" and parts.model is None and not asked:
        raise JaxschedError(
            "critic is 'state'; accepted: observation, for a learner without a value network"
        )
    return learner


def _in_precision(network: Any, precision: str) -> Any:
    """The same network with products in another precision.

    Raises:
      JaxschedError: the network's layers have no choice of precision.
    """
    if precision == "float32":
        return network
    if not isinstance(network, ExportableModule):
        raise JaxschedError(
            f"precision is {precision!r}; accepted: float32, for an ExportableModule"
        )
    return network.clone(precision=precision)


def _model_in_precision(model: PolicyModel, precision: str) -> PolicyModel:
    """The same model with products in that precision.

    Raises:
      JaxschedError: it has one precision only.
    """
    if precision == "float32":
        return model
    if model.rounded is None:
        raise JaxschedError(
            f"precision is {precision!r}; accepted: float32, as this policy has no other"
        )
    return model.rounded()


def _of_network(system: System, recipe: Recipe, stage: Stage, env: Environment) -> Parts:
    """The stage of a policy that uses a network's scores or outputs."""
    if stage.rivals:
        raise JaxschedError(f"rivals is {stage.rivals}; accepted: none, as there are no agents")
    network: Any = functions.network(system, recipe.env, recipe.network)
    if stage.network_options:
        network = network.clone(**stage.network_options)
    network = _in_precision(network, stage.precision)
    explore = None if stage.explore is None else stage.explore(env)
    credit, kept, told, counted = (
        getattr(stage.wrap, name, None) for name in ("credit", "kept", "told", "counted")
    )
    if told and not (
        isinstance(stage.learner, ActorCriticConfig) and stage.critic == "observation"
    ):
        raise JaxschedError(
            f"learner is {type(stage.learner).__name__}, critic {stage.critic!r}; accepted where "
            "single decisions are paid, left out or counted: ActorCriticConfig, critic "
            "'observation'"
        )
    whole = stage.critic == "state"
    reads = whole or told
    if reads:
        network = Reads(network, seen)
        explore = explore if explore is None or counted else _of_seen(explore)

    def value() -> Any:
        kind = stage.value_network or recipe.network
        made = _in_precision(system.networks.value(recipe.env, kind), stage.precision)
        return Reads(made, everything if whole else seen) if reads else made

    return Parts(
        stage.learner,
        network,
        value,
        explore=explore,
        credit=credit,
        kept=kept,
        augment=None if stage.augment is None else stage.augment(env),
        act=_as_it_is if isinstance(recipe.env.action_spec(None), ArraySpec) else None,
    )


def _of_model(model: PolicyModel, stage: Stage) -> Parts:
    """The stage of a policy with a ``PolicyModel``."""
    if stage.rivals and not isinstance(stage.learner, BranchingConfig):
        raise JaxschedError(f"rivals is {stage.rivals}; accepted: none but for branching")
    return Parts(
        stage.learner,
        model=model,
        value_kind=stage.value_network,
        rivals=tuple(model.teacher(name) for name in stage.rivals) if model.teacher else (),
    )


def _of_seen(explore: Callable[..., Array]) -> Callable[..., Array]:
    return lambda key, observation, *rest: explore(key, seen(observation), *rest)


def _as_it_is(scores: Array, mask: Array) -> Array:
    """Real numbers as the action."""
    del mask
    return scores


def _params_at(env: Environment, stage: Stage, tables: Sequence[JobTable]) -> ParamsAt:
    """The environment's parameters by training progress.

    Tables of all scales are in one stack; progress only changes which of them the next resets draw,
    so that running episodes keep their tables.
    """
    episodes = stage.episodes
    scaled = [
        table if scale == 1.0 else rescale_arrivals(table, scale)
        for scale in episodes.scales
        for table in tables
    ]
    length, every = episodes.jobs, episodes.every or episodes.jobs
    drawn, options = scaled, dict(stage.params)
    alone = env.cuts_tables and stage.adjust is None and len(scaled) == 1
    if alone and 0 < length < len(scaled[0]):
        options["starts"] = segment_starts(len(scaled[0]), length, every)
        options["episode_jobs"] = length
    elif length:
        drawn = segments(scaled, length, every)
    params = cast(Any, env).params(drawn, **options)
    made: Callable[[], Any] = lambda: params  # noqa: E731
    if stage.adjust is not None:
        made = cache(stage.adjust(env, params))
    last = len(episodes.scales) - 1 if episodes.until else 0
    if not last and not episodes.shared:
        return lambda progress: made()
    if not hasattr(params, "draw"):
        raise JaxschedError(
            f"{env.name} draws among all tables; accepted: episodes.shared=false, and one of "
            "episodes.scales or episodes.until=0"
        )

    def params_at(progress: float) -> Any:
        at = min(int(progress / episodes.until * last), last) if last else 0
        count = len(drawn) // (last + 1)
        first = at * count
        if episodes.shared:
            first, count = first + round(progress * stage.loop.num_updates) % count, 1
        return made()._replace(draw=jnp.array([first, count], jnp.int32))

    return params_at
