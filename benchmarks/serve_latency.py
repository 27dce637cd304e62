"""Latency and throughput of ``jaxsched serve``, by real clients over loopback.

    python -m benchmarks.serve_latency [--policies sched2/pretrained,dl2/pretrained,chic/pretrained]
        [--clients 1,4] [--requests 400] [--json FILE]

Starts the service in a process of its own; each client is a thread with one connection that asks
again as soon as it is answered, for the cluster of the service's own example and, of SCHED2, for
one with 500 waiting jobs. Prints the median and the 99th percentile of the time to an answer, and
answers per second.
"""

import argparse
import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlparse

import numpy as np

from benchmarks.scripts import exit_status
from jaxsched.errors import JaxschedError

POLICIES = "sched2/pretrained,dl2/pretrained,chic/pretrained"
LONG_QUEUE = 500
WARM = 20


def main() -> None:
    """Measure, print, write JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--clients", default="1,4")
    parser.add_argument("--requests", type=int, default=400, help="of each client")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    counts = [int(word) for word in options.clients.split(",")]
    if min(*counts, options.requests, 64) < 1 or max(counts) > 64 or options.requests > 10_000:
        raise JaxschedError("--clients must be 1 to 64, --requests 1 to 10000")
    from jaxsched.provenance import surroundings

    rows: list[dict[str, Any]] = []
    with service(options.policies.split(",")) as address:
        for name, body in bodies(address).items():
            for clients in counts:
                row = measured(address, name, body, clients, options.requests)
                rows.append(row)
                print(
                    f"{name:28} {clients:3} clients: p50 {row['p50_ms']:7.2f} ms, "
                    f"p99 {row['p99_ms']:7.2f} ms, {row['per_second']:7.1f} answers/s",
                    flush=True,
                )
    if options.json is not None:
        document = {"rows": rows, **surroundings()}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


@contextmanager
def service(policies: list[str]) -> Iterator[str]:
    """Host and port of a service that ends with the block."""
    command = [sys.executable, "-u", "-m", "jaxsched", "serve", *policies, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if " at " not in line:
            raise JaxschedError(f"the service did not start: {line.strip() or 'see above'}")
        try:
            yield urlparse(line.split(" at ")[1].split()[0]).netloc
        finally:
            process.terminate()


def bodies(address: str) -> dict[str, bytes]:
    """A request for each policy, and one with a long queue where jobs wait in one."""
    connection = http.client.HTTPConnection(address, timeout=120)
    connection.request("GET", "/openapi.json")
    described = json.loads(connection.getresponse().read())
    connection.close()
    content = described["paths"]["/decide"]["post"]["requestBody"]["content"]
    examples = content["application/json"]["examples"]
    found = {}
    for name, example in examples.items():
        value = example["value"]
        found[name] = json.dumps(value).encode()
        waiting = value["cluster"].get("waiting")
        if waiting:
            longer = [{**waiting[i % len(waiting)], "id": i} for i in range(LONG_QUEUE)]
            cluster = {**value["cluster"], "waiting": longer}
            found[f"{name}, {LONG_QUEUE} jobs wait"] = json.dumps(
                {**value, "cluster": cluster}
            ).encode()
    return found


def measured(address: str, name: str, body: bytes, clients: int, requests: int) -> dict[str, Any]:
    """Times of some clients that ask at once."""
    ask(address, body, WARM)
    times: list[list[float]] = [[] for _ in range(clients)]

    def client(place: int) -> None:
        times[place] = ask(address, body, requests)

    threads = [threading.Thread(target=client, args=(place,)) for place in range(clients)]
    began = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = perf_counter() - began
    every = np.concatenate(times) * 1e3
    return {
        "policy": name,
        "clients": clients,
        "requests": int(every.size),
        "p50_ms": float(np.percentile(every, 50)),
        "p99_ms": float(np.percentile(every, 99)),
        "per_second": every.size / seconds,
    }


def ask(address: str, body: bytes, requests: int) -> list[float]:
    """Seconds to each answer, one after the other over one connection.

    Raises:
      JaxschedError: an answer is no decision.
    """
    connection, times = http.client.HTTPConnection(address, timeout=120), []
    for _ in range(requests):
        began = perf_counter()
        connection.request("POST", "/decide", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        times.append(perf_counter() - began)
        if response.status != 200:
            raise JaxschedError(f"the service answered {response.status}: {text[:200]!r}")
    connection.close()
    return times


if __name__ == "__main__":
    sys.exit(exit_status(main))
