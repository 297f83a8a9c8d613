"""The registry of a reliable topic: who owns it, which repositories manage it, and who may publish and subscribe.

Every repository of the bundle has one. A fact has a version, and the newest counts, so registries that heard the same
facts in any order are equal. What is taken back stays as a fact without a value.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from stentor.model.access import ACCESS, GRANT, MEMBER, TOPIC, Grant, Membership, SharedFact, TopicTerms
from stentor.model.control import Role
from stentor.model.errors import InvalidInput, Refusal, Refused
from stentor.model.facts import Facts, Stamped
from stentor.model.filter import Filter
from stentor.model.held import StreamsHeld
from stentor.model.ids import publisher_id
from stentor.model.ranges import (
    ClientName,
    EventNumber,
    FilterText,
    Life,
    Path,
    Principal,
    RangedDecoder,
    StreamNumbers,
    check_client_name,
)
from stentor.model.record import Fact, StreamId
from stentor.model.trace import TRACE
from stentor.protocols.delivery.authentication import FORMER, BundleMembers

_PUBLISHER = "publisher/"
_SUBSCRIPTION = "subscription/"
# The newest life that holds a name, as `life/ROLE/NAME`. Its version is that life, so that registries which heard of
# several agree on the newest. It takes no sequence number: no subscriber's place depends on it.
LIFE = "life/"
PREFIXES = (*ACCESS, FORMER, _PUBLISHER, _SUBSCRIPTION, LIFE)


Frontier = StreamNumbers  # the last number of each stream before something begins
_MOST_CHANGES = 8  # of a filter that are remembered
_MOST_GUESTS = 10_000  # subscribers that come to an open topic by themselves: anybody may, and each is written down
_MOST_RESUMED = 8  # incarnations of a publisher that are waited for, although it had newer ones
_MOST_ENDS = 4096  # lives of a publisher with events that are stored: as many as it may have streams
# Of a life, the last number that was known to be acknowledged, or stored without a gap, when the next one was first
# steered: every repository sets all up to it aside before it stores anything of a later life.
PublisherEnds = Annotated[tuple[tuple[Life, EventNumber], ...], Meta(max_length=_MOST_ENDS)]


class KnownPublisher(msgspec.Struct, frozen=True, array_like=True):
    """Who stands behind a publisher's id."""

    name: ClientName
    principal: Principal
    incarnation: Life  # the newest one
    resumed: Annotated[
        tuple[Life, ...], Meta(max_length=64)
    ] = ()  # those that it goes on with when it comes back, in the order in which they began
    ends: PublisherEnds = ()  # earlier lives that it does not go on with, until they are collected
    closed: Life = 0  # lives up to this one, but for the resumed ones, are over: nothing is left or stored of them
    told: tuple[Life, EventNumber] = (0, 0)  # the newest of these that had stored events, and how many without a gap


class KnownSubscription(msgspec.Struct, frozen=True, array_like=True):
    """What a subscriber wants, and since when: everything after these numbers of the streams there were. It may have
    wanted something else before: `changes` are earlier filters, and up to which numbers they hold.
    """

    where: FilterText
    frontier: Frontier = ()
    principal: Principal = ""
    home: Path = ""  # the broker at which it was last
    incarnation: Life = 0  # of its first life
    changes: Annotated[tuple[tuple[FilterText, Frontier], ...], Meta(max_length=64)] = ()
    past: StreamsHeld = ()  # what it wants of what was forgotten before it came: that is in a lake
    again: bool = False  # the name was registered before, and that was taken back

    @property
    def registration(self) -> int:
        """What tells this registration of a name from earlier ones; 0 if there was none."""
        return self.incarnation if self.again else 0

    def change(self, where: str, now: Frontier) -> "KnownSubscription":
        """The same with another filter, for all that is not there yet."""
        if where == self.where:
            return self
        changes = (*self.changes, (self.where, now))[-_MOST_CHANGES:]
        return msgspec.structs.replace(self, where=where, changes=changes)


class Holding(msgspec.Struct, frozen=True, array_like=True):
    """Where the newest life of a name began."""

    node: Path = ""  # the broker


_encode = msgspec.msgpack.Encoder().encode
_terms = msgspec.msgpack.Decoder(TopicTerms)
_grant = msgspec.msgpack.Decoder(Grant)
_membership = msgspec.msgpack.Decoder(Membership)
_publisher = RangedDecoder(KnownPublisher)
_subscription = RangedDecoder(KnownSubscription)
_holding = RangedDecoder(Holding)
_stored = msgspec.msgpack.Decoder(tuple[int, str, bytes])
_PUBLISHER_ID = re.compile(r"[0-9a-f]{16}")


def is_sound(key: str, value: bytes) -> bool:
    """Whether a fact about a publisher or a subscriber can be read; of others that is known since they were decoded."""
    kind, _, name = key.partition("/")
    try:
        if kind == "publisher":
            _publisher.decode(value)
            return _PUBLISHER_ID.fullmatch(name) is not None
        if kind == "former":
            _membership.decode(value)
        if kind == "life":
            role, _, name = name.partition("/")
            check_client_name(name)
            _holding.decode(value)
            return role in ("publisher", "subscriber")
        if kind == "subscription":
            check_client_name(name)
            if value:
                known = _subscription.decode(value)
                for where in filter(None, (known.where, *(before for before, _ in known.changes))):
                    Filter(where)
    except InvalidInput:
        return False
    return True


def is_within(node: str, unit: str) -> bool:
    """Whether a broker is in a unit; "" is the whole network."""
    return not unit or node == unit or node.startswith(unit + "/")


def top_of(node: str) -> str:
    """The top-level unit that a broker is in; "" if it is in none."""
    return node.partition("/")[0] if "/" in node else ""


class Registry:
    """The facts of one topic."""

    def __init__(self, repository: str) -> None:
        self._repository = repository
        self._facts = Facts()
        self.changed = False  # since somebody looked
        self.registrations = 0  # counts what was registered, but for lives: these are lost with those who lived them
        self.unshared: set[str] = set()  # keys of what brokers are to know, since somebody told them
        self.terms = TopicTerms("")
        self.members: tuple[str, ...] = ()
        self.units: dict[str, str] = {}  # which unit each of them serves
        self.believed = BundleMembers()  # members, and those that left and still have something for others
        self.publishers: dict[int, KnownPublisher] = {}
        self._renewed: set[str] = set()  # subscribers of which something was registered, since somebody looked
        self._is_renewed = False  # … or of the topic, which concerns all
        self.closings: dict[int, None] = {}  # publishers of which lives were closed, since somebody looked
        self.subscriptions: dict[str, KnownSubscription] = {}

    # ---- facts

    def load(self, facts: dict[str, bytes]) -> None:
        for key, value in facts.items():
            if key.startswith(PREFIXES):
                self._put(key, _stored.decode(value))

    def learn(self, facts: tuple[SharedFact, ...]) -> list[Fact]:
        """What is new among these, to be written down."""
        news = []
        for key, version, writer, value in facts:
            is_newer = self._facts.is_news(key, (version, writer, value))
            if key.startswith(PREFIXES) and is_newer and is_sound(key, value):
                self._put(key, (version, writer, value))
                news.append(Fact(key, _encode((version, writer, value))))
        return news

    def take_renewed(self) -> set[str]:
        """Return the subscribers of which something else was registered since this was last asked."""
        renewed = {*self.subscriptions, *self._renewed} if self._is_renewed else self._renewed
        self._renewed, self._is_renewed = set(), False
        return renewed

    @property
    def digest(self) -> int:
        return self._facts.digest

    def shared(self, key: str) -> SharedFact:
        return self._facts.shared(key)

    def versions(self) -> dict[str, tuple[int, str]]:
        return self._facts.versions()

    def newer_than(self, versions: dict[str, tuple[int, str]]) -> tuple[SharedFact, ...]:
        return self._facts.newer_than(versions)

    def set(self, key: str, value: msgspec.Struct | None) -> list[Fact]:
        """Write a fact of our own."""
        known = max(self._facts.get(each, (0, "", b""))[0] for each in (key, TOPIC))
        version = known + 1  # newer than all that an earlier topic of this name had, too
        return self.learn(((key, version, self._repository, b"" if value is None else _encode(value)),))

    def _put(self, key: str, fact: Stamped) -> None:
        self._facts.put(key, fact)
        self.changed = True
        if not key.startswith((LIFE, _PUBLISHER)):
            self.registrations += 1
        if key.startswith(ACCESS):
            self.unshared.add(key)
        value = fact[2]
        kind, _, name = key.partition("/")
        self._is_renewed = self._is_renewed or key == TOPIC
        if kind in ("subscription", "grant"):
            self._renewed.add(name.removeprefix("subscriber/") if kind == "grant" else name)
        if key == TOPIC and value:
            self.terms = _terms.decode(value)
        elif kind == "member":
            self.units.pop(name, None)
            if value:
                membership = _membership.decode(value)
                self.units[name], self.believed.principals[name] = membership.unit, membership.principal
            self.members = tuple(sorted(self.units))
        elif kind == "former" and name not in self.units:
            self.believed.principals[name] = _membership.decode(value).principal
        elif kind == "publisher":
            number, known = int(name, 16), _publisher.decode(value)
            if number not in self.publishers or known.closed > self.publishers[number].closed:
                self.closings[number] = None
            self.publishers[number] = known
        elif kind == "subscription":
            if value:
                self.subscriptions[name] = _subscription.decode(value)
            else:
                self.subscriptions.pop(name, None)

    # ---- the topic

    @property
    def known(self) -> bool:
        """Whether it was created, be it that it was deleted since."""
        return TOPIC in self._facts

    @property
    def created(self) -> bool:
        return self.known and not self.deleted

    @property
    def deleted(self) -> bool:
        return self.known and not self._facts[TOPIC][2]

    @property
    def version(self) -> int:
        """When it was created or deleted: another topic of its name has another one."""
        return self._facts[TOPIC][0]

    def delete(self) -> list[Fact]:
        """The topic is deleted: that is newer than all that is known of it, so that nothing of it holds any more. Lives
        have versions of their own.
        """
        newest = max(fact[0] for key, fact in self._facts.items() if not key.startswith(LIFE))
        return self.learn(((TOPIC, newest + 1, self._repository, b""),))

    def is_member(self, repository: str) -> bool:
        return repository in self.members

    def was_member(self, repository: str) -> bool:
        fact = self._facts.get(MEMBER + repository)
        return fact is not None and not fact[2]

    def found(self, terms: TopicTerms, members: Mapping[str, str], born: int = 0) -> list[Fact]:
        """A new topic: its repositories, of which the principals are given, write down the same. It was `born` in this
        millisecond since 1970: what brokers know of an earlier topic of this name is older.
        """
        keys = {TOPIC: _encode(terms)}
        keys |= {MEMBER + name: _encode(Membership(principal=principal)) for name, principal in members.items()}
        return self.learn(tuple((key, max(born, 1), terms.owner, value) for key, value in keys.items()))

    def set_member(self, repository: str, unit: str, principal: str) -> list[Fact]:
        """A repository manages the topic; only its owner may change the principal under which it does."""
        return self.set(MEMBER + repository, Membership(unit, principal))

    def remove_member(self, repository: str) -> list[Fact]:
        """A repository manages the topic no longer; it is heard until others have all that it has."""
        facts, principal = self.set(MEMBER + repository, None), self.principal_of(repository)
        return facts + (self.note_former(repository, principal) if principal else [])

    def note_former(self, repository: str, principal: str) -> list[Fact]:
        """Write down whom to believe when a repository speaks that left the bundle."""
        return self.set(FORMER + repository, Membership(principal=principal))

    def principal_of(self, repository: str) -> str:
        """The principal of a repository that is a member, or was one; "" if it is not known."""
        return self.believed.principals.get(repository, "")

    def introduction(self, repository: str) -> tuple[SharedFact, ...]:
        """Return the facts that name the principal of a repository."""
        known = [key for key in (MEMBER + repository, FORMER + repository) if key in self._facts]
        return tuple(self.shared(key) for key in known)

    def access(self, keys: Iterable[str] | None = None) -> tuple[SharedFact, ...]:
        """Return what brokers are to know, or these facts of it; that a topic is deleted ends all of them."""
        if self.deleted:
            return (self.shared(TOPIC),)
        found = sorted(key for key in self._facts if key.startswith(ACCESS))
        return tuple(self.shared(key) for key in found if keys is None or key in keys)

    def serving(self, node: str) -> tuple[str, ...]:
        """The repositories that serve the clients of a broker."""
        return tuple(name for name in self.members if is_within(node, self.units[name]))

    def storing_all(self) -> tuple[str, ...]:
        """Those that serve everyone."""
        return tuple(name for name in self.members if not self.units[name])

    def check_remaining(self, topic: str, leaving: tuple[str, ...]) -> None:
        """Refuse if nobody would store all of it any more."""
        if not set(self.storing_all()) - set(leaving):
            which = "last repository" if len(self.members) == 1 else "last repository that serves everyone"
            raise Refused(
                Refusal.TOPIC,
                f"{', '.join(leaving)} is the {which} of {topic}: `stentor topic bundle {topic} add NAME` adds another "
                f"one, `stentor topic delete {topic}` deletes all that is stored",
            )

    def check_owner(self, principal: str) -> None:
        if principal != self.terms.owner:
            raise Refused(Refusal.NOT_AUTHORISED, f"this topic belongs to {self.terms.owner}, not to {principal}")

    # ---- who may do what

    def grant(self, role: Role, name: str, holder: str) -> list[Fact]:
        return self.set(f"{GRANT}{role}/{name}", Grant(holder))

    def revoke(self, role: Role, name: str) -> list[Fact]:
        if self.granted(role, name) is None and not self._is_guest(role, name):
            raise Refused(Refusal.UNKNOWN, f"{name} is no {role} of this topic")
        facts = self.set(f"{GRANT}{role}/{name}", None)
        if role == "subscriber" and name in self.subscriptions:
            facts += self.unsubscribe(name)
        return facts

    def granted(self, role: Role, name: str) -> Grant | None:
        value = self._facts.get(f"{GRANT}{role}/{name}", (0, "", b""))[2]
        return _grant.decode(value) if value else None

    def admits(self, role: Role, name: str) -> bool:
        return (self.granted(role, name) is not None or self._is_guest(role, name)) and not self.deleted

    def _is_guest(self, role: Role, name: str) -> bool:
        """Whether a subscriber came to an open topic by itself."""
        return self.terms.open and role == "subscriber" and name in self.subscriptions

    def grants(self, role: Role) -> dict[str, Grant]:
        prefix = f"{GRANT}{role}/"
        return {
            key.removeprefix(prefix): _grant.decode(fact[2])
            for key, fact in sorted(self._facts.items())
            if key.startswith(prefix) and fact[2]
        }

    def check(self, role: Role, topic: str, name: str, principal: str) -> None:
        """Refuse whoever the owner has not authorised."""
        grant = self.granted(role, name)
        if grant is None and role == "subscriber" and self._is_open_to(principal, topic):
            known = self.subscriptions.get(name)
            if name and known is None and len(self.subscriptions) >= _MOST_GUESTS:
                raise Refused(
                    Refusal.TOO_MANY,
                    f"{topic} has {_MOST_GUESTS:,} subscribers: its owner can remove some with "
                    f"`stentor topic revoke {topic} --subscriber NAME`, or grant {name} a place",
                )
            grant = Grant(known.principal if known is not None else "")  # who came first has the name
        if grant is None:
            raise Refused(
                Refusal.NOT_AUTHORISED,
                f"{name} is not registered as a {role} of {topic}: its owner can do that with "
                f"`stentor topic grant {topic} --{role} {name}`",
            )
        if grant.holder and grant.holder != principal:
            raise Refused(Refusal.NOT_AUTHORISED, f"as a {role} of {topic}, {name} is {grant.holder}, not {principal}")

    def _is_open_to(self, principal: str, topic: str) -> bool:
        """Return whether somebody may read without a grant. Traces, which anybody may tell, name what others do: of
        these only to whoever runs the repository that keeps them; without TLS that is everybody.
        """
        return self.terms.open and (not topic.startswith(f"{TRACE}/") or principal == self.terms.owner)

    def check_reader(self, topic: str, name: str, principal: str) -> None:
        """Refuse whoever may not read what is stored: a name needs a grant, and without a name only the owner may."""
        if name or self._is_open_to(principal, topic):
            self.check("subscriber", topic, name, principal)
        elif principal != self.terms.owner:
            raise Refused(
                Refusal.NOT_AUTHORISED,
                f"{topic} belongs to {self.terms.owner}, not to {principal}: others read it with --name NAME, which "
                f"its owner can grant with `stentor topic grant {topic} --subscriber NAME`",
            )

    def is_authorised(self, publisher: int) -> bool:
        """Whether a publisher, known by its id, may publish now."""
        known = self.publishers.get(publisher)
        grant = self.granted("publisher", known.name) if known is not None else None
        return known is not None and grant is not None and grant.holder in ("", known.principal)

    def is_current(self, publisher: int, incarnation: int) -> bool:
        """Whether a publisher may still send something of this life of it."""
        if not self.is_authorised(publisher):
            return False
        return self.publishers[publisher].incarnation <= incarnation or self.is_resumed(publisher, incarnation)

    def is_resumed(self, publisher: int, incarnation: int) -> bool:
        """Whether several lives of a publisher may send the same numbers of this stream."""
        known = self.publishers.get(publisher)
        return known is not None and incarnation in known.resumed

    def meet(self, name: str, end: str, principal: str, incarnation: int, resumes: bool = False) -> list[Fact]:
        """A publisher introduced itself; what is new of that."""
        number = publisher_id(principal, end)
        known = self.publishers.get(number, KnownPublisher(name, principal, 0))
        resumed = known.resumed
        if resumes and incarnation not in resumed:
            resumed = (*resumed, incarnation)[-_MOST_RESUMED:]
        news = msgspec.structs.replace(known, incarnation=max(known.incarnation, incarnation), resumed=resumed)
        return [] if news == known else self.set(f"{_PUBLISHER}{number:016x}", news)

    def is_closed(self, stream: StreamId) -> bool:
        """Return whether a life is over: all that it sent is forgotten, and nothing more of it is stored."""
        known = self.publishers.get(stream[0])
        return known is not None and stream[1] <= known.closed and stream[1] not in known.resumed

    def close(self, publisher: int, life: int, told: tuple[int, int]) -> list[Fact]:
        """Close the lives of a publisher up to this one; its next life is `told` of the newest that had any events."""
        known = self.publishers[publisher]
        closed = msgspec.structs.replace(known, closed=life, told=max(told, known.told))
        return self.set(f"{_PUBLISHER}{publisher:016x}", closed)

    def subscribe(self, name: str, subscription: KnownSubscription) -> list[Fact]:
        again = name not in self.subscriptions and _SUBSCRIPTION + name in self._facts
        if again:
            subscription = msgspec.structs.replace(subscription, again=True)
        return self.set(_SUBSCRIPTION + name, subscription)

    def unsubscribe(self, name: str) -> list[Fact]:
        """Nothing is kept for a subscriber any more; its grant stays."""
        return self.set(_SUBSCRIPTION + name, None)

    # ---- who holds a name

    def life_of(self, role: Role, name: str) -> int:
        """Return the newest life that holds a name; 0 if there was none."""
        return self._facts.get(f"{LIFE}{role}/{name}", (0, "", b""))[0]

    def place_of(self, role: Role, name: str) -> str:
        """Return the broker at which that life began."""
        return _holding.decode(self._facts[f"{LIFE}{role}/{name}"][2]).node

    def hold(self, role: Role, name: str, life: int, node: str) -> list[Fact]:
        """A life holds a name from now on, and none before it does."""
        return self.learn(((f"{LIFE}{role}/{name}", life, self._repository, _encode(Holding(node))),))
