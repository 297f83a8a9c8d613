"""The registry of a reliable topic: who owns it, which repositories manage it, and who may publish and subscribe.

Every repository of the bundle has one. A fact has a version, and the newest counts, so registries that heard the same
facts in any order are equal. What is taken back stays as a fact without a value.
"""

from collections.abc import Iterable, Mapping

import msgspec

from stentor.model.communication import Role
from stentor.model.control import Recovery
from stentor.model.errors import FilterError, Refusal, Refused
from stentor.model.filter import Filter
from stentor.model.ids import publisher_id
from stentor.model.mail import mail_filter
from stentor.model.reports.trace import TRACE
from stentor.model.stored.record import Fact, StreamId
from stentor.model.trust.access import ACCESS, AWAITED, GRANT, MEMBER, TOPIC, Grant, Membership, SharedFact, TopicTerms
from stentor.model.trust.facts import Stamped
from stentor.protocols.delivery.authentication import FORMER, BundleMembers
from stentor.protocols.delivery.repository.fact_history import RecentFacts
from stentor.protocols.delivery.repository.registry_news import RegistryNews
from stentor.protocols.delivery.repository.registry_records import (
    MOST_ENDS,
    MOST_RESUMED,
    PublisherEnds,
    Registrations,
    holding_values,
    is_sound,
    publisher_values,
)
from stentor.protocols.delivery.repository.registry_records import Frontier as Frontier
from stentor.protocols.delivery.repository.registry_records import Holding as Holding
from stentor.protocols.delivery.repository.registry_records import PublisherRecord as PublisherRecord
from stentor.protocols.delivery.repository.registry_records import SubscriptionRecord as SubscriptionRecord

_PUBLISHER = "publisher/"
_SUBSCRIPTION = "subscription/"
# The newest life that holds a name, as `life/ROLE/NAME`. Its version is that life, so that registries which heard of
# several agree on the newest. It takes no sequence number: no subscriber's place depends on it.
LIFE = "life/"
# The newest life of a subscriber that has left: a fact that stays when a newer life holds the name.
_LEFT = "life/left/"
PREFIXES = (*ACCESS, FORMER, _PUBLISHER, _SUBSCRIPTION, LIFE)


_MOST_GUESTS = 10_000  # subscribers that come to an open topic by themselves: anybody may, and each is written down
_encode = msgspec.msgpack.Encoder().encode
_terms = msgspec.msgpack.Decoder(TopicTerms)
_grant = msgspec.msgpack.Decoder(Grant)
_membership = msgspec.msgpack.Decoder(Membership)
_stored = msgspec.msgpack.Decoder(tuple[int, str, bytes])


def after_in(facts: Iterable[SharedFact]) -> int:
    """Return at which version an earlier topic of the same name was deleted, as these facts say; 0 if they do not."""
    return max((_terms.decode(value).after for key, _, _, value in facts if key == TOPIC and value), default=0)


def is_within(node: str, unit: str) -> bool:
    """Whether a broker is in a unit; "" is the whole network."""
    return not unit or node == unit or node.startswith(unit + "/")


def top_of(node: str) -> str:
    """The top-level unit that a broker is in; "" if it is in none."""
    return node.partition("/")[0] if "/" in node else ""


class Registry:
    """The facts of one topic."""

    def __init__(self, repository: str, *, is_mail: bool = False) -> None:
        self._repository = repository
        self._is_mail = is_mail  # brokers see to it that everybody sends and gets mail under its own name
        self._facts = RecentFacts()
        self.news = RegistryNews()
        self.registrations = 0  # counts what was registered, but for lives: these are lost with those who lived them
        self.terms = TopicTerms("")
        self.members: tuple[str, ...] = ()
        self.units: dict[str, str] = {}  # which unit each of them serves
        self.believed = BundleMembers()  # members, and those that left and still have something for others
        self.publishers: dict[int, PublisherRecord] = {}
        self._may_publish: dict[int, bool] = {}  # of known publishers, as it was asked since the last fact
        self.subscriptions = Registrations()

    # ---- facts

    def load(self, facts: dict[str, bytes]) -> None:
        for key, value in facts.items():
            if key.startswith(PREFIXES):
                self._put(key, _stored.decode(value))

    def merge(self, facts: tuple[SharedFact, ...]) -> list[Fact]:
        """What is new among these, to be written down."""
        news: list[Fact] = []
        if self.deleted:
            return news  # another one of this name begins with another registry
        for key, version, writer, value in facts:
            if version <= self.terms.after:
                continue  # it is about a topic of this name that was deleted
            is_newer = self._facts.is_news(key, (version, writer, value))
            if key.startswith(PREFIXES) and is_newer and is_sound(key, value):
                self._put(key, (version, writer, value))
                news.append(Fact(key, _encode((version, writer, value))))
                news += self._insist(key, value)
        return news

    def _insist(self, key: str, value: bytes) -> list[Fact]:
        """Write down what is known of a publisher or a subscriber if whoever wrote the newest fact did not know it."""
        kind, _, name = key.partition("/")
        if kind == "publisher" and self.publishers[int(name, 16)] != publisher_values.decode(value):
            return self.set(key, self.publishers[int(name, 16)])
        if kind == "subscription" and name in self.subscriptions and self.subscriptions.is_over(name, value):
            return self.set(key, self.subscriptions[name])
        return []

    @property
    def digest(self) -> int:
        return self._facts.digest

    def shared(self, key: str) -> SharedFact:
        return self._facts.shared(key)

    def versions(self) -> dict[str, tuple[int, str]]:
        return self._facts.versions()

    def newer_than(self, versions: dict[str, tuple[int, str]]) -> tuple[SharedFact, ...]:
        return self._facts.newer_than(versions)

    def registered_since(self, digest: int) -> tuple[SharedFact, ...] | None:
        return self._facts.since(digest)

    def set(self, key: str, value: msgspec.Struct | None) -> list[Fact]:
        """Write a fact of our own."""
        known = max(self._facts.get(each, (0, "", b""))[0] for each in (key, TOPIC))
        version = known + 1  # newer than all that an earlier topic of this name had, too
        return self.merge(((key, version, self._repository, b"" if value is None else _encode(value)),))

    def _put(self, key: str, fact: Stamped) -> None:
        self._facts.put(key, fact)
        self._may_publish.clear()
        self.news.note(key)
        if not key.startswith((LIFE, _PUBLISHER)):
            self.registrations += 1
        value = fact[2]
        kind, _, name = key.partition("/")
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
            number, known = int(name, 16), publisher_values.decode(value)
            former = self.publishers.get(number)
            self.publishers[number] = known.after(former or known)
            has_closed = former is None or self.publishers[number].closed > former.closed
            self.news.note_publisher(number, has_closed=has_closed)
        elif kind == "subscription":
            self.subscriptions.put(name, value)
        elif key.startswith(_LEFT):
            self.subscriptions.leave(key.removeprefix(_LEFT), fact[0])

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
        return self._facts[TOPIC][0] if self.known else 0

    def is_ended(self, version: int) -> bool:
        """Whether this is the topic that was deleted at a version, and not one that was created since."""
        return self.known and self.version <= version

    def is_former(self, version: int) -> bool:
        """Whether this may be the version of a topic of our name that was deleted before ours was created; 0 is of no
        topic. As long as we know nothing of ours, every other version may be.
        """
        return 0 < version <= self.terms.after or (version > 0 and not self.known)

    def end(self, version: int) -> list[Fact]:
        """This topic was deleted at a version, elsewhere."""
        return self.merge(((TOPIC, version, "", b""),))

    def delete(self) -> list[Fact]:
        """The topic is deleted: that is newer than all that is known of it, so that nothing of it holds any more. Lives
        have versions of their own.
        """
        newest = max(fact[0] for key, fact in self._facts.items() if not key.startswith(LIFE))
        return self.merge(((TOPIC, newest + 1, self._repository, b""),))

    def is_member(self, repository: str) -> bool:
        return repository in self.members

    def was_member(self, repository: str) -> bool:
        fact = self._facts.get(MEMBER + repository)
        return fact is not None and not fact[2]

    def has_joined(self, repository: str) -> bool:
        """Whether somebody made a repository a member when the topic was there already."""
        version, writer, _ = self._facts.get(MEMBER + repository, (0, "", b""))
        return self.created and self.is_member(repository) and version > self.version and writer != repository

    def create(self, terms: TopicTerms, members: Mapping[str, str], born: int = 0) -> list[Fact]:
        """A new topic: its repositories, of which the principals are given, write down the same. It was `born` in this
        millisecond since 1970: what brokers know of an earlier topic of this name is older.
        """
        keys = {TOPIC: _encode(terms)}
        keys |= {MEMBER + name: _encode(Membership(principal=principal)) for name, principal in members.items()}
        return self.merge(tuple((key, max(born, 1), terms.owner, value) for key, value in keys.items()))

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
            return (self.shared(TOPIC), *(self._awaited(name) for name in self.members if len(self.members) > 1))
        found = sorted(key for key in (self._facts if keys is None else keys) if key.startswith(ACCESS))
        return tuple(self.shared(key) for key in found)

    def _awaited(self, member: str) -> SharedFact:
        """Return that a member must hear that the topic is deleted; that it has, which it says itself, is newer."""
        if member == self._repository:
            return AWAITED + member, self.version + 2, "", b""
        return AWAITED + member, self.version + 1, "", self._facts[MEMBER + member][2]

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
        if not value and self._is_mail and name:
            return Grant()
        return _grant.decode(value) if value else None

    def admits(self, role: Role, name: str) -> bool:
        return (self.granted(role, name) is not None or self._is_guest(role, name)) and not self.deleted

    def _is_guest(self, role: Role, name: str) -> bool:
        """Whether a subscriber came to an open topic by itself."""
        return self.terms.open and role == "subscriber" and name in self.subscriptions

    def grants(self, role: Role, name: str = "") -> dict[str, Grant]:
        """Return all grants of a role by name, or that of one name."""
        prefix = f"{GRANT}{role}/"
        keys = [prefix + name] if name else sorted(key for key in self._facts if key.startswith(prefix))
        values = {key: self._facts[key][2] for key in keys if key in self._facts}
        return {key.removeprefix(prefix): _grant.decode(value) for key, value in values.items() if value}

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
        if name and self._is_mail:
            raise Refused(Refusal.NOT_AUTHORISED, "mail is read by whom it is for: `fabric.mailbox()`")
        if name or self._is_open_to(principal, topic):
            self.check("subscriber", topic, name, principal)
        elif principal != self.terms.owner:
            raise Refused(
                Refusal.NOT_AUTHORISED,
                f"{topic} belongs to {self.terms.owner}, not to {principal}: others read it with --name NAME, which "
                f"its owner can grant with `stentor topic grant {topic} --subscriber NAME`",
            )

    def publisher_name(self, publisher: int) -> str:
        """Return the name of a publisher of this id; "" if it is not known."""
        known = self.publishers.get(publisher)
        return known.name if known is not None else ""

    def is_authorised(self, publisher: int) -> bool:
        """Whether a publisher, known by its id, may publish now."""
        answer = self._may_publish.get(publisher)
        if answer is not None:
            return answer
        known = self.publishers.get(publisher)
        if known is None:
            return False
        grant = self.granted("publisher", known.name)
        answer = self._may_publish[publisher] = grant is not None and grant.holder in ("", known.principal)
        return answer

    def is_current(self, publisher: int, incarnation: int) -> bool:
        """Whether a publisher may still send something of this life of it."""
        if not self.is_authorised(publisher):
            return False
        return self.publishers[publisher].incarnation <= incarnation or self.is_resumed(publisher, incarnation)

    def is_outlived(self, publisher: int, incarnation: int) -> bool:
        """Whether a newer life of a publisher is known, and this one is not resumed."""
        known = self.publishers.get(publisher)
        return known is not None and incarnation < known.incarnation and incarnation not in known.resumed

    def is_introduced(self, publisher: int, incarnation: int) -> bool:
        """Whether a fact tells of this life of a publisher, and so where earlier ones end."""
        known = self.publishers.get(publisher)
        return known is not None and incarnation <= known.incarnation

    def introduces(self, stream: StreamId) -> bool:
        """Whether a fact tells of a life or a later one; an open topic needs none."""
        return self.terms.open or self.is_introduced(*stream)

    def tells_of(self, stream: StreamId) -> bool:
        """Whether a fact tells of this life, and so where earlier ones end; an open topic needs none."""
        known = self.publishers.get(stream[0])
        return self.terms.open or (known is not None and known.tells_of(stream[1]))

    def is_resumed(self, publisher: int, incarnation: int) -> bool:
        """Whether several lives of a publisher may send the same numbers of this stream."""
        known = self.publishers.get(publisher)
        return known is not None and incarnation in known.resumed

    def record_publisher(
        self,
        name: str,
        end: str,
        principal: str,
        incarnation: int,
        resumes: bool = False,
        ends: PublisherEnds | None = None,
    ) -> list[Fact]:
        """A publisher introduced itself, perhaps with a life that fixes the `ends` of earlier ones; what is new of
        that.
        """
        number = publisher_id(principal, end)
        known = self.publishers.get(number, PublisherRecord(name, principal, 0))
        resumed = known.resumed
        if resumes and incarnation not in resumed:
            resumed = (*resumed, incarnation)[-MOST_RESUMED:]
        if ends is None:
            ends = tuple(each for each in known.ends if each[0] not in resumed)
        newest = max(known.incarnation, incarnation)
        news = msgspec.structs.replace(known, incarnation=newest, resumed=resumed, ends=ends[-MOST_ENDS:])
        return [] if news == known else self.set(f"{_PUBLISHER}{number:016x}", news)

    def fix_ends(self, publisher: int, ends: PublisherEnds) -> list[Fact]:
        """Earlier lives of a publisher end there; what is new of that."""
        known = self.publishers[publisher]
        news = msgspec.structs.replace(known, ends=ends[-MOST_ENDS:])
        return [] if news == known else self.set(f"{_PUBLISHER}{publisher:016x}", news)

    def filter_of(self, event: Recovery) -> str:
        """Return what a subscriber gets: what it says, or what it wanted before if it keeps that; of mail, its own."""
        if event.keeps and not self._is_mail:
            return "" if self.lacks_filter_of(event) else self.subscriptions[event.sender].where
        where = mail_filter(event.sender) if self._is_mail else event.where
        try:
            return str(Filter(where)) if where else ""
        except FilterError as error:
            raise Refused(Refusal.FILTER, str(error)) from None

    def lacks_filter_of(self, event: Recovery) -> bool:
        """Return whether a subscriber keeps what it wanted before, and that is not registered here."""
        return event.keeps and not self._is_mail and event.sender not in self.subscriptions

    def is_closed(self, stream: StreamId) -> bool:
        """Return whether a life is over: all that it sent is forgotten, and nothing more of it is stored."""
        known = self.publishers.get(stream[0])
        return known is not None and stream[1] <= known.closed and stream[1] not in known.resumed

    def close(self, publisher: int, life: int, told: tuple[int, int]) -> list[Fact]:
        """Close the lives of a publisher up to this one; its next life is `told` of the newest that had any events."""
        known = self.publishers[publisher]
        ends = tuple(each for each in known.ends if each[0] > life)
        closed = msgspec.structs.replace(known, ends=ends, closed=life, told=max(told, known.told))
        return self.set(f"{_PUBLISHER}{publisher:016x}", closed)

    def subscribe(self, name: str, subscription: SubscriptionRecord) -> list[Fact]:
        again = name not in self.subscriptions and _SUBSCRIPTION + name in self._facts
        if again:
            subscription = msgspec.structs.replace(subscription, again=True)
        return self.set(_SUBSCRIPTION + name, subscription)

    def unsubscribe(self, name: str) -> list[Fact]:
        """Nothing is kept for a subscriber any more; its grant stays."""
        return self.set(_SUBSCRIPTION + name, None)

    def leave(self, name: str, life: int, *, by_itself: bool) -> list[Fact]:
        """A subscriber has left, and up to this life nobody holds its name: what such a life registers has ended."""
        left = _LEFT + name, life, self._repository, _encode(Holding(has_unsubscribed=by_itself))
        return [*self.merge((left,)), *self.unsubscribe(name)]

    def has_unsubscribed(self, name: str, life: int) -> bool:
        """Return whether this life of a subscriber was the last one that left, and said so itself."""
        has_left = life == self.subscriptions.left.get(name)
        return has_left and holding_values.decode(self._facts[_LEFT + name][2]).has_unsubscribed

    # ---- who holds a name

    def life_of(self, role: Role, name: str) -> int:
        """Return the newest life that holds a name, or could if that one has left; 0 if there was none."""
        next_life = self.subscriptions.left.get(name, -1) + 1 if role == "subscriber" else 0
        return max(self._facts.get(f"{LIFE}{role}/{name}", (0, "", b""))[0], next_life)

    def place_of(self, role: Role, name: str) -> str:
        """Return the broker at which the newest life that held a name began; "" if it is not known."""
        value = self._facts.get(f"{LIFE}{role}/{name}", (0, "", b""))[2]
        return holding_values.decode(value).node if value else ""

    def hold(self, role: Role, name: str, life: int, node: str) -> list[Fact]:
        """A life holds a name from now on, and none before it does."""
        return self.merge(((f"{LIFE}{role}/{name}", life, self._repository, _encode(Holding(node))),))
