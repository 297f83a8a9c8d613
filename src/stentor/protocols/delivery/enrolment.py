"""Enrolment: who may use a reliable topic, and which clients this repository steers.

A client asks to be steered with a Recovery, again and again until it is answered: after a crash, on another broker, or
because the repository that steered it is silent. It needs no state of its own for that.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from stentor.model.communication import Role, end_name, inbox_of, within_of
from stentor.model.control import (
    ControlEvent,
    Denial,
    GossipFacts,
    GossipOffer,
    GossipSteering,
    Held,
    Migrate,
    Probe,
    ProbeAnswer,
    Recovery,
    RecoveryResponse,
)
from stentor.model.errors import Refusal, Refused
from stentor.model.ids import publisher_id, topic_id
from stentor.model.position import Position
from stentor.model.record import Fact
from stentor.protocols.delivery.agreement import Agreement
from stentor.protocols.delivery.beginnings import Beginnings
from stentor.protocols.delivery.border import Border
from stentor.protocols.delivery.commits import PROGRESS, Action, Commits
from stentor.protocols.delivery.cursor import Reader
from stentor.protocols.delivery.destination import Destination, DisseminationTable
from stentor.protocols.delivery.dispatch import Dispatch
from stentor.protocols.delivery.gossip import Gossip
from stentor.protocols.delivery.holders import Holders
from stentor.protocols.delivery.lives import Lives
from stentor.protocols.delivery.post import Post
from stentor.protocols.delivery.registry import LIFE, Frontier, KnownSubscription, Registry, is_within
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.steered_publisher import SteeredPublisher
from stentor.protocols.delivery.steering import life_of
from stentor.protocols.delivery.store import Store

_LEVELS = 64  # the level of those who serve everyone; finer ones have lower ones
_FOREIGN = 128  # that of a storage for another unit, which has what somebody did not get there


class Enrolment:
    """The clients of one topic at one repository."""

    def __init__(
        self,
        topic: str,
        settings: RepositorySettings,
        store: Store,
        registry: Registry,
        table: DisseminationTable,
        dispatch: Dispatch,
        gossip: Gossip,
        commits: Commits,
        agreement: Agreement,
        border: Border,
        lives: Lives,
    ) -> None:
        self._topic, self._settings = topic, settings
        self._store, self._registry, self._table = store, registry, table
        self._dispatch, self._gossip, self._commits, self._border = dispatch, gossip, commits, border
        self.beginnings = Beginnings(topic, settings, store, dispatch, gossip.bundle)
        self._agreement, self._lives = agreement, lives
        self.holders = Holders(topic, settings.name, registry, table, dispatch.readers, self.say)
        self.publishers = self.holders.publishers
        gossip.cares, gossip.stuck = self._cares, lambda: bool(commits.trouble)
        self.handlers: dict[type[ControlEvent], Callable[[int, int, Any], None]] = {
            Probe: self._probe,
            Recovery: self._recovery,
        }

    def say(self, to: str, event: ControlEvent) -> None:
        self._dispatch.effects.append(Post(to, (event,)))

    def remember(self, facts: list[Fact]) -> None:
        """Registrations take sequence numbers of their own; others hear of them at once."""
        if facts:
            if not all(fact.key.startswith(LIFE) for fact in facts):
                self._store.note()
            self._store.entries += facts
            shared = tuple(self._registry.shared(fact.key) for fact in facts)
            self._gossip.say(GossipFacts(self._topic, self._settings.name, shared))

    def when_safe(self, action: Action) -> None:
        """When what is registered is durable, here and on as many others as events must be on."""
        self._commits.then(lambda _: self._gossip.sharing.append(action))

    # ---- clients that look for a repository

    def _probe(self, now: int, sender: int, event: Probe) -> None:  # noqa: ARG002
        if not self._registry.created or self._gossip.leaving:
            return
        registry, settings = self._registry, self._settings
        members = registry.storing_all() if event.role == "publisher" else registry.serving(event.node)
        if event.role == "publisher":
            if self._border.is_held:
                members = self._border.storages(event.node) or members  # those who serve everyone say what is wrong
            serves = settings.name in members
        else:
            serves = self._can_serve(event.sender) and not self._is_kept_elsewhere(now, event.sender)
        if not serves:
            return
        level = _LEVELS - len(settings.unit.split("/")) * bool(settings.unit)
        if not is_within(event.node, settings.unit):
            level = _FOREIGN
        ready = self._gossip.ready and not self.is_outdone(now)
        answer = ProbeAnswer(self._topic, settings.name, event.attempt, ready, members, level)
        self.say(inbox_of(end_name(event.role, event.sender, self._topic)), answer)

    def _is_kept_elsewhere(self, now: int, name: str) -> bool:
        """Whether another one still has what we have forgotten and a subscriber has not got."""
        destination = self._table.destinations.get(name)
        if destination is None or self._settings.unit:
            return False
        others = [peer.name for peer in self._gossip.living(now) if not peer.unit]
        return any(
            destination.misses(stream, stream.floor) and any(stream.is_kept_by(other) for other in others)
            for stream in self._store.streams.values()
        )

    def _can_serve(self, name: str) -> bool:
        """Whether we have what a subscriber has not got. A storage for a unit serves whom it knows to be there."""
        destination = self._table.destinations.get(name)
        if destination is None:
            return not self._settings.unit
        streams = self._store.streams
        if any(stream.cared and destination.misses(stream, stream.cared) for stream in streams.values()):
            return False
        if not destination.served or any(
            key in streams and destination.misses(streams[key], last) for key, last in destination.needs.items()
        ):
            return False
        return not destination.until or self._store.beginning(destination.done) < destination.until

    def _recovery(self, now: int, sender: int, event: Recovery) -> None:
        end = end_name(event.role, event.sender, self._topic)
        inbox = inbox_of(end)
        if publisher_id(event.principal, end) != sender:
            return  # whoever it names did not send it, and would believe our refusal
        try:
            if self._registry.is_ended(event.ended):
                raise Refused(Refusal.BUSY, f"{self._settings.name} has an earlier {self._topic}, which was deleted")
            if not self._gossip.ready:
                raise Refused(Refusal.BUSY, f"{self._settings.name} is catching up")
            if self.is_outdone(now):
                raise Refused(Refusal.BUSY, f"{self._settings.name} can store nothing")
            self._registry.check(event.role, self._topic, event.sender, event.principal)
            if event.role == "publisher":
                self._border.check(event.node, self._gossip.bundle.peers.values())
                self._lives.unknown.check(now, event, sender)
                self._steer_publisher(inbox, event, sender)
            elif not self._can_serve(event.sender) or self._is_kept_elsewhere(now, event.sender):
                raise Refused(Refusal.BUSY, f"{self._settings.name} does not have what {event.sender} misses")
            else:
                self._steer_subscriber(now, inbox, event)
        except Refused as refused:
            is_fenced = event.role == "publisher" and refused.code is Refusal.FENCED
            newest = (
                max(self.holders.newest("publisher", event.sender), self._lives.newest_of(sender)) if is_fenced else 0
            )
            denial = Denial(self._topic, self._settings.name, event.attempt, refused.code, refused.reason, newest)
            self.say(inbox, denial)

    def _respond(self, inbox: str, event: Recovery, **details: Any) -> None:
        terms, members = self._registry.terms, self._registry.members
        self.say(
            inbox,
            RecoveryResponse(
                self._topic, self._settings.name, event.attempt, terms.copies, members,
                within=self._border.unit_of(event.node), version=self._registry.version, **details,
            ),
        )  # fmt: skip

    def _announce(self, event: Recovery) -> None:
        steering = GossipSteering(
            self._topic, self._settings.name, event.role, event.sender, event.incarnation, event.attempt
        )
        self._gossip.say(steering)

    def _steer_publisher(self, inbox: str, event: Recovery, sender: int) -> None:
        held = self.holders.claim(event)
        former = self.publishers.get(sender)
        if former is not None and former.attempt == event.attempt and not former.is_answered:
            self._hold_on(inbox, event)
            return
        stream = self._lives.stream(event, sender)
        self.remember(held)
        self.remember(self._lives.begin(event, sender))
        steered = SteeredPublisher(sender, event.sender, inbox, event.incarnation, event.attempt)
        if former is not None and life_of(former.attempt) < life_of(event.attempt):
            self.holders.turn_away("publisher", event.sender, inbox, former.attempt)
        self.publishers[sender] = steered

        def respond(_: int) -> None:
            """Answer with what is known by now."""
            if self.publishers.get(sender) is steered:
                steered.is_answered = True
                incarnation, last = self._lives.newest(sender, event.incarnation)
                self._respond(inbox, event, incarnation=incarnation, last=last)

        self.when_safe(respond)
        self._announce(event)
        if event.last:
            stream.ordered.add(1, event.last)
        self._store.admit(stream)
        self._gossip.touched[stream] = None

    def _hold_on(self, inbox: str, event: Recovery) -> None:
        """A client asks again while others are asked about it: it is to wait for us."""
        name, members = self._settings.name, self._registry.members
        self.say(inbox, ProbeAnswer(self._topic, name, event.attempt, ready=True, members=members))

    def _steer_subscriber(self, now: int, inbox: str, event: Recovery) -> None:
        if self._registry.has_unsubscribed(event.sender, event.incarnation):
            self._respond(inbox, event, where=event.where)  # it asked before that, or has not heard: it says so again
            return
        held = self.holders.claim(event)
        reader = self._dispatch.readers.get(event.sender)
        known = self._registry.subscriptions.get(event.sender)
        if reader is not None and (reader.incarnation, reader.attempt) == (event.incarnation, event.attempt):
            reader.wishes |= event.asks
            if known is not None and known.home != event.node:
                self.remember(self._registry.subscribe(event.sender, msgspec.structs.replace(known, home=event.node)))
            if reader.active:
                self._welcome(reader, event)
                if reader.wishes:
                    self._dispatch.ask(reader)
            else:
                self._hold_on(inbox, event)
            return
        where = self._registry.filter_of(event)
        self.remember(held)
        if known is None:

            def enlist(then: int, frontier: Frontier) -> None:
                self._enlist(then, inbox, event, where, frontier)

            self.beginnings.locate(now, event.since, enlist)
            return
        now_so = msgspec.structs.replace(known, principal=event.principal, home=event.node)
        now_so = now_so.change(where, self._store.streams.tops())
        if now_so != known:
            self.remember(self._registry.subscribe(event.sender, now_so))
            if now_so.where != known.where:
                self._rebind(event.sender, now_so)
        self._steer(now, inbox, event)

    def _enlist(self, now: int, inbox: str, event: Recovery, where: str, frontier: Frontier) -> None:
        known = KnownSubscription(where, frontier, event.principal, event.node, event.incarnation)
        self.enlist(event.sender, known)
        self._steer(now, inbox, event)

    def enlist(self, name: str, subscription: KnownSubscription) -> None:
        """Events are kept for a new subscriber from now on."""
        if name not in self._registry.subscriptions:
            given = self._store.streams.current(Held(*each, ()) for each in subscription.frontier)
            starts = {(each.publisher, each.incarnation): each.floor for each in given}
            for publisher, incarnation, floor in self._store.streams.floors(
                others=True
            ):  # nobody can be sure to get these
                key = publisher, incarnation
                starts[key] = max(starts.get(key, 0), floor)
            frontier = tuple((*key, floor) for key, floor in sorted(starts.items()))
            known = msgspec.structs.replace(subscription, frontier=frontier)
            if self._settings.lake:
                voids = Position({key: stream.voids for key, stream in self._store.streams.items()})
                past = Position.before(frontier).minus(Position.before(subscription.frontier)).minus(voids)
                known = msgspec.structs.replace(known, past=past.held)
            self.remember(self._registry.subscribe(name, known))
            self.register(name, self._registry.subscriptions[name])

    def pass_by(self, name: str, done: Position) -> None:
        """A subscriber has got some of what it wants of the past."""
        known = self._registry.subscriptions.get(name)
        if known is not None and known.past:
            past = Position.of(known.past).minus(done).held
            if past != known.past:
                self.remember(self._registry.subscribe(name, msgspec.structs.replace(known, past=past)))

    def _rebind(self, name: str, subscription: KnownSubscription) -> None:
        self._table.change(self._table.destinations[name], subscription, self._store.next - 1)
        self._dispatch.dirty[name] = None

    def register(self, name: str, subscription: KnownSubscription) -> Destination:
        """A subscriber is new here."""
        served = is_within(subscription.home, self._settings.unit)
        destination = self._table.add(name, subscription, self._store.next - 1, served)
        destination.advance(self._store.streams.current(Held(*each, ()) for each in subscription.frontier))
        if served:
            self._settle_in(destination)
        self._dispatch.dirty[name] = None
        return destination

    def recall(self, name: str, subscription: KnownSubscription, note: bytes) -> None:
        """A subscriber that was known here before."""
        self._move(self._table.recall(name, subscription, note), subscription.home)

    def _settle_in(self, destination: Destination) -> None:
        """From now on events are matched for it; what was skipped before, it must get from elsewhere."""
        destination.epoch = self._store.next - 1
        if self._settings.unit:
            lasts = {key: max(stream.skipped.last, stream.floor) for key, stream in self._store.streams.items()}
            destination.needs = {key: last for key, last in lasts.items() if last}

    def _move(self, destination: Destination, home: str) -> None:
        """It is at this broker. One that left our unit is served until it has all that there was: who serves it next
        may count on that.
        """
        if is_within(home, self._settings.unit):
            destination.until = 0
            if not destination.served:
                self._table.serve(destination, True)
                self._settle_in(destination)
                self._dispatch.dirty[destination.name] = None
        elif destination.served:
            if not destination.until:
                destination.until = max(self._store.next - 1, 1)
                self._dispatch.dirty[destination.name] = None
            self._see_off(destination)

    def _see_off(self, destination: Destination) -> None:
        """Serve one that left our unit no longer, if it has all that there was."""
        if self._store.beginning(destination.done) >= destination.until:
            self._table.serve(destination, False)
            destination.until = 0
            self._dispatch.dirty[destination.name] = None
            self._send_away(destination.name)

    def is_outdone(self, now: int) -> bool:
        """Whether clients are better off elsewhere: we can write nothing, and another one can."""
        others = self._gossip.living(now)
        return self._commits.is_stuck(now) and any(each.ready and not each.stuck and not each.unit for each in others)

    def dismiss(self) -> None:
        """All clients go elsewhere."""
        readers = self._dispatch.readers
        for inbox in [*(each.inbox for each in self.publishers.values()), *(each.inbox for each in readers.values())]:
            self.say(inbox, Migrate(self._topic, self._settings.name))
        self.publishers.clear()
        readers.clear()

    def _send_away(self, name: str) -> None:
        reader = self._dispatch.readers.pop(name, None)
        if reader is not None:
            self.say(reader.inbox, Migrate(self._topic, self._settings.name))

    def _cares(self) -> tuple[str, ...]:
        """The subscribers in our unit for whom we have, and keep, all that they have not got."""
        if not self._settings.unit:
            return ()
        return tuple(
            name for name, each in self._table.destinations.items() if not each.until and self._can_serve(name)
        )

    def send_away(self) -> None:
        """What some readers miss is forgotten elsewhere, and we never had it."""
        for name in [name for name in self._dispatch.readers if not self._can_serve(name)]:
            self._send_away(name)

    def _steer(self, now: int, inbox: str, event: Recovery) -> None:
        destination = self._table.destinations[event.sender]
        if self._settings.unit:
            for stream in self._store.streams.values():
                for first, last in stream.skipped:
                    destination.mark(stream.id, first, last)  # it was not for it, or had to be got elsewhere
        elif destination.advance(Held(*each, ()) for each in self._store.streams.floors()):
            self._dispatch.dirty[event.sender] = None  # it came too late for these
        destination.sync = max(destination.sync, self._store.beginning(destination.done))
        reader = Reader(destination, inbox, event.incarnation, event.attempt, now)
        reader.was_elsewhere = event.told
        reader.wishes = event.asks
        former = self._dispatch.readers.get(event.sender)
        if former is not None:
            reader.succeed(former, alone=self._registry.members == (self._settings.name,))
            if former.incarnation < event.incarnation:
                self.holders.turn_away("subscriber", event.sender, former.inbox, former.attempt)
        if event.incarnation == self._registry.subscriptions[event.sender].incarnation:
            reader.doubt = {}  # it had no earlier life
        self._dispatch.readers[event.sender] = reader
        destination.steerer = self._settings.name
        self._announce(event)

        def begin() -> None:
            if self.holders.newest("subscriber", event.sender) > event.incarnation:  # others knew of a newer one
                del self._dispatch.readers[event.sender]
                self.holders.turn_away("subscriber", event.sender, inbox, event.attempt)
                return
            if reader.wishes:
                self._dispatch.ask(reader)
            self._welcome(reader, event)

        self._agreement.consult(reader, begin)

    def _welcome(self, reader: Reader, event: Recovery) -> None:
        """It must know that we steer it before it is told anything."""
        reader.live = topic_id(within_of(self._border.unit_of(event.node), self._topic))

        def respond(_: int) -> None:
            destination = reader.destination
            known = self._registry.subscriptions.get(destination.name)
            if known is None or self._dispatch.readers.get(destination.name) is not reader:
                return
            self._respond(
                reader.inbox, event, sync=reader.safe, epoch=destination.epoch, done=destination.reached(),
                chorus=destination.chorus, past=known.past, where=known.where,
            )  # fmt: skip
            reader.rewind()
            self._dispatch.report_losses(reader)
            reader.active, reader.tuned = True, False
            self._dispatch.serve(reader)

        self.when_safe(respond)

    # ---- what was registered, here or elsewhere

    def obey(self) -> None:
        """Act upon the registry as it is now."""
        registry, renewed = self._registry, sorted(self._registry.take_renewed_subscribers())
        self.holders.obey()  # before anybody is sent elsewhere: who is fenced has nowhere to go
        for name in renewed:
            destination, known = self._table.destinations.get(name), registry.subscriptions.get(name)
            if destination is not None and (known is None or known.registration != destination.registration):
                if registry.admits("subscriber", name):  # it unsubscribed, be it for a while
                    self._send_away(name)
                self._table.remove(name)
                self._agreement.forget(name)
                self._store.entries.append(Fact(PROGRESS + name, None))
        gone = [name for name in renewed if name in self._dispatch.readers]
        for name in [name for name in gone if not registry.admits("subscriber", name)]:
            self._dismiss("subscriber", name, self._dispatch.readers.pop(name).inbox)
        for number, publisher in list(self.publishers.items()):
            if not registry.admits("publisher", publisher.name):
                del self.publishers[number]
                self._dismiss("publisher", publisher.name, publisher.inbox)
        for name in [name for name in renewed if name in registry.subscriptions]:
            subscription = registry.subscriptions[name]
            if name not in self._table.destinations:
                self.register(name, subscription)
            else:
                destination = self._table.destinations[name]
                if destination.where != subscription.where:
                    self._rebind(name, subscription)
                self._move(destination, subscription.home)
        self.remember(self._lives.apply())
        self._store.introduce(registry.is_authorised)

    def _dismiss(self, role: Role, name: str, inbox: str) -> None:
        reason = f"{name} is not registered as a {role} of {self._topic} any more"
        if self._registry.deleted:
            reason = f"{self._topic} was deleted by its owner"
        self.say(inbox, Denial(self._topic, self._settings.name, 0, Refusal.NOT_AUTHORISED, reason))

    # ---- units

    def offer(self) -> None:
        """A storage for a unit tells others whom of theirs it can serve; others send those there."""
        names = self._gossip.offered
        for name in names:
            reader = self._dispatch.readers.get(name)
            if reader is not None:
                self.say(reader.inbox, Migrate(self._topic, self._settings.name))
        self._gossip.offered = []

    def tick(self, now: int) -> None:
        """Send clients to one that is better off; offer to serve those in our unit whom a coarser storage serves."""
        if self.is_outdone(now):
            self.dismiss()
        if not self._settings.unit or not self._gossip.ready:
            return
        units = self._registry.units
        names = tuple(
            name
            for name, each in self._table.destinations.items()
            if each.served
            and each.steerer in units
            and not is_within(units[each.steerer], self._settings.unit)
            and not each.until
            and self._can_serve(name)
        )
        if names:
            self._gossip.say(GossipOffer(self._topic, self._settings.name, names))
        for destination in self._table.destinations.values():
            if destination.until:
                self._see_off(destination)
