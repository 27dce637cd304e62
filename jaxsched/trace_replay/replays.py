"""Replays of whole tables: one of any length, or many of about the same length at once."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs import Integers, JobTable
from jaxsched.jobs.shares import slots_of
from jaxsched.trace_replay import accounts, engine, preemptive
from jaxsched.trace_replay.accounts import Options, Worth
from jaxsched.trace_replay.cluster import FREE_WEIGHT, Cluster
from jaxsched.trace_replay.demand import Forecast
from jaxsched.trace_replay.engine import Ranking
from jaxsched.trace_replay.failing import Failing
from jaxsched.trace_replay.outages import Outages
from jaxsched.trace_replay.policies import LEARNED, Order, Policy
from jaxsched.trace_replay.records import Records
from jaxsched.trace_replay.scorers import Predictor, shipped
from jaxsched.trace_replay.shares import looks_at_gpus
from jaxsched.trace_replay.suspension import Account
from jaxsched.trace_replay.tables import Jobs, Shape, as_table, in_line, prepare, thresholds_of
from jaxsched.types import Array

Rules = engine.Rules | accounts.Rules
Table = JobTable | Mapping[str, Any]

RANKINGS: dict[Order, Ranking] = {
    "drf": "drf",
    "tetris": "tetris",
    "fairness": "fairness",
    "group-fairness": "group-fairness",
    "slowdown": "slowdown",
}
WORTH: dict[Order, Worth] = {"srtf": "remaining", "srsf": "service"}


def replay(
    table: Table,
    cluster: Cluster,
    policy: Policy,
    *,
    predictor: Predictor | None = None,
    outages: Outages | None = None,
) -> Records:
    """Run every job of a table under a policy.

    Args:
      table: a job table, or columns ``submit_time`` (s, not decreasing), ``num_gpus``,
        ``duration`` (s) and optionally ``group`` (numbers or names; what ``drf`` and isolation go
        by), ``estimate`` (s), ``time_to_deadline`` (s) and ``priority``; where the cluster has
        them, ``cpus`` and ``memory_gb`` of the job, ``gpu_milli``, and ``speed_<type>``.
      cluster: the cluster.
      policy: the policy; see ``POLICIES`` for usual ones.
      predictor: ``learned`` orders only, in place of the one that comes with the library.
      outages: servers that fail, are drained or reserved; for policies that take them
        (``takes_outages``).

    Raises:
      JaxschedError: a job that the cluster can never hold, a value out of range, or a schedule that
        runs past 2**31 s.
    """
    return _replayed([table], cluster, policy, predictor, [outages], batched=False)[0]


def replay_batch(
    tables: Sequence[Table],
    cluster: Cluster,
    policy: Policy,
    *,
    predictor: Predictor | None = None,
    outages: Sequence[Outages | None] = (),
) -> list[Records]:
    """``replay`` of several tables at once, vectorised; they are padded to the longest.

    ``outages`` are those of each table, or none for all.

    Raises:
      JaxschedError: no tables, outages of another number of tables, or as ``replay``.
    """
    if not tables:
        raise JaxschedError("there are no job tables to replay; accepted: at least one")
    if outages and len(outages) != len(tables):
        raise JaxschedError(
            f"there are outages of {len(outages)} job tables of {len(tables)}; accepted: of each"
        )
    return _replayed(tables, cluster, policy, predictor, outages, batched=True)


def observed(
    table: Table, cluster: Cluster, policy: Policy, *, predictor: Predictor | None = None
) -> tuple[Records, Integers]:
    """``replay`` under an order that learns, and what it knew of each job at its submission.

    Returns:
      The records, and the features, int32 ``[n, F]`` (``history.features``).
    """
    checked = as_table(table, cluster, policy.locality)
    prepared, shape = prepare([checked], cluster, policy)
    rules = _rules(cluster, policy, shape)._replace(keeps_features=True)
    state, cuts = _run(rules, _options(policy, predictor), prepared, batched=False)
    state = jax.tree.map(lambda leaf: leaf[0], jax.device_get(state))
    _refuse_late(checked, state.overflow)
    return _records(checked, policy, state.ledger, cuts[0]), state.features[: len(checked)]


def _options(policy: Policy, predictor: Predictor | None) -> Options:
    if predictor is None and policy.order in LEARNED:
        predictor = shipped()
    how = Forecast(jnp.int32(policy.forecast_percent), jnp.int32(policy.forecast_window_s))
    return Options(
        jnp.int32(FREE_WEIGHT[policy.placement]),
        jnp.int32(policy.restart_s),
        predictor,
        jnp.int32(policy.checkpoint_s),
        how,
        jnp.int32(policy.promote_percent),
    )


def _replayed(
    tables: Sequence[Table],
    cluster: Cluster,
    policy: Policy,
    predictor: Predictor | None,
    outages: Sequence[Outages | None],
    *,
    batched: bool,
) -> list[Records]:
    checked = [as_table(table, cluster, policy.locality) for table in tables]
    prepared, shape = prepare(checked, cluster, policy, outages)
    rules = _rules(cluster, policy, shape, reserved=prepared[0].windows is not None)
    options = _options(policy, predictor)
    state, cuts = _run(rules, options, prepared, batched=batched)
    ledgers, overflow = jax.device_get((state.ledger, state.overflow))
    for table, late in zip(checked, overflow, strict=True):
        _refuse_late(table, late)
    found = [
        _with_shares(_records(table, policy, ledger, cut), table, cluster)
        for table, ledger, cut in zip(checked, ledgers, cuts, strict=True)
    ]
    if isinstance(state, engine.State) and state.failing is not None:
        parts = zip(found, *jax.device_get(state.failing), strict=True)
        return [_with_failures(records, Failing(*kept)) for records, *kept in parts]
    return found


def _refuse_late(table: JobTable, overflow: bool) -> None:
    if overflow:
        raise JaxschedError(
            f"table '{table.name}': the schedule runs past 2**31 s; accepted: fewer or shorter "
            "jobs, or more GPUs"
        )


def _rules(cluster: Cluster, policy: Policy, shape: Shape, *, reserved: bool = False) -> Any:
    if policy.keeps_accounts:
        limits = cluster.gpu_types or cluster.demands
        if limits:
            what = "GPUs of different types" if cluster.gpu_types else "limits of CPUs and memory"
            why = "suspends jobs" if policy.preemptive else "learns from the jobs before"
            raise JaxschedError(
                f"rigid: order {policy.order} {why}, which {what} are not made for; accepted: an "
                "order that does not"
            )
        scorer: Any = policy.order if policy.learns else ""
        return accounts.Rules(
            cluster=cluster,
            shape=shape,
            worth=WORTH.get(policy.order, "level"),
            num_thresholds=len(thresholds_of(policy)),
            scorer=scorer,
            suspends=policy.preemptive,
            mode=policy.mode,
            locality=policy.locality,
            keeps_features=False,
            by_priority=policy.order == "spot",
            headroom=-(-policy.headroom_percent * cluster.num_gpus // 100),
            forecasts=policy.forecast_percent > 0,
            victims=policy.victims,
            queued=policy.order == "tiresias",
            promotes=policy.promote_percent > 0,
        )
    return engine.Rules(
        cluster.in_slots,
        shape,
        RANKINGS.get(policy.order, "key"),
        policy.mode,
        policy.locality,
        estimated=policy.mode == "easy" and policy.knows == "estimates",
        weighted=policy.share != "equal",
        isolated=policy.isolated,
        in_line=in_line(cluster, policy, reserved=reserved),
        slots=cluster.slots if looks_at_gpus(cluster, policy) else 0,
        fgd=policy.placement == "fgd",
    )


def _run(
    rules: Rules, options: Options, prepared: Sequence[Jobs], *, batched: bool
) -> tuple[Any, list[Integers]]:
    """Last states of tables, with a leading axis, and the runs that were cut of each."""
    if batched:
        jobs = jax.tree.map(lambda *columns: np.stack(columns), *prepared)
    else:
        jobs = jax.tree.map(lambda column: np.asarray(column)[None], prepared[0])
    cuts: list[list[Integers]] = [[] for _ in prepared]
    state = _opened(rules, jobs)
    while True:
        state = (_go_on_all if batched else _go_on)(rules, options, jobs, state)
        if not isinstance(rules, accounts.Rules) or not rules.suspends:
            return state, [np.zeros((0, 3), np.int64) for _ in prepared]
        runs, counts = jax.device_get(state.stops)
        for cut, row, count in zip(cuts, runs, counts, strict=True):
            cut.append(row[:count].astype(np.int64))
        if not np.any((counts == runs.shape[1] - 1) & ~np.asarray(state.overflow)):
            return state, [np.concatenate(cut) for cut in cuts]
        state = state._replace(
            stops=state.stops._replace(number=jnp.zeros_like(state.stops.number))
        )


def _loop(rules: Rules, options: Options, jobs: Jobs) -> tuple[Any, Any]:
    """Condition and step of one table."""
    if isinstance(rules, accounts.Rules):
        return (
            partial(preemptive.unfinished, jobs),
            partial(preemptive.step, rules, options, jobs),
        )
    return partial(engine.unfinished, jobs), partial(engine.step, rules, options.free_weight, jobs)


@partial(jax.jit, static_argnums=0)
def _opened(rules: Rules, jobs: Jobs) -> Any:
    """First states."""
    if isinstance(rules, accounts.Rules):
        return jax.vmap(partial(accounts.opened, rules))(jobs)
    return jax.vmap(partial(engine.opened, rules))(jobs)


@partial(jax.jit, static_argnums=0, donate_argnums=3)
def _go_on(rules: Rules, options: Options, jobs: Jobs, state: Any) -> Any:
    """Steps of the only table, until it rests."""
    alone = jax.tree.map(lambda column: jnp.asarray(column)[0], jobs)
    unfinished, step = _loop(rules, options, alone)
    last = jax.lax.while_loop(unfinished, step, jax.tree.map(lambda leaf: leaf[0], state))
    return jax.tree.map(lambda leaf: leaf[None], last)


@partial(jax.jit, static_argnums=0, donate_argnums=3)
def _go_on_all(rules: Rules, options: Options, jobs: Jobs, state: Any) -> Any:
    """Likewise, of all; steps leave those that rest alone, so no whole states are selected."""
    jobs = jax.tree.map(jnp.asarray, jobs)

    def unfinished(jobs: Jobs, state: Any) -> Array:
        return _loop(rules, options, jobs)[0](state)

    def step(jobs: Jobs, state: Any) -> Any:
        return _loop(rules, options, jobs)[1](state)

    return jax.lax.while_loop(
        lambda state: jnp.any(jax.vmap(unfinished)(jobs, state)),
        lambda state: jax.vmap(step)(jobs, state),
        state,
    )


def _with_failures(records: Records, kept: Failing) -> Records:
    """Records of a replay with outages, and the runs that failures cut."""
    count = len(records.end)
    last_start, held, stops = (
        np.asarray(column[:count], np.int64) for column in (kept.last_start, kept.held, kept.stops)
    )
    return records._replace(
        preemptions=stops,
        held=held + records.end - last_start,
        cut=np.asarray(kept.cuts[: int(kept.num_cuts)], np.int64),
    )


def _with_shares(records: Records, table: JobTable, cluster: Cluster) -> Records:
    """Records with parts of GPUs, where GPUs have slots."""
    if cluster.slots == 1:
        return records
    return records._replace(num_gpus=slots_of(table, cluster.slots) / cluster.slots)


def _records(table: JobTable, policy: Policy, ledger: Any, cut: Integers) -> Records:
    row = Account if policy.keeps_accounts else engine.Outcome
    columns = ledger[: len(table), : len(row._fields)].astype(np.int64).T
    found = dict(zip(row._fields, columns, strict=True))
    preemptions, held = np.zeros(len(table), np.int64), found["end"] - found["start"]
    if policy.keeps_accounts:
        preemptions = found["preemptions"]
        held = found["served"] + found["end"] - found["last_start"]
    return Records(
        submit=table["submit_time"],
        num_gpus=table["num_gpus"],
        duration=table["duration"],
        start=found["start"],
        end=found["end"],
        num_servers=found["num_servers"],
        first_server=found["first_server"],
        preemptions=preemptions,
        held=held,
        cut=cut,
    )
