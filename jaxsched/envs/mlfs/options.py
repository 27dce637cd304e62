"""What MLFS accepts as options."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal, get_args

from jaxsched.envs.mlfs.reward import RewardMode
from jaxsched.envs.mlfs.simulator import tables
from jaxsched.envs.mlfs.simulator.rules import ORDERS
from jaxsched.errors import JaxschedError

Decide = Literal["offer", "slot", "rule"]
LIMITS = {
    "cpus_per_server": (1, 2**12),
    "mem_per_server": (1, 2**14),
    "bandwidth_per_server": (1, 2**20),
    "flow_rate": (1, 2**20),
    "comm_rounds": (0, 2**12),
    "move_work": (0, 2**20),
    "move_mb": (0, 2**20),
    "max_active": (1, 2**14),
    "max_offers": (1, 2**14),
    "max_slots": (1, 2**20),
    "overload_threshold": (1, 1000),
    "busy_threshold": (0, 4000),
    "migrant_share": (0, 100),
    "tiresias_threshold": (0, 2**30),
    "prediction_error": (0, 100),
    "run_time_error": (0, 100),
    **{name: (0, most) for name, most in tables.MOST_WEIGHT.items()},
    "slot_every": (0, 2**14),
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "order": ORDERS,
    "decide": get_args(Decide),
    "reward": get_args(RewardMode),
    **dict.fromkeys(
        ("use_urgency", "use_deadline", "use_bandwidth", "use_migration", "use_mlfc"), (False, True)
    ),
}
MOST_SERVERS, MOST_GPUS = 2**12, 64


def check(env: Any) -> None:
    """Refuse values out of range.

    Args:
      env: the environment, a dataclass whose fields are ``gpus``, ``LIMITS`` and ``CHOICES``.

    Raises:
      JaxschedError: a value is not accepted.
    """
    for field in fields(env):
        value = getattr(env, field.name)
        if field.name == "gpus":
            _check_gpus(value)
        elif field.name in CHOICES:
            choices = CHOICES[field.name]
            if value not in choices or isinstance(value, int) != isinstance(choices[0], int):
                accepted = ", ".join(str(choice) for choice in choices)
                raise JaxschedError(f"mlfs: {field.name} is {value!r}; accepted: {accepted}")
        else:
            least, most = LIMITS[field.name]
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or not least <= value <= most:
                raise JaxschedError(
                    f"mlfs: {field.name} is {value!r}; accepted: a whole number from {least} "
                    f"to {most}"
                )


def _check_gpus(gpus: Sequence[int]) -> None:
    whole = isinstance(gpus, tuple) and all(
        isinstance(g, int) and not isinstance(g, bool) and 1 <= g <= MOST_GPUS for g in gpus
    )
    if not whole or not 1 <= len(gpus) <= MOST_SERVERS:
        raise JaxschedError(
            f"mlfs: gpus is {gpus!r}; accepted: for each of 1 to {MOST_SERVERS} servers a whole "
            f"number of GPUs from 1 to {MOST_GPUS}"
        )
