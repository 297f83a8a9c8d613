"""Enrolment: who may use a reliable topic, and which clients this repository steers.

A client asks to be steered with a Recovery, again and again until it is answered: after a crash, on another broker, or
because the repository that steered it is silent. It needs no state of its own for that.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from stentor.machine import Scanned
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
    Registration,
    RegistrationReceipt,
    Role,
    TopicTask,
    end_name,
    inbox_of,
)
from stentor.model.errors import FilterError, Refusal, Refused
from stentor.model.filter import Filter
from stentor.model.ids import publisher_id
from stentor.model.record import Fact, StreamId
from stentor.protocols.delivery.commits import PROGRESS, Commits
from stentor.protocols.delivery.destination import Destination, DisseminationTable, Reader
from stentor.protocols.delivery.dispatch import Dispatch
from stentor.protocols.delivery.gossip import Gossip
from stentor.protocols.delivery.post import Post
from stentor.protocols.delivery.registry import KnownSubscription, Registry, TopicTerms, is_within
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.store import Store

_KEEP = 86_400  # seconds
_LEVELS = 64  # the level of those who serve everyone; finer ones have lower ones
_FOREIGN = 128  # that of a storage for another unit, which has what somebody did not get there
Frontier = tuple[tuple[int, int, int], ...]


class SteeredPublisher:
    """A publisher that this repository steers."""

    __slots__ = ("acknowledged", "attempt", "id", "inbox", "incarnation", "name")

    def __init__(self, number: int, name: str, inbox: str, incarnation: int, attempt: int) -> None:
        self.id, self.name, self.inbox = number, name, inbox
        self.incarnation, self.attempt = incarnation, attempt
        self.acknowledged: tuple[int, ...] = ()


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
    ) -> None:
        self._topic, self._settings = topic, settings
        self._store, self._registry, self._table = store, registry, table
        self._dispatch, self._gossip, self._commits = dispatch, gossip, commits
        self.publishers: dict[int, SteeredPublisher] = {}
        self.report: Callable[[int], dict[str, Any]] = lambda _: {}  # what an owner is told of the topic
        self.handlers: dict[type[ControlEvent], Callable[[int, int, Any], None]] = {
            Probe: self._probe,
            Recovery: self._recovery,
            Registration: self._registration,
        }

    def say(self, to: str, event: ControlEvent) -> None:
        self._dispatch.effects.append(Post(to, (event,)))

    def remember(self, facts: list[Fact]) -> None:
        """Registrations take sequence numbers of their own; others hear of them at once."""
        if facts:
            self._store.note()
            self._store.entries += facts
            shared = tuple(self._registry.shared(fact.key) for fact in facts)
            self._gossip.say(GossipFacts(self._topic, self._settings.name, shared))

    def _when_safe(self, action: Callable[[], None]) -> None:
        """When what is registered is durable, here and on as many others as events must be on."""
        self._commits.then(lambda: self._gossip.sharing.append(action))

    # ---- clients that look for a repository

    def _probe(self, now: int, sender: int, event: Probe) -> None:  # noqa: ARG002
        if not self._registry.created or self._gossip.leaving:
            return
        registry, settings = self._registry, self._settings
        members = registry.storing_all() if event.role == "publisher" else registry.serving(event.node)
        if settings.unit if event.role == "publisher" else not self._can_serve(now, event.sender):
            return
        level = _LEVELS - len(settings.unit.split("/")) * bool(settings.unit)
        if not is_within(event.node, settings.unit):
            level = _FOREIGN
        answer = ProbeAnswer(self._topic, settings.name, event.attempt, self._gossip.ready, members, level)
        self.say(inbox_of(end_name(event.role, event.sender, self._topic)), answer)

    def _can_serve(self, now: int, name: str) -> bool:
        """Whether we have what a subscriber has not got. A storage for a unit serves whom it knows to be there."""
        destination = self._table.destinations.get(name)
        if destination is None:
            return not self._settings.unit
        streams = self._store.streams
        living = self._gossip.living(now)
        for stream in streams.values():
            kept = stream.cared or any(stream.is_kept_by(peer.name) for peer in living)
            if kept and destination.misses(stream, stream.floor):
                return False
        if not destination.served:  # it left the unit that we serve
            return self._store.beginning(destination.done) < destination.until
        return not any(destination.misses(streams[key], last) for key, last in destination.needs.items())

    def _recovery(self, now: int, sender: int, event: Recovery) -> None:
        end = end_name(event.role, event.sender, self._topic)
        inbox = inbox_of(end)
        try:
            if publisher_id(event.principal, end) != sender:
                raise Refused(Refusal.FORGED, f"this was not sent by {event.sender}")
            if not self._gossip.ready:
                raise Refused(Refusal.BUSY, f"{self._settings.name} is catching up")
            self._registry.check(event.role, self._topic, event.sender, event.principal)
            if event.role == "publisher":
                self._steer_publisher(inbox, event, sender)
            elif not self._can_serve(now, event.sender):
                raise Refused(Refusal.BUSY, f"{self._settings.name} does not have what {event.sender} misses")
            else:
                self._steer_subscriber(now, inbox, event)
        except Refused as refused:
            self.say(inbox, Denial(self._topic, self._settings.name, event.attempt, refused.code, refused.reason))

    def _respond(self, inbox: str, event: Recovery, **details: Any) -> None:
        terms, members = self._registry.terms, self._registry.members
        self.say(
            inbox,
            RecoveryResponse(self._topic, self._settings.name, event.attempt, terms.copies, members, **details),
        )

    def _announce(self, event: Recovery) -> None:
        steering = GossipSteering(
            self._topic, self._settings.name, event.role, event.sender, event.incarnation, event.attempt
        )
        self._gossip.say(steering)

    def _steer_publisher(self, inbox: str, event: Recovery, sender: int) -> None:
        former = self.publishers.get(sender)
        if former is not None and former.incarnation > event.incarnation:
            raise Refused(Refusal.FENCED, f"a newer {event.sender} publishes already")
        end = end_name("publisher", event.sender, self._topic)
        self.remember(self._registry.meet(event.sender, end, event.principal, event.incarnation))
        self.publishers[sender] = SteeredPublisher(sender, event.sender, inbox, event.incarnation, event.attempt)
        incarnation, last = self._newest(sender)
        self._commits.then(lambda: self._respond(inbox, event, incarnation=incarnation, last=last))
        self._announce(event)
        stream = self._store.streams[sender, event.incarnation]
        if event.last:
            stream.ordered.add(1, event.last)
        self._store.admit(stream)
        self._gossip.touched[stream] = None

    def _newest(self, publisher: int) -> tuple[int, int]:
        """The newest stream of a publisher that begins with something stored, and up to where it has no gap: what comes
        after one was never acknowledged.
        """
        found = [(key[1], stream.known) for key, stream in self._store.streams.items() if key[0] == publisher]
        return max([each for each in found if each[1]], default=(0, 0))

    def _steer_subscriber(self, now: int, inbox: str, event: Recovery) -> None:
        reader = self._dispatch.readers.get(event.sender)
        if reader is not None and reader.incarnation > event.incarnation:
            raise Refused(Refusal.FENCED, f"a newer {event.sender} subscribes already")
        if reader is not None and (reader.incarnation, reader.attempt) == (event.incarnation, event.attempt):
            self._welcome(reader, event)
            return
        try:
            where = str(Filter(event.where)) if event.where else ""
        except FilterError as error:
            raise Refused(Refusal.FILTER, str(error)) from None
        known = self._registry.subscriptions.get(event.sender)
        if known is None:
            self._locate(now, event, lambda then, frontier: self._enlist(then, inbox, event, where, frontier))
            return
        now_so = msgspec.structs.replace(known, where=where, principal=event.principal, home=event.node)
        if now_so != known:
            self.remember(self._registry.subscribe(event.sender, now_so))
            if known.where != where:
                self._table.add(event.sender, where, self._store.next)
        self._steer(now, inbox, event)

    def _locate(self, now: int, event: Recovery, then: Callable[[int, Frontier], None]) -> None:
        """From where on a new name gets events, as a frontier."""
        kind, _, number = event.since.partition(" ")
        if kind in ("epoch", "time") and number.lstrip("-").isdigit():
            tops = {key: stream.top for key, stream in self._store.streams.items()}
            first, time = (int(number), 0) if kind == "epoch" else (0, int(number))
            self._search(tops, {}, first, time, then)
        elif kind in ("now", "beginning") and not number:
            then(now, self._store.tops() if kind == "now" else ())
        else:
            raise Refused(Refusal.PROTOCOL, f"{event.since!r} is no beginning: now, beginning, epoch N or time N")

    def _search(
        self,
        tops: dict[StreamId, int],
        seen: dict[StreamId, int],
        first: int,
        time: int,
        then: Callable[[int, Frontier], None],
    ) -> None:
        """Read from a place on, and note the first number of each stream: a frontier is what lies before these."""

        def found(now: int, scanned: Scanned) -> None:
            for record in scanned.records:
                if record.line.publisher:
                    start = max(first - record.line.sequence, 0)
                    seen.setdefault(record.line.stream, record.line.first + start)
            end = scanned.records[-1].line.end + 1 if scanned.records else self._store.next
            if end < self._store.next and len(seen) < len(tops):
                self._search(tops, seen, end, 0, then)
            else:
                frontier = {key: seen[key] - 1 if key in seen else top for key, top in tops.items()}
                then(now, tuple((*key, number) for key, number in sorted(frontier.items()) if number > 0))

        self._dispatch.scan(found, first, time=time)

    def _enlist(self, now: int, inbox: str, event: Recovery, where: str, frontier: Frontier) -> None:
        if event.sender not in self._registry.subscriptions:
            starts = {(publisher, incarnation): floor for publisher, incarnation, floor in frontier}
            for publisher, incarnation, floor in self._store.floors(others=True):  # nobody can be sure to get these
                key = publisher, incarnation
                starts[key] = max(starts.get(key, 0), floor)
            frontier = tuple((*key, floor) for key, floor in sorted(starts.items()))
            known = KnownSubscription(where, frontier, event.principal, event.node, event.incarnation)
            self.remember(self._registry.subscribe(event.sender, known))
            self.register(event.sender, known)
        self._steer(now, inbox, event)

    def register(self, name: str, subscription: KnownSubscription) -> Destination:
        """A subscriber is new here."""
        served = is_within(subscription.home, self._settings.unit)
        destination = self._table.add(name, subscription.where, self._store.next - 1, served)
        destination.advance(Held(*each, ()) for each in subscription.frontier)
        self._settle_in(destination)
        self._dispatch.dirty[name] = None
        return destination

    def recall(self, name: str, subscription: KnownSubscription, note: bytes) -> None:
        """A subscriber that was known here before."""
        served = is_within(subscription.home, self._settings.unit)
        self._settle_in(self._table.recall(name, subscription.where, note, served))

    def _settle_in(self, destination: Destination) -> None:
        """From now on events are matched for it; what was skipped before, it must get from elsewhere."""
        if destination.served:
            streams = self._store.streams.items()
            destination.needs = {key: stream.skipped.last for key, stream in streams if stream.skipped}

    def _steer(self, now: int, inbox: str, event: Recovery) -> None:
        destination = self._table.destinations[event.sender]
        if destination.advance(Held(*each, ()) for each in self._store.floors()):
            self._dispatch.dirty[event.sender] = None  # it came too late for these
        destination.sync = max(destination.sync, self._store.beginning(destination.done))
        reader = Reader(destination, inbox, event.incarnation, event.attempt, now)
        if event.incarnation == self._registry.subscriptions[event.sender].incarnation:
            reader.doubt = {}  # it had no earlier life
        self._dispatch.readers[event.sender] = reader
        destination.steerer = self._settings.name
        self._announce(event)
        self._welcome(reader, event)

    def _welcome(self, reader: Reader, event: Recovery) -> None:
        """It must know that we steer it before it is told anything."""

        def respond() -> None:
            destination = reader.destination
            if self._dispatch.readers.get(destination.name) is not reader:
                return
            self._respond(
                reader.inbox, event, sync=destination.sync, epoch=destination.epoch, done=destination.reached(),
                chorus=destination.chorus,
            )  # fmt: skip
            reader.rewind()
            reader.active, reader.tuned = True, False
            self._dispatch.serve(reader)

        self._when_safe(respond)

    # ---- owners

    def _registration(self, now: int, sender: int, event: Registration) -> None:
        code, reason, report = None, "", b""
        try:
            if publisher_id(event.principal, event.sender) != sender:
                raise Refused(Refusal.FORGED, "this was not sent by whoever it names")
            self._carry_out(event)
            report = msgspec.json.encode(self.report(now))
        except Refused as refused:
            code, reason = refused.code, refused.reason
        receipt = RegistrationReceipt(self._topic, self._settings.name, event.token, code, reason, report)
        if code is not None or event.task is TopicTask.SHOW:
            self.say(inbox_of(event.sender), receipt)
        elif event.task is TopicTask.DELETE:
            self._commits.then(lambda: self.say(inbox_of(event.sender), receipt))  # nobody is left to agree
        else:
            self._when_safe(lambda: self.say(inbox_of(event.sender), receipt))

    def _carry_out(self, event: Registration) -> None:
        registry = self._registry
        if registry.deleted:
            raise Refused(Refusal.BUSY, f"{self._topic} is being deleted")
        if event.task is TopicTask.CREATE and not registry.created:
            copies = event.copies or min(2, len(event.repositories))
            terms = TopicTerms(event.principal, copies, event.keep or _KEEP, event.expire)
            self.remember(registry.found(terms, event.repositories))
            return
        leaves = event.task is TopicTask.REMOVE_REPOSITORY and event.repositories == (self._settings.name,)
        if event.task is not TopicTask.SHOW and not (leaves and event.principal == self._gossip.principal):
            registry.check_owner(event.principal)
        match event.task:
            case TopicTask.CREATE:
                if set(event.repositories) != set(registry.members):
                    members = ", ".join(registry.members)
                    raise Refused(Refusal.TOPIC, f"{self._topic} exists already, on {members}")
            case TopicTask.DELETE:
                self.remember(registry.delete())
            case TopicTask.GRANT:
                if not event.name or ":" in event.name:
                    raise Refused(Refusal.PROTOCOL, f"{event.name!r} is no name: it must not be empty, nor hold a ':'")
                self.remember(registry.grant(event.role, event.name, event.holder))
            case TopicTask.REVOKE:
                self.remember(registry.revoke(event.role, event.name))
            case TopicTask.ADD_REPOSITORY:
                self._add(event.repositories)
            case TopicTask.REMOVE_REPOSITORY:
                self._remove(event.repositories)
            case _:
                pass

    def _add(self, repositories: tuple[str, ...]) -> None:
        """New members are told by name: they do not listen to the bundle yet."""
        for name in repositories:
            self.remember(self._registry.set_member(name, there=True))
        for name in repositories:
            self._gossip.say(self._gossip.invitation(), name)

    def _remove(self, repositories: tuple[str, ...]) -> None:
        for name in repositories:
            if name not in self._registry.members:
                raise Refused(Refusal.UNKNOWN, f"{name} is no repository of {self._topic}")
        self._registry.check_remaining(self._topic, repositories)
        for name in repositories:
            self.remember(self._registry.set_member(name, there=False))

    # ---- what was registered, here or elsewhere

    def obey(self) -> None:
        """Act upon the registry as it is now."""
        registry = self._registry
        for name in list(self._table.destinations):
            if name not in registry.subscriptions:
                self._table.remove(name)
                self._store.entries.append(Fact(PROGRESS + name, None))
        for name in [name for name in self._dispatch.readers if not registry.admits("subscriber", name)]:
            self._dismiss("subscriber", name, self._dispatch.readers.pop(name).inbox)
        for number, publisher in list(self.publishers.items()):
            if not registry.admits("publisher", publisher.name):
                del self.publishers[number]
                self._dismiss("publisher", publisher.name, publisher.inbox)
        for name, subscription in registry.subscriptions.items():
            destination = self._table.destinations.get(name)
            if destination is None:
                self.register(name, subscription)
            else:
                if destination.where != subscription.where:
                    self._table.add(name, subscription.where, self._store.next)
                served = is_within(subscription.home, self._settings.unit)
                if destination.served != served:
                    self._table.serve(destination, served)
                    if served:
                        destination.epoch = self._store.next - 1
                        self._settle_in(destination)
                    else:
                        destination.until = self._store.next - 1
                    self._dispatch.dirty[name] = None
        for stream in list(self._store.streams.values()):
            if stream.waiting and registry.is_authorised(stream.id[0]):
                self._store.admit(stream)

    def _dismiss(self, role: Role, name: str, inbox: str) -> None:
        reason = f"{name} is not registered as a {role} of {self._topic} any more"
        if self._registry.deleted:
            reason = f"{self._topic} was deleted by its owner"
        self.say(inbox, Denial(self._topic, self._settings.name, 0, Refusal.NOT_AUTHORISED, reason))

    def yield_to_others(self) -> None:
        """Other repositories steer these clients from now on."""
        for stolen in self._gossip.stolen:
            if stolen.role == "subscriber":
                if stolen.name in self._table.destinations:
                    self._table.destinations[stolen.name].steerer = stolen.sender
                reader = self._dispatch.readers.get(stolen.name)
                if reader is not None and (reader.incarnation, reader.attempt) < (stolen.incarnation, stolen.attempt):
                    del self._dispatch.readers[stolen.name]
            else:
                for number, publisher in list(self.publishers.items()):
                    mine, theirs = (publisher.incarnation, publisher.attempt), (stolen.incarnation, stolen.attempt)
                    if publisher.name == stolen.name and mine < theirs:
                        del self.publishers[number]
        self._gossip.stolen.clear()

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
        """Offer to serve those in our unit whom a coarser storage serves."""
        if not self._settings.unit or not self._gossip.ready:
            return
        units = self._registry.units
        names = tuple(
            name
            for name, each in self._table.destinations.items()
            if each.served
            and each.steerer in units
            and not is_within(units[each.steerer], self._settings.unit)
            and self._can_serve(now, name)
        )
        if names:
            self._gossip.say(GossipOffer(self._topic, self._settings.name, names))
        for name, reader in list(self._dispatch.readers.items()):
            destination = reader.destination
            if not destination.served and destination.sync >= destination.until:  # it has all that we had for it
                self.say(reader.inbox, Migrate(self._topic, self._settings.name))
                del self._dispatch.readers[name]
