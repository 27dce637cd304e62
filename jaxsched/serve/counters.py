"""What a service counts, in Prometheus' format."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Counters:
    """Counters of one service, apart from those of any other in the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "jaxsched_requests_total",
            "Requests by path and status",
            ["path", "status"],
            registry=self.registry,
        )
        self.decisions = Counter(
            "jaxsched_decisions_total", "Clusters decided for", ["policy"], registry=self.registry
        )
        self.seconds = Histogram(
            "jaxsched_decide_seconds",
            "Time to decide for the clusters of one request",
            ["policy"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.policies = Gauge(
            "jaxsched_policies", "Policies that are served", registry=self.registry
        )
        self.reloads = Counter(
            "jaxsched_reloads_total", "Reloads by outcome", ["outcome"], registry=self.registry
        )

    def text(self) -> bytes:
        """Everything counted so far."""
        return generate_latest(self.registry)
