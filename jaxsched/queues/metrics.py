"""What the passes count, in Prometheus' format, on a port of its own."""

from typing import Any

from jaxsched.errors import needed
from jaxsched.queues.control import Pass


class Metrics:
    """Gauges and counters of one process.

    Args:
      port: where they are served, on this machine alone; 0: any free one.
      scheduler: whose queue it is: names begin with ``jaxsched_`` and this.

    Raises:
      JaxschedError: the extra ``serve`` is not installed.
      OSError: the port is taken.
    """

    def __init__(self, port: int, scheduler: str) -> None:
        client: Any = needed("prometheus_client", "serve")
        self.registry = client.CollectorRegistry()
        words = {
            "waiting": "Jobs that wait",
            "running": "Jobs that hold GPUs",
            "left": "Priorities still to be set",
            "oldest_s": "The longest wait so far, seconds",
            "seconds": "Time that the last pass took",
        }
        self._gauges = {
            name: client.Gauge(f"jaxsched_{scheduler}_{name}", text, registry=self.registry)
            for name, text in words.items()
        }
        self._passes, self._failures, self._changes = (
            client.Counter(f"jaxsched_{scheduler}_{name}", text, registry=self.registry)
            for name, text in (
                ("passes", "Passes"),
                ("failures", "Passes that changed nothing because something went wrong"),
                ("changes", "Priorities that were set, or would have been"),
            )
        )
        self.server = client.start_http_server(port, "127.0.0.1", registry=self.registry)

    def __call__(self, done: Pass) -> None:
        """Count a pass."""
        self._passes.inc()
        if done.failure:
            self._failures.inc()
            return
        self._changes.inc(done.changed)
        for name, gauge in self._gauges.items():
            gauge.set(getattr(done, name))
