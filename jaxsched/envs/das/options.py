"""What DAS accepts as options."""

from dataclasses import fields
from typing import Any

from jaxsched.errors import JaxschedError

LIMITS = {
    "num_servers": (1, 1024),
    "gpus_per_server": (1, 127),
    "cpus_per_server": (1, 2**12),
    "mem_per_server": (1, 2**14),
    "bandwidth_per_server": (1, 2**14),
    "window": (1, 1024),
    "net_per_gpu": (0, 2**14),
    "spread_pct": (0, 100),
    "spread_cap": (0, 1024),
    "net_pct": (0, 100),
    "cpu_pct": (0, 1000),
    "events_per_step": (0, 64),
}
CHOICES = {
    "on_no_fit": ("skip", "block"),
    "reward": ("paper", "dense"),
    "sampling": ("first", "random"),
    "lazy": (False, True),
    "estimates": (False, True),
    "numbers": (False, True),
}


def check(env: Any) -> None:
    """Refuse values out of range.

    Args:
      env: the environment, a dataclass whose fields are those of ``LIMITS`` and ``CHOICES``.

    Raises:
      JaxschedError: a value is not accepted.
    """
    for field in fields(env):
        value = getattr(env, field.name)
        if field.name in CHOICES:
            if value not in CHOICES[field.name] or isinstance(value, int) != (
                field.type in (bool, "bool")
            ):
                accepted = " or ".join(str(choice) for choice in CHOICES[field.name])
                raise JaxschedError(f"das: {field.name} is {value!r}; accepted: {accepted}")
            continue
        least, most = LIMITS[field.name]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not least <= value <= most:
            raise JaxschedError(
                f"das: {field.name} is {value!r}; accepted: a whole number from {least} to {most}"
            )
