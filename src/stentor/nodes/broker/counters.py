"""The census: what a broker counts, and the report it makes of it."""

from collections import Counter
from collections.abc import Iterable

from stentor.machine import SECOND
from stentor.model.reports.status import LinkStatus, NodeStatus, SubscriptionStatus, Traffic
from stentor.nodes.broker.link_session import LinkSession
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.forwarder import Forwarder


class BrokerCounters:
    """Totals of links that are gone and of the node itself; live links are asked."""

    def __init__(self) -> None:
        self.events_in = self.events_out = self.bytes_in = self.bytes_out = self.chunks = 0
        self.dropped: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def close(self, outbox: Outbox) -> None:
        """Book a link that is gone."""
        self.events_out += outbox.events
        self.bytes_out += outbox.position
        self.dropped["slow subscriber"] += outbox.dropped
        self.dropped["subscriber gone"] += outbox.discard()

    def report(
        self,
        now: int,
        listed: int,
        *,
        node: str,
        boot: int,
        version: str,
        born: int,
        forwarder: Forwarder[Outbox],
        traffic: Traffic,
        reliable: int,
        guests: Iterable[LinkSession],
    ) -> NodeStatus:
        forwarder.table.book_counts()
        links: list[LinkStatus] = []
        interests: list[SubscriptionStatus] = []
        for session in guests:
            connection, wishes = session.connection, session.wishes
            links.append(_link(session, now))
            interests += [
                SubscriptionStatus(
                    connection.name, connection.principal, i.id, i.pattern, str(i.filter or ""), i.accepted, i.rejected
                )
                for i in list(wishes.values())[:listed]
            ]
        links.sort(key=lambda link: (-link.queued, -link.dropped, -link.events_out))
        interests.sort(key=lambda interest: -interest.accepted)
        dropped = Counter({"no subscriber": forwarder.unrouted - forwarder.denied, "not authorised": forwarder.denied})
        dropped += self.dropped
        dropped += Counter({"slow subscriber": sum(link.dropped for link in links)})
        return NodeStatus(
            node=node,
            role="broker",
            boot=boot,
            version=version,
            uptime=(now - born) / SECOND,
            clients=sum(bool(link.name) and link.role == "client" for link in links),
            subscriptions=len(forwarder.table.subscriptions),
            topics=len(forwarder.table.topics),
            events_in=self.events_in,
            events_out=self.events_out + sum(link.events_out for link in links),
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out + sum(link.bytes_out for link in links),
            chunks=self.chunks,
            accepted=forwarder.table.slots.accepted_total,
            rejected=forwarder.table.slots.rejected_total,
            dropped=dict(sorted(dropped.items())),
            refused=dict(sorted(self.refused.items())),
            queued=sum(link.queued for link in links),
            slow=sum(link.slow for link in links),
            traffic=traffic,
            reliable=reliable,
            links=tuple(links[:listed]),
            interests=tuple(interests[:listed]),
        )


def _link(session: LinkSession, now: int) -> LinkStatus:
    connection, outbox = session.connection, session.connection.outbox
    return LinkStatus(
        role="client" if session.hop is None else "broker",
        name=connection.name,
        principal=connection.principal,
        address=connection.address,
        subscriptions=len(session.wishes),
        events_in=session.events_in,
        events_out=outbox.events,
        bytes_in=connection.received,
        bytes_out=outbox.position,
        queued=outbox.queued,
        dropped=outbox.dropped,
        slow=outbox.slow,
        idle=(now - connection.heard) / SECOND,
    )
