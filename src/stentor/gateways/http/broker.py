"""A broker's status as Prometheus metrics."""

from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from stentor.gateways.http.node import ServedNode
from stentor.gateways.http.series import OTHER, Series
from stentor.model.ids import is_made_up
from stentor.model.reports.colour_view import ColourView
from stentor.model.reports.status import LinkStatus, NodeStatus

NETWORK = "/"  # the label of the outermost scope: an empty one is none to Prometheus, and no unit is called so


def broker_node(
    name: str, status: Callable[[], NodeStatus], ready: Callable[[], bool], directory: Path | None = None
) -> ServedNode:
    """Return a broker as its HTTP server shows it."""
    clients = Series(width=2)

    def metrics() -> Iterator[Metric]:
        found = status()
        yield from _totals(found)
        yield from _reasons(found)
        yield from _clients(found, clients)
        yield from _scopes(found)

    def waits_for() -> list[str]:
        return [] if ready() else [f"{name} starts or stops"]

    return ServedNode(name, "broker", status, waits_for, metrics, directory)


def _totals(status: NodeStatus) -> Iterator[Metric]:
    for name, text, value in (
        ("events_in", "Events that this broker took in.", status.events_in),
        ("events_out", "Events that this broker sent to subscribers.", status.events_out),
        ("bytes_in", "Bytes that this broker received.", status.bytes_in),
        ("bytes_out", "Bytes that this broker sent.", status.bytes_out),
        ("events_relayed", "Events that this broker handed on to other brokers.", status.traffic.relayed),
        ("events_entered", "Events that came from other brokers for units of this one.", status.traffic.entered),
        ("batches_matched", "Batches that this broker matched for other brokers.", status.traffic.matched),
        ("events_rerouted", "Events that waited on a link that was lost, sent on by others.", status.traffic.rerouted),
        ("events_held", "Events that waited here because a plan had changed their way.", status.traffic.held),
        ("events_overflowed", "Held events that there was no room for.", status.traffic.overflowed),
        ("events_in_doubt", "Events that may not have arrived, since their link was lost.", status.traffic.in_doubt),
        ("events_stranded", "Events for members that could not be reached.", status.traffic.stranded),
        ("events_foreign", "Events whose sender knew other members than this broker.", status.traffic.foreign),
        ("events_circling", "Events that had been at too many brokers.", status.traffic.circling),
        ("subscription_accepted", "Events that filters took, once for each subscription.", status.accepted),
        ("subscription_rejected", "Events that filters refused, once for each subscription.", status.rejected),
        ("repairs", "How often ways, profiles or links were damaged, and were mended.", status.repaired),
    ):
        yield CounterMetricFamily(f"stentor_{name}", text, value)
    for name, text, value in (
        ("clients", "Clients that are connected.", status.clients),
        ("brokers", "Brokers that this one is linked with.", status.traffic.brokers),
        ("unreachable_members", "Members of the units around it that cannot be reached.", status.traffic.unreachable),
        ("subscriptions", "Subscriptions that are in force.", status.subscriptions),
        ("events_waiting", "Events that wait here because a plan has changed their way.", status.traffic.waiting),
        ("topics", "Topics that publishers have defined.", status.topics),
        ("reliable_topics", "Reliable topics of which this broker knows who may use them.", status.reliable),
        ("slow_clients", "Clients for which events wait.", status.slow),
        ("queue_bytes", "Bytes that wait for slow clients.", status.queued),
        ("boot", "How often this node was started.", status.boot),
    ):
        yield GaugeMetricFamily(f"stentor_{name}", text, value)
    yield GaugeMetricFamily("stentor_uptime_seconds", "Seconds since the node started.", status.uptime)
    yield SummaryMetricFamily(
        "stentor_batch_events", "Events per received chunk.", count_value=status.chunks, sum_value=status.events_in
    )


def _reasons(status: NodeStatus) -> Iterator[Metric]:
    dropped = CounterMetricFamily("stentor_events_dropped", "Events that were dropped, by reason.", labels=["reason"])
    for reason, count in status.dropped.items():
        dropped.add_metric([reason], count)
    yield dropped
    refused = CounterMetricFamily("stentor_refusals", "Peers and requests that were refused.", labels=["reason"])
    for reason, count in status.refused.items():
        refused.add_metric([reason], count)
    yield refused


def _clients(status: NodeStatus, series: Series) -> Iterator[Metric]:
    """Return what waits for clients that chose their names, and under one label for all others.

    What the others lost is no series: a sum of clients that come and go shrinks, and a counter must not. It is in the
    total of `stentor_events_dropped`.
    """
    slow: dict[tuple[str, ...], LinkStatus] = {
        (link.name, link.principal): link
        for link in status.links
        if (link.queued or link.dropped) and link.name and not is_made_up(link.name)
    }
    labels = ["client", "principal"]
    queues = GaugeMetricFamily("stentor_client_queue_bytes", "Bytes that wait for a slow client.", labels=labels)
    missed = CounterMetricFamily(
        "stentor_client_events_dropped", "Events that were dropped because a client was too slow.", labels=labels
    )
    waiting: dict[tuple[str, ...], float] = {client: link.queued for client, link in slow.items()}
    unnamed = status.queued - sum(waiting.values())
    if unnamed:
        waiting[OTHER, OTHER] = unnamed
    for client, queued in series.bound(waiting):
        queues.add_metric(client, queued)
        if client in slow:
            missed.add_metric(client, slow[client].dropped)
    yield queues
    yield missed


def _scopes(status: NodeStatus) -> Iterator[Metric]:
    """Return the colours of the scopes around the broker. It is in as many as its name has parts, so no series are left
    out.
    """
    scopes = {scope or NETWORK: colours for scope, colours in status.colours.items()}
    gauges: dict[str, tuple[str, Callable[[ColourView], float]]] = {
        "round": ("The round of the scope's tree here.", lambda each: each.tree.round),
        "root": ("Whether this broker is the root of the scope.", lambda each: each.tree.role == "root"),
        "orphan": ("Whether this broker looks for a parent in the scope.", lambda each: each.tree.role == "orphan"),
        "depth": ("How far below the root of the scope this broker is.", lambda each: each.tree.depth),
        "brokers": ("Brokers in the scope's tree from this one down.", lambda each: each.brokers),
        "plan": ("Whether a plan of the scope is under way here.", lambda each: bool(each.stage)),
        "detours": ("Members reached off the tree by which events are to go.", lambda each: each.detours),
        "bound_seconds": ("Seconds within which the scope heals itself.", lambda each: each.bound),
    }
    counters: dict[str, tuple[str, Callable[[ColourView], float]]] = {
        "faults": ("Waves that did not come in time, and damage that was found.", lambda each: each.faults),
        "waves_refused": ("Waves that this broker did not take.", lambda each: each.refused),
        "children_unanswered": ("Children left out because they did not answer.", lambda each: each.unanswered),
        "rejoined": ("How often this broker was given a parent.", lambda each: each.rejoined),
        "copies_replaced": ("Copies that were not as their owners say.", lambda each: each.replaced),
    }
    for kind, chosen in ((GaugeMetricFamily, gauges), (CounterMetricFamily, counters)):
        for name, (text, value_of) in chosen.items():
            family = kind(f"stentor_scope_{name}", text, labels=["scope"])
            for scope, colours in scopes.items():
                family.add_metric([scope], value_of(colours))
            yield family
