"""Facts of this machine: versions, devices, memory, the cache of compiled programs."""

import os
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from packaging.requirements import Requirement

from jaxsched.provenance import facts, version_of
from jaxsched.runs import memory

PACKAGE = "jaxsched"


def machine_facts() -> dict[str, Any]:
    """Facts of this machine and installation, as values of JSON.

    Returns:
      ``versions`` (of what the package requires), ``extras`` (whether each is installed whole),
      ``devices``, ``memory`` (bytes that are free, and where), ``cache`` (folder, programs,
      bytes), ``problems`` (one line each).
    """
    here = facts()
    versions, missing = _required()
    cache = _cache()
    free = memory.available()
    problems = list(missing)
    if cache["problem"]:
        problems.append(cache["problem"])
    accelerators = [name for name in ("nvidia-smi", "rocm-smi") if shutil.which(name)]
    if accelerators and jax.default_backend() == "cpu":
        problems.append(
            f"{accelerators[0]} is here, but JAX uses the CPU; install JAX for the accelerator"
        )
    return {
        "jaxsched": here["code"]["jaxsched"],
        "python": here["python"],
        "system": here["system"],
        "cpu_cores": here["cpu_cores"],
        "versions": versions,
        "extras": _extras(),
        "devices": [
            {"platform": d.platform, "kind": d.device_kind, "id": d.id} for d in jax.devices()
        ],
        "memory": None if free is None else {"free_bytes": free.size, "where": free.where},
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "cache": {name: value for name, value in cache.items() if name != "problem"},
        "problems": problems,
    }


def _required() -> tuple[dict[str, str], list[str]]:
    """Installed versions of what the package requires, and what is missing or out of range."""
    versions: dict[str, str] = {}
    problems = []
    for requirement in _requirements():
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        found = version_of(requirement.name)
        if found is None:
            problems.append(f"{requirement.name} is not installed; accepted: {requirement}")
            continue
        versions[requirement.name] = found
        if not requirement.specifier.contains(found, prereleases=True):
            problems.append(f"{requirement.name} is {found}; accepted: {requirement}")
    return versions, problems


def _extras() -> dict[str, bool]:
    """Whether each extra is installed completely."""
    here: dict[str, bool] = {}
    try:
        names = metadata.metadata(PACKAGE).get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        return here
    for extra in names:
        asked = [
            r
            for r in _requirements()
            if r.marker is not None
            and r.marker.evaluate({"extra": extra})
            and not r.marker.evaluate({"extra": ""})
        ]
        here[extra] = all(version_of(r.name) is not None for r in asked)
    return here


def _requirements() -> list[Requirement]:
    try:
        return [Requirement(line) for line in metadata.requires(PACKAGE) or []]
    except metadata.PackageNotFoundError:  # a bare checkout
        return []


def _cache() -> dict[str, Any]:
    """The cache of compiled programs."""
    config: Any = jax.config
    folder = config.jax_compilation_cache_dir
    facts: dict[str, Any] = {"folder": folder, "programs": 0, "bytes": 0, "problem": ""}
    if folder is None or not config.jax_enable_compilation_cache:
        return facts | {"folder": None}
    path = Path(folder)
    if path.exists():
        files = [file for file in path.iterdir() if file.name.endswith("-cache")]
        facts |= {"programs": len(files), "bytes": sum(file.stat().st_size for file in files)}
    place = path
    while not place.exists():
        place = place.parent
    if not os.access(place, os.W_OK):
        facts["problem"] = f"{place} is not writable: compiled programs are not kept"
    return facts
