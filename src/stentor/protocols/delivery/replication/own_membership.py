"""This repository's own place in the bundle: how it introduces itself to the others, and how it leaves."""

from stentor.model.control import GossipLeave
from stentor.protocols.delivery.replication.gossip import Gossip
from stentor.protocols.delivery.replication.sync_replication import SyncReplication
from stentor.protocols.delivery.repository.service import ServiceChange
from stentor.protocols.delivery.repository.serving.name_holders import NameHolders
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.topic_state import TopicState


class OwnMembership:
    """One repository as a member of one bundle."""

    def __init__(self, state: TopicState, gossip: Gossip, holders: NameHolders, syncs: SyncReplication) -> None:
        self._state, self._settings = state, state.settings
        self._log, self._registry = state.log, state.registry
        self._gossip, self._holders = gossip, holders
        self._syncs = syncs
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
                self._state.register(registry.set_member(name, self._settings.unit, known or principal))
        elif registry.was_member(name) and not known:
            self._state.register(registry.note_former(name, principal))
        if known and known != principal and known != self._mismatch:
            self._mismatch = known
            self._state.report(
                "warning",
                f"nobody believes this repository, which is {principal} and is registered as {known}: the owner of the "
                f"topic can change that with `stentor topic bundle {self._state.topic} add {name}`",
            )

    def _report_grants(self) -> None:
        """Say once, when a topic is first opened that is older than this, which of its names anybody may use."""
        for role in ("publisher", "subscriber"):
            names = [name for name, grant in self._registry.grants(role).items() if not grant.holder]
            if names:
                self._state.report(
                    "warning", f"anyone may use these names of {role}s: grant them anew", names=", ".join(names)
                )

    # ---- leaving

    def is_over(self, ended: int) -> bool:
        """End our topic if it is the one that was deleted at this version, as our broker says; return whether it is."""
        is_news = self._registry.created and self._registry.is_ended(ended)
        if is_news:
            self._state.report("warning", "this topic was deleted while we were away: its events are discarded")
            self._state.register(self._registry.end(ended))
        return is_news

    def obey(self) -> None:
        """If we are no member any more, clients go elsewhere and we are silent to them, until we are one again."""
        is_member = self._registry.is_member(self._settings.name)
        if not self._registry.created or is_member is not self._state.service.is_leaving:
            return
        if not is_member:
            self._state.service.change(ServiceChange.REMOVED)
            self._holders.send_all_away()
            return
        self._state.service.change(ServiceChange.ADDED_AGAIN)
        for peer in self._state.bundle.peers.values():
            peer.inspected = False  # should we leave once more, all is to be read once more
        self._gossip.tell_all()  # others forgot what we have
        self._state.report("info", "repository returns to the bundle", repository=self._settings.name)

    def leave(self) -> bool:
        """Leave once others have all that we have and know, and whoever waits for an answer has it; return whether we
        have left.
        """
        heard = self._state.bundle.living(self._state.step.now, self._settings.void_after)
        copies = min(self._registry.terms.copies, sum(not peer.unit for peer in heard))
        others = [peer for peer in heard if not peer.unit and peer.inspected]
        names = [peer.name for peer in others]
        streams = self._log.streams
        # What the others have closed they had, and have forgotten: of that they take nothing more.
        open_ones = (stream for stream in streams.values() if not streams.is_closed(stream.id))
        if (
            self._gossip.sharing.is_awaited
            or not others
            or any(not self._is_elsewhere(stream, names, copies) for stream in open_ones)
            or not self._syncs.hand_over(others, copies)
        ):
            return False
        self._state.say(GossipLeave(self._state.topic, self._settings.name))
        self._state.report("info", "repository left the bundle", repository=self._settings.name)
        return True

    def _is_elsewhere(self, stream: PublisherStream, others: list[str], copies: int) -> bool:
        """Whether so many others have everything of a stream that we have, or that somebody here waits for."""
        theirs = {name: stream.peer_stored[name] for name in others if name in stream.peer_stored}
        mine = stream.kept if self._settings.unit else stream.durable
        if any(sum(spans.covers(first, last) for spans in theirs.values()) < copies for first, last in mine):
            return False
        floor = min((stream.peer_floors.get(name, 0) for name in theirs), default=0)
        served = [each for each in self._state.table.destinations.values() if each.served]
        return not self._settings.unit or not any(each.lacks(stream, floor) for each in served)
