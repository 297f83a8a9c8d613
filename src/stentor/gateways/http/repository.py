"""A repository's report as Prometheus metrics: who lags behind, what is stored, what keeps a topic from serving."""

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from stentor.admin.topics import RepositoryReport, TopicReport
from stentor.gateways.http.node import ServedNode
from stentor.gateways.http.series import Series
from stentor.model.reports.status import TopicHealth
from stentor.runtime.ledgers import CommitTimes
from stentor.runtime.repository import RepositoryHost

_SERVING, _CATCHING_UP, _LEAVING, _FAILING = "serving", "catching up", "leaving", "cannot write"
_DAMAGED = "damaged"


def repository_node(name: str, host: RepositoryHost, directory: Path | None = None) -> ServedNode:
    """Return a repository as its HTTP server shows it."""
    families = _Families()

    def report() -> RepositoryReport:
        return msgspec.convert(host.status(), RepositoryReport)

    def waits_for() -> list[str]:
        reasons = [] if host.node.linked else [f"{name} has no link to a broker: it tries {', '.join(host.addresses)}"]
        return reasons + [
            f"{topic} at {name}: {_state(health)}{f' ({health.trouble})' if health.trouble else ''}"
            for topic, health in host.node.health().items()
            if _state(health) != _SERVING
        ]

    def metrics() -> Iterator[Metric]:
        found = report()
        yield GaugeMetricFamily(
            "stentor_repository_linked", "Whether a broker hears this repository.", int(host.node.linked)
        )
        yield GaugeMetricFamily(
            "stentor_repository_uptime_seconds", "Seconds since the repository started.", host.uptime
        )
        yield _states(found)
        yield from families.collect(found)
        yield _commits(host.commit_times)

    return ServedNode(name, "repository", host.status, waits_for, metrics, directory)


def _state(topic: TopicHealth | TopicReport) -> str:
    if topic.trouble:
        return _DAMAGED if topic.damaged else _FAILING
    if topic.leaving:
        return _LEAVING
    return _SERVING if topic.ready else _CATCHING_UP


def _states(report: RepositoryReport) -> Metric:
    """Return how many topics are in each state; each state has a sample, so that an alert sees it come and go."""
    counts = Counter(_state(topic) for topic in report.topics.values())
    metric = GaugeMetricFamily(
        "stentor_repository_topics", "Reliable topics that this repository manages, by state.", labels=["state"]
    )
    for state in (_SERVING, _CATCHING_UP, _LEAVING, _FAILING, _DAMAGED):
        metric.add_metric([state], counts[state])
    return metric


def _commits(times: CommitTimes) -> Metric:
    counts, total = times.read()
    bounds = [*map(floatToGoString, times.BOUNDS_S), "+Inf"]
    return HistogramMetricFamily(
        "stentor_commit_seconds",
        "Seconds that it took until a commit to a ledger was durable.",
        buckets=list(zip(bounds, itertools.accumulate(counts), strict=True)),
        sum_value=total,
    )


class _Families:
    """The metrics with a label for each topic, subscriber or peer."""

    def __init__(self) -> None:
        self._events = Series(width=1)
        self._bytes = Series(width=1)
        self._damaged = Series(width=1)
        self._serving = Series(width=1)
        self._lag = Series(width=2)
        self._missing = Series(width=1)
        self._silent = Series(width=1)

    def collect(self, report: RepositoryReport) -> Iterator[Metric]:
        topics = [*report.topics.values(), *([report.traces] if report.traces is not None else [])]
        yield _gauge(
            "stentor_topic_stored_events",
            "Events of a topic that this repository stores.",
            ("topic",),
            self._events.bound({(topic.topic,): topic.events for topic in topics}),
        )
        yield _gauge(
            "stentor_topic_stored_bytes",
            "Bytes that a topic takes on the disk.",
            ("topic",),
            self._bytes.bound({(topic.topic,): topic.bytes for topic in topics}),
        )
        yield _gauge(
            "stentor_topic_damaged_events",
            "Events of a topic that this repository stored and cannot read any more.",
            ("topic",),
            self._damaged.bound({(topic.topic,): topic.damaged for topic in topics}),
        )
        yield _gauge(
            "stentor_topic_serving",
            "Whether a topic is served here: this repository has caught up and can write it.",
            ("topic",),
            self._serving.bound({(topic.topic,): _state(topic) == _SERVING for topic in report.topics.values()}),
        )
        yield _gauge(
            "stentor_subscriber_lag_events",
            "Events that are stored here and that a subscriber has not acknowledged.",
            ("topic", "subscriber"),
            self._lag.bound(
                {
                    (topic.topic, name): subscriber.lag
                    for topic in report.topics.values()
                    for name, subscriber in topic.subscribers.items()
                    if subscriber.known
                }
            ),
        )
        yield from self._peers(report)

    def _peers(self, report: RepositoryReport) -> Iterator[Metric]:
        """Return what is known of the other repositories, over all topics that they and this one manage."""
        missing: Counter[tuple[str, ...]] = Counter()
        silent: dict[tuple[str, ...], float] = {}
        for topic in report.topics.values():
            for name, peer in topic.peers.items():
                missing[name,] += peer.missing
                heard = float("inf") if peer.heard is None else peer.heard
                silent[name,] = min(silent.get((name,), heard), heard)
        yield _gauge(
            "stentor_peer_missing_events",
            "Events that another repository has and this one does not.",
            ("peer",),
            self._missing.bound(missing),
        )
        yield _gauge(
            "stentor_peer_silent_seconds",
            "Seconds since another repository was last heard; infinite if it never was.",
            ("peer",),
            self._silent.bound(silent),
        )


def _gauge(
    name: str, text: str, labels: tuple[str, ...], values: Iterator[tuple[tuple[str, ...], float]]
) -> GaugeMetricFamily:
    metric = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values:
        metric.add_metric(key, value)
    return metric
