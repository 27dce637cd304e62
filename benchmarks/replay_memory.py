r"""Processor time of DQN's replay memory: adding transitions, drawing them, renewing priorities.

    python -m benchmarks.replay_memory [--capacity 400000] [--size 184] [--json FILE]

Transitions as large as SCHED2's, in a memory that is updated in place. Times are of all threads
together, medians of several calls; set ``XLA_FLAGS=--xla_cpu_multi_thread_eigen=false`` for one.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status
from jaxsched.errors import JaxschedError

ADDED = (1024, 8192, 32_768)
"""Steps of an update: 1,024 environments and more, 1 and 8 each."""
DRAWN = (256, 1024, 4096)
ACTIONS = 11
CALLS = 9


def main() -> None:
    """Print a line for each number of transitions; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--capacity", type=int, default=400_000)
    parser.add_argument("--size", type=int, default=184, help="numbers of an observation")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.capacity < 1 or options.size < 1:
        raise JaxschedError("--capacity and --size must be at least 1")
    rows = measured(options.capacity, options.size)
    for row in rows:
        each = f"{row['us']:9,.0f} us {row['ns_each']:7,.0f} ns each"
        print(f"{row['what']:16} {row['items']:7,} {each}")
    if options.json is not None:
        document = {"kind": "replay_memory", "capacity": options.capacity, "rows": rows}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def measured(capacity: int, size: int) -> list[dict[str, Any]]:
    """Rows of ``what`` was done to how many ``items``, and its processor time."""
    import jax
    import jax.numpy as jnp

    from jaxsched.algorithms import replay as memory
    from jaxsched.algorithms.replay import Replay, Transition

    def transitions(*lead: int) -> Transition:
        seen, zeros = jnp.ones((*lead, size)), jnp.zeros(lead)
        mask = jnp.ones((*lead, ACTIONS), bool)
        return Transition(seen, jnp.zeros(lead, jnp.int32), zeros, zeros, seen, mask)

    add = jax.jit(memory.add, donate_argnums=0)
    renew = jax.jit(memory.set_priorities, donate_argnums=0)
    empty = memory.init(jax.tree.map(lambda x: x[0], transitions(1)), capacity)
    held = {"replay": jax.tree.map(jnp.copy, empty)}  # leaves of their own, to be given away

    def change(function: Callable[..., Replay], *arguments: Any) -> None:
        held["replay"] = jax.block_until_ready(function(held["replay"], *arguments))

    def look(function: Callable[..., Any]) -> None:
        jax.block_until_ready(function(jax.random.key(0), held["replay"]))

    rows = []
    for count in (count for count in ADDED if count <= capacity):
        rows.append(_row("add", count, partial(change, add, transitions(count))))
    for count in DRAWN:
        index = jnp.arange(count, dtype=jnp.int32) * 31 % capacity
        for name, function in (("draw", memory.sample), ("draw uniformly", memory.sample_uniform)):
            draw = jax.jit(partial(function, num_items=count))
            rows.append(_row(name, count, partial(look, draw)))
        rows.append(_row("set priorities", count, partial(change, renew, index, jnp.ones(count))))
    return rows


def _row(what: str, items: int, call: Callable[[], Any]) -> dict[str, Any]:
    call()
    seconds = []
    for _ in range(CALLS):
        begin = time.process_time()
        call()
        seconds.append(time.process_time() - begin)
    median = float(np.median(seconds))
    return {"what": what, "items": items, "us": median * 1e6, "ns_each": median / items * 1e9}


if __name__ == "__main__":
    sys.exit(exit_status(main))
