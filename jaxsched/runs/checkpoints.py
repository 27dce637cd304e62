"""Saving and resuming of a training carry, with orbax.

A checkpoint holds any pytree of arrays (parameters, optimiser, replay, environment states, keys,
counters) and a JSON item with static facts: facts from the caller, and path, shape, dtype and
checksum of each leaf. It appears under its step number only when it is complete (orbax writes to a
temporary folder and renames), so a killed process leaves the previous one in place.

Leaves are stored as a flat, numbered list: containers such as ``NamedTuple`` and static fields come
back from the target's own structure. Typed random keys are stored as their key data. The number of
devices is not stored. Of several processes the first one writes, leaves that it holds whole
(``jaxsched.core.sharding.on_host``), and each reads for itself.

Pruning is not left to orbax' ``CheckpointManager``, which deletes in place: stopped at each of the
44 removals of a prune or rewind it left half a checkpoint under its step number 30 times, renaming
before removing never did; and a lone save of 0.3 MB took it 97 ms of CPU time instead of 74.
"""

import json
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError, first_line
from jaxsched.runs.leaves import (
    checksum,
    describe,
    dtype_name,
    dtype_named,
    flatten,
    like_target,
    on_this_host,
    restorable,
    stored_name,
)
from jaxsched.types import PyTree

FORMAT_VERSION = 1

_CARRY, _META = "carry", "meta"
_TEMPORARY = ".orbax-checkpoint-tmp"  # orbax's own mark, followed by a number
_CHECKED = ("system", "behaviour_version")


def save(
    directory: str | Path, step: int, carry: PyTree, meta: Mapping[str, Any], *, keep: int = 3
) -> None:
    """Write one checkpoint and wait for it.

    Args:
      directory: where checkpoints live, one folder per step; created if absent.
      step: host integer that orders checkpoints. Those at or after it belong to a continuation
        that was abandoned by resuming from an earlier one, and are removed.
      carry: pytree of arrays (host scalars allowed). Its buffers may be donated afterwards.
      meta: JSON values; ``system`` and ``behaviour_version`` are checked by ``restore``.
      keep: number of newest checkpoints to keep, at least 1.

    Raises:
      JaxschedError: the directory cannot be written, or ``meta`` is not JSON.
    """
    folder = Path(directory).absolute()
    paths, leaves = flatten(carry)
    stored = {stored_name(i): leaf for i, leaf in enumerate(leaves) if np.size(leaf)}
    facts = {
        "format_version": FORMAT_VERSION,
        "step": int(step),
        "leaves": describe(paths, leaves, stored),
        "meta": _as_json(meta),
    }
    items = {
        _CARRY: ocp.args.StandardSave(stored or {"empty": np.zeros(1, np.int8)}),
        _META: ocp.args.JsonSave(facts),
    }
    handler = ocp.CompositeCheckpointHandler(
        composite_options=ocp.CompositeOptions(multiprocessing_options=_alone())
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left_over in folder.glob(f"*{_TEMPORARY}*"):
            _remove(left_over)
        for stale in [s for s in steps(folder) if s >= step]:
            _remove(folder / str(stale))
        with ocp.Checkpointer(handler, multiprocessing_options=_alone()) as checkpointer:
            checkpointer.save(folder / str(int(step)), args=ocp.args.Composite(**items))
        for old in steps(folder)[: -max(keep, 1)]:
            _remove(folder / str(old))
    except Exception as error:  # orbax and tensorstore raise many kinds
        raise _cannot_write(folder, error) from error


def steps(directory: str | Path) -> list[int]:
    """Steps of the complete checkpoints in ``directory``, oldest first; empty if there are none."""
    path = Path(directory)
    if not path.is_dir():
        return []
    return sorted(int(p.name) for p in path.iterdir() if p.name.isdecimal() and p.is_dir())


def read_meta(directory: str | Path, step: int | None = None) -> dict[str, Any]:
    """The caller's facts of a checkpoint (the newest readable one), without loading any array."""
    for candidate in _candidates(directory, step):
        try:
            return _read_facts(directory, candidate)["meta"]
        except _CorruptError as error:
            reason = str(error)
    raise JaxschedError(f"{directory}: no readable checkpoint ({reason})")


def restore(
    directory: str | Path,
    target: PyTree,
    step: int | None = None,
    *,
    expected: Mapping[str, Any] | None = None,
) -> tuple[PyTree, dict[str, Any]]:
    """Load a checkpoint into the structure of ``target``.

    Args:
      directory: folder that ``save`` wrote to.
      target: pytree with the structure, shapes and dtypes that were saved: a carry as it is before
        training, or ``jax.ShapeDtypeStruct`` leaves, with a sharding each where the devices differ
        from those at the time of saving.
      step: which checkpoint; the newest complete one if absent. A damaged one is then passed over
        with a warning.
      expected: facts to compare with those saved (``system``, ``behaviour_version``).

    Returns:
      The carry, bit for bit as saved, and the ``meta`` it was saved with.

    Raises:
      JaxschedError: there is no checkpoint, it is damaged, or it is of another system, behaviour
        version, format or network.
    """
    reason = ""
    for candidate in _candidates(directory, step):
        try:
            facts = _read_facts(directory, candidate)
            _check_facts(directory, facts, expected or {})
            return _load(directory, candidate, facts, target), facts["meta"]
        except _CorruptError as error:
            reason = f"checkpoint {candidate} is damaged: {error}"
            if step is None and candidate != steps(directory)[0]:
                warnings.warn(f"{directory}: {reason}; trying the one before", stacklevel=2)
    raise JaxschedError(f"{directory}: no checkpoint can be loaded ({reason})")


def newest_whole(
    directory: str | Path, say: Callable[[str], Any] = lambda line: None
) -> int | None:
    """Step of the newest checkpoint all of whose numbers read as they were written.

    Args:
      directory: folder that ``save`` wrote to.
      say: called with a line about each damaged one that is passed over.

    Returns:
      The step; none where there is no checkpoint.

    Raises:
      JaxschedError: there are some, and all are damaged.
    """
    reason = ""
    for step in steps(directory)[::-1]:
        if reason:
            say(f"{reason}; going on from checkpoint {step}, the one before")
        try:
            _check_whole(directory, step)
            return step
        except _CorruptError as error:
            reason = f"{directory}: checkpoint {step} is damaged: {error}"
    if reason:
        raise JaxschedError(
            f"{reason}; there is no other, so {argument('overwrite')} begins the run anew"
        )
    return None


def _check_whole(directory: str | Path, step: int) -> None:
    """Read all arrays as stored, and compare their checksums."""
    facts = _read_facts(directory, step)
    wanted = {
        stored_name(i): np.empty(fact["shape"], dtype_named(fact["dtype"]))
        for i, fact in enumerate(facts["leaves"])
        if fact["crc32"] is not None
    }
    loaded = _read_arrays(Path(directory).absolute() / str(step) / _CARRY, wanted)
    for i, fact in enumerate(facts["leaves"]):
        _check_sum(fact, loaded.get(stored_name(i)))


def _check_sum(fact: Mapping[str, Any], value: Any) -> None:
    if fact["crc32"] is None or value is None or not on_this_host(value):
        return
    if checksum(value) != fact["crc32"]:
        raise _CorruptError(f"leaf {fact['path']} differs from what was saved")


class _CorruptError(Exception):
    """A checkpoint that cannot be read back as it was written."""


def _alone() -> ocp.options.MultiprocessingOptions:
    """Each process reads for itself, and the one that writes waits for no other."""
    if jax.process_count() == 1:
        return ocp.options.MultiprocessingOptions()
    index = jax.process_index()
    return ocp.options.MultiprocessingOptions(
        primary_host=index, active_processes={index}, barrier_sync_key_prefix=f"process{index}"
    )


def _remove(path: Path) -> None:
    """Delete a checkpoint so that a process killed meanwhile does not leave half of it in place."""
    doomed = path
    if _TEMPORARY not in path.name:
        doomed = path.with_name(f"{path.name}{_TEMPORARY}-deleted")
        path.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def _load(directory: str | Path, step: int, facts: dict[str, Any], target: PyTree) -> PyTree:
    """Read the leaves of one checkpoint and put them into the structure of ``target``."""
    targets, treedef = jax.tree.flatten(target)
    paths, abstract = flatten(target)
    saved = facts["leaves"]
    _check_leaves(f"{directory}: checkpoint {step}", saved, paths, abstract)
    wanted = {
        stored_name(i): restorable(leaf)
        for i, (leaf, fact) in enumerate(zip(abstract, saved, strict=True))
        if 0 not in fact["shape"]
    }
    loaded = _read_arrays(Path(directory).absolute() / str(step) / _CARRY, wanted)
    leaves = []
    for i, (like, fact) in enumerate(zip(targets, saved, strict=True)):
        value = loaded.get(stored_name(i), np.zeros(fact["shape"], dtype_named(fact["dtype"])))
        _check_sum(fact, value)
        leaves.append(like_target(value, like))
    return jax.tree.unflatten(treedef, leaves)


def _read_arrays(path: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    if not wanted:
        return {}
    try:
        with ocp.StandardCheckpointer(multiprocessing_options=_alone()) as checkpointer:
            return checkpointer.restore(path, wanted)
    except Exception as error:  # orbax and tensorstore raise many kinds for damaged files
        raise _CorruptError(first_line(error)) from error


def _read_facts(directory: str | Path, step: int) -> dict[str, Any]:
    try:
        path = Path(directory) / str(step) / _META / "metadata"
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _CorruptError(first_line(error)) from error
    if not isinstance(facts, dict) or "format_version" not in facts:
        raise _CorruptError("its facts are not those of a jaxsched checkpoint")
    return facts


def _check_facts(directory: str | Path, facts: dict[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse a checkpoint of another format, system or behaviour version."""
    if facts["format_version"] != FORMAT_VERSION:
        raise JaxschedError(
            f"{directory}: checkpoint format {facts['format_version']}, "
            f"this version of jaxsched reads {FORMAT_VERSION}"
        )
    for name in _CHECKED:
        if name in expected and facts["meta"].get(name) != expected[name]:
            raise JaxschedError(
                f"{directory}: the checkpoint has {name.replace('_', ' ')} "
                f"{facts['meta'].get(name)!r}, expected {expected[name]!r}"
            )


def _check_leaves(
    where: str, saved: list[dict[str, Any]], paths: list[str], leaves: list[Any]
) -> None:
    """Refuse a checkpoint whose leaves are not those of the target; name the first to differ."""
    found = {fact["path"]: (tuple(fact["shape"]), fact["dtype"]) for fact in saved}
    wanted = {p: (np.shape(x), dtype_name(x)) for p, x in zip(paths, leaves, strict=True)}
    for path in [*wanted, *found]:
        if found.get(path) != wanted.get(path):
            raise JaxschedError(
                f"{where} does not fit this configuration: {path or 'the carry'} is "
                f"{_shape_text(found.get(path))} in the checkpoint, "
                f"{_shape_text(wanted.get(path))} here"
            )


def _shape_text(entry: tuple[tuple[int, ...], str] | None) -> str:
    return "absent" if entry is None else f"{entry[1]}{list(entry[0])}"


def _candidates(directory: str | Path, step: int | None) -> list[int]:
    """Steps to try, newest first."""
    present = steps(directory)
    if not present:
        raise JaxschedError(f"{directory}: no complete checkpoint there")
    if step is None:
        return present[::-1]
    if step not in present:
        raise JaxschedError(f"{directory}: no checkpoint of step {step}, there are {present}")
    return [step]


def _as_json(meta: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(dict(meta)))
    except (TypeError, ValueError) as error:
        raise JaxschedError(f"checkpoint meta must be JSON: {first_line(error)}") from error


def _cannot_write(directory: Path, error: BaseException) -> JaxschedError:
    return JaxschedError(f"{directory}: cannot write a checkpoint: {first_line(error)}")
