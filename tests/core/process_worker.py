"""One of two processes that train a probe together, for ``test_processes.py``.

python -m tests.core.process_worker PORT NUMBER FOLDER
"""

import json
import sys
from pathlib import Path

import jax

from jaxsched import runtime
from jaxsched.core import processes, sharding
from jaxsched.errors import JaxschedError
from jaxsched.runs import checkpoints
from tests.core.sharding_worker import apart, trained


def refuse():
    raise JaxschedError("the first one refuses")


def main():
    port, number, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    processes.start(processes.launch_of(f"127.0.0.1:{port}", 2, number))
    mesh = sharding.make_mesh(None)
    carry, _ = trained("search", mesh)
    held = sharding.on_host(carry)
    if runtime.is_first():
        checkpoints.save(folder / "checkpoints", 1, held, {})
    processes.wait_for_all("written")
    found, _ = checkpoints.restore(folder / "checkpoints", sharding.host_like(carry))
    with sharding.on(mesh):
        placed = sharding.placed_like(found, carry)
    heard = []
    for check in (
        lambda: processes.first_alone(refuse, lambda: None),
        lambda: processes.check_same(number, "the number"),
    ):
        try:
            check()
        except JaxschedError as error:
            heard.append(str(error))
    facts = {
        "devices": jax.device_count(),
        "restored": apart(carry, placed),
        "flags": [*processes.largest(int(number == 1), 0)],
        "heard": heard,
        "first": processes.first_alone(lambda: "first", lambda: "other"),
    }
    (folder / f"facts{number}.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
