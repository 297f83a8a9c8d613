"""A node's status as Prometheus metrics."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from stentor.model.status import NodeStatus


class StatusCollector(Collector):
    """Asks the node when it is scraped, so that nothing is counted twice and nothing costs in between."""

    def __init__(self, status: Callable[[], NodeStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        yield from _totals(status)
        yield from _labelled(status)


def _totals(status: NodeStatus) -> Iterator[Metric]:
    for name, text, value in (
        ("events_in", "Events taken in", status.events_in),
        ("events_out", "Events sent to subscribers", status.events_out),
        ("bytes_in", "Bytes received", status.bytes_in),
        ("bytes_out", "Bytes sent", status.bytes_out),
        ("events_relayed", "Events handed on to other brokers", status.traffic.relayed),
        ("events_entered", "Events that came from other brokers for units of this one", status.traffic.entered),
        ("batches_matched", "Batches matched for other brokers", status.traffic.matched),
        ("events_stranded", "Events for members that could not be reached", status.traffic.stranded),
        ("events_circling", "Events that had been at too many brokers", status.traffic.circling),
    ):
        yield CounterMetricFamily(f"stentor_{name}", text, value)
    for name, text, value in (
        ("clients", "Connected clients", status.clients),
        ("brokers", "Brokers that this one is linked with", status.traffic.brokers),
        ("unreachable_members", "Members of the units around it that cannot be reached", status.traffic.unreachable),
        ("subscriptions", "Subscriptions in force", status.subscriptions),
        ("topics", "Topics defined by publishers", status.topics),
        ("slow_clients", "Clients for which events wait", status.slow),
        ("queue_bytes", "Bytes that wait for slow clients", status.queued),
        ("boot", "How often this node was started", status.boot),
    ):
        yield GaugeMetricFamily(f"stentor_{name}", text, value)
    yield GaugeMetricFamily("stentor_uptime_seconds", "Seconds since the node started", status.uptime)
    yield SummaryMetricFamily(
        "stentor_batch_events", "Events per received chunk", count_value=status.chunks, sum_value=status.events_in
    )


def _labelled(status: NodeStatus) -> Iterator[Metric]:
    dropped = CounterMetricFamily("stentor_events_dropped", "Events dropped", labels=["reason"])
    for reason, count in status.dropped.items():
        dropped.add_metric([reason], count)
    yield dropped
    refused = CounterMetricFamily("stentor_refusals", "Peers and requests refused", labels=["reason"])
    for reason, count in status.refused.items():
        refused.add_metric([reason], count)
    yield refused
    queues = GaugeMetricFamily(
        "stentor_client_queue_bytes", "Bytes that wait for a client", labels=["client", "principal"]
    )
    missed = CounterMetricFamily(
        "stentor_client_events_dropped", "Events a client was too slow for", labels=["client", "principal"]
    )
    for link in status.links:
        if link.queued or link.dropped:
            queues.add_metric([link.name, link.principal], link.queued)
            missed.add_metric([link.name, link.principal], link.dropped)
    yield queues
    yield missed
    labels = ["client", "principal", "subscription", "pattern", "where"]
    accepted = CounterMetricFamily("stentor_subscription_accepted", "Events a subscription took", labels=labels)
    rejected = CounterMetricFamily("stentor_subscription_rejected", "Events its filter refused", labels=labels)
    for interest in status.interests:
        values = [interest.client, interest.principal, str(interest.id), interest.pattern, interest.where]
        accepted.add_metric(values, interest.accepted)
        rejected.add_metric(values, interest.rejected)
    yield accepted
    yield rejected
