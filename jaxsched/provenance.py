"""What a result depends on beside what was asked for: code, versions, device, command, date."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import jaxsched
from jaxsched.runtime import num_cores

_LIBRARIES = ("jax", "jaxlib", "flax", "optax", "chex", "orbax-checkpoint", "numpy")


def facts() -> dict[str, Any]:
    """What a result depends on beside its config: code, versions, device, command, date."""
    import jax

    device = jax.devices()[0]
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "code": {"jaxsched": jaxsched.__version__, **_git_facts()},
        "python": platform.python_version(),
        "versions": {name: version_of(name) for name in _LIBRARIES},
        "device": {
            "platform": device.platform,
            "kind": device.device_kind,
            "count": jax.device_count(),
            "processes": jax.process_count(),
        },
        "system": f"{platform.system()} {platform.machine()}",
        "cpu_cores": os.cpu_count(),
    }


def surroundings() -> dict[str, Any]:
    """What a timing depends on: day, device, cores and how busy they are, flags and versions."""
    import jax

    return {
        "date": datetime.now(UTC).date().isoformat(),
        "device": jax.devices()[0].device_kind,
        "backend": jax.default_backend(),
        "cores": num_cores(),
        "machine": platform.machine(),
        "load_average": list(os.getloadavg()),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "versions": {
            "python": platform.python_version(),
            **{name: version_of(name) for name in ("jax", "jaxlib", "numpy")},
        },
    }


def facts_in_words() -> dict[str, str]:
    """The versions and the device, as tables and reports say them."""
    here = facts()
    return {
        "versions": f"jaxsched {here['code']['jaxsched']}, jax {here['versions']['jax']}",
        "device": f"{here['device']['kind']}, {here['cpu_cores']} CPU cores",
    }


def _git_facts() -> dict[str, Any]:
    """Commit of the checkout that the package runs from; empty where there is none."""
    root = Path(jaxsched.__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return {}
    commit = _git(root, "rev-parse", "HEAD")
    if not commit:
        return {}
    status = _git(root, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "modified": bool(status)}


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def version_of(name: str) -> str | None:
    """Version of an installed package; None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
