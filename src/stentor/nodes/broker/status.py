"""The status of a broker: what it counts, and who is slow."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from stentor.machine import SECOND
from stentor.model.reports.status import LinkStatus, NodeStatus, SubscriptionStatus
from stentor.nodes.broker.counters import BrokerCounters
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.network.network import BrokerNetwork
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.forwarder import Forwarder


class BrokerLife(msgspec.Struct, kw_only=True):
    """Which broker this is, and since when."""

    node: str
    version: str
    boot: int = 0
    born_at: int = 0


def status_of(
    now: int,
    listed: int,
    life: BrokerLife,
    counters: BrokerCounters,
    forwarder: Forwarder[Outbox],
    network: BrokerNetwork,
    sessions: Iterable[LinkSession],
) -> NodeStatus:
    """Return a broker's status, with so many links and subscriptions one by one."""
    forwarder.table.book_counts()
    links: list[LinkStatus] = []
    subscriptions: list[SubscriptionStatus] = []
    for session in sessions:
        links.append(_link(session, now))
        subscriptions += _subscriptions(session, listed)
    links.sort(key=lambda link: (-link.queued, -link.dropped, -link.events_out))
    subscriptions.sort(key=lambda subscription: -subscription.accepted)
    dropped = Counter({"no subscriber": forwarder.unrouted - forwarder.denied, "not authorised": forwarder.denied})
    dropped += counters.dropped
    dropped += Counter({"slow subscriber": sum(link.dropped for link in links)})
    return NodeStatus(
        node=life.node,
        role="broker",
        boot=life.boot,
        version=life.version,
        uptime=(now - life.born_at) / SECOND,
        clients=sum(bool(link.name) and link.role == "client" for link in links),
        subscriptions=len(forwarder.table.subscriptions),
        topics=len(forwarder.table.topics),
        events_in=counters.events_in,
        events_out=counters.events_out + sum(link.events_out for link in links),
        bytes_in=counters.bytes_in,
        bytes_out=counters.bytes_out + sum(link.bytes_out for link in links),
        chunks=counters.chunks,
        accepted=forwarder.table.slots.accepted_total,
        rejected=forwarder.table.slots.rejected_total,
        dropped=dict(sorted(dropped.items())),
        refused=dict(sorted(counters.refused.items())),
        queued=sum(link.queued for link in links),
        slow=sum(link.slow for link in links),
        traffic=network.traffic,
        reliable=len(network.access.charters),
        colours=network.colouring.views(),
        repaired=network.colouring.repairs + network.links_repaired,
        links=tuple(links[:listed]),
        interests=tuple(subscriptions[:listed]),
    )


def _subscriptions(session: LinkSession, listed: int) -> list[SubscriptionStatus]:
    connection = session.connection
    return [
        SubscriptionStatus(
            connection.name,
            connection.principal,
            each.id,
            each.pattern,
            str(each.filter or ""),
            each.accepted,
            each.rejected,
        )
        for each in list(session.subscriptions.values())[:listed]
    ]


def _link(session: LinkSession, now: int) -> LinkStatus:
    connection, outbox = session.connection, session.connection.outbox
    return LinkStatus(
        role="client" if session.hop is None else "broker",
        name=connection.name,
        principal=connection.principal,
        address=connection.address,
        subscriptions=len(session.subscriptions),
        events_in=session.events_in,
        events_out=outbox.events,
        bytes_in=connection.received,
        bytes_out=outbox.position,
        queued=outbox.queued,
        dropped=outbox.dropped,
        slow=outbox.slow,
        idle=(now - connection.heard) / SECOND,
    )
