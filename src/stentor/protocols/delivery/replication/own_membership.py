"""This repository's own place in the bundle: how it introduces itself to the others, and how it leaves."""

from stentor.machine import Report
from stentor.model.control import GossipLeave
from stentor.protocols.delivery.replication.gossip import Gossip
from stentor.protocols.delivery.replication.sync_replication import SyncReplication
from stentor.protocols.delivery.repository.registry import Registry
from stentor.protocols.delivery.repository.service import Change
from stentor.protocols.delivery.repository.serving.admission import Admission
from stentor.protocols.delivery.repository.serving.dissemination_table import DisseminationTable
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.settings import RepositorySettings


class OwnMembership:
    """One repository as a member of one bundle."""

    def __init__(
        self,
        topic: str,
        settings: RepositorySettings,
        store: EventLog,
        registry: Registry,
        table: DisseminationTable,
        feeds: SubscriberFeeds,
        gossip: Gossip,
        admission: Admission,
        syncs: SyncReplication,
    ) -> None:
        self._topic, self._settings = topic, settings
        self._log, self._registry, self._table = store, registry, table
        self._feeds, self._gossip, self._admission, self._syncs = feeds, gossip, admission, syncs
        self._mismatch = ""  # the principal in the registry that is not ours, if that was reported

    # ---- introducing itself

    def introduce(self) -> None:
        """Write down the unit that we serve; and our principal if nobody has, because the topic is older than that."""
        registry, name, principal = self._registry, self._settings.name, self._gossip.principal
        known = registry.principal_of(name)
        if not principal or not registry.created:
            return
        if registry.is_member(name):
            if not known:
                self._report_grants()
            if registry.units[name] != self._settings.unit or not known:
                self._admission.remember(registry.set_member(name, self._settings.unit, known or principal))
        elif registry.was_member(name) and not known:
            self._admission.remember(registry.note_former(name, principal))
        if known and known != principal and known != self._mismatch:
            self._mismatch = known
            self._report(
                "warning",
                f"nobody believes this repository, which is {principal} and is registered as {known}: the owner of the "
                f"topic can change that with `stentor topic bundle {self._topic} add {name}`",
            )

    def _report_grants(self) -> None:
        """Say once, when a topic is first opened that is older than this, which of its names anybody may use."""
        for role in ("publisher", "subscriber"):
            names = [name for name, grant in self._registry.grants(role).items() if not grant.holder]
            if names:
                self._report(
                    "warning", f"anyone may use these names of {role}s: grant them anew", names=", ".join(names)
                )

    def _report(self, level: str, what: str, **details: str) -> None:
        self._feeds.effects.append(Report(level, what, {"topic": self._topic, **details}))

    # ---- leaving

    def is_over(self, ended: int) -> bool:
        """End our topic if it is the one that was deleted at this version, as our broker says; return whether it is."""
        is_news = self._registry.created and self._registry.is_ended(ended)
        if is_news:
            self._report("warning", "this topic was deleted while we were away: its events are discarded")
            self._admission.remember(self._registry.end(ended))
        return is_news

    def obey(self, now: int) -> None:
        """If we are no member any more, clients go elsewhere and we are silent to them, until we are one again."""
        gossip, is_member = self._gossip, self._registry.is_member(self._settings.name)
        if not self._registry.created or is_member is not gossip.leaving:
            return
        if not is_member:
            gossip.service.change(Change.REMOVED)
            self._admission.dismiss()
            return
        gossip.service.change(Change.ADDED_AGAIN)
        for peer in gossip.bundle.peers.values():
            peer.inspected = False  # should we leave once more, all is to be read once more
        gossip.tell_all(now)  # others forgot what we have
        self._report("info", "repository returns to the bundle", repository=self._settings.name)

    def leave(self, now: int) -> bool:
        """Leave once others have all that we have and know, and whoever waits for an answer has it; whether we have."""
        heard = self._gossip.bundle.living(now, self._settings.void_after)
        copies = min(self._registry.terms.copies, sum(not peer.unit for peer in heard))
        others = [peer for peer in heard if not peer.unit and peer.inspected]
        names = [peer.name for peer in others]
        streams = self._log.streams
        open_ones = (stream for stream in streams.values() if not streams.is_over(stream.id))
        if (
            self._gossip.sharing
            or not others
            or any(not self._is_elsewhere(stream, names, copies) for stream in open_ones)
            or not self._syncs.hand_over(now, others, copies)
        ):
            return False
        self._gossip.say(GossipLeave(self._topic, self._settings.name))
        self._report("info", "repository left the bundle", repository=self._settings.name)
        return True

    def _is_elsewhere(self, stream: PublisherStream, others: list[str], copies: int) -> bool:
        """Whether so many others have everything of a stream that we have, or that somebody here waits for."""
        theirs = {name: stream.peer_stored[name] for name in others if name in stream.peer_stored}
        mine = stream.kept if self._settings.unit else stream.durable
        if any(sum(spans.covers(first, last) for spans in theirs.values()) < copies for first, last in mine):
            return False
        floor = min((stream.peer_floors.get(name, 0) for name in theirs), default=0)
        served = [each for each in self._table.destinations.values() if each.served]
        return not self._settings.unit or not any(each.lacks(stream, floor) for each in served)
