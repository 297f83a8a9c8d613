"""The charter of a reliable topic: what a broker knows of it from access facts, decoded.

A topic may be deleted and made again under the same name. A `topic` fact without a value is a tombstone: it ends all
facts up to its own version, whatever their keys, and stays when the topic is made again, since somebody may still tell
facts of the earlier one. So two charters that heard the same facts in any order are equal. Facts that are newer than
the tombstone say which repositories of the topic that it ended have not heard of it yet.
"""

from collections.abc import Callable, Iterable

import msgspec

from stentor.model.errors import FrameError, InvalidInput, Refusal
from stentor.model.ranges import check_client_name
from stentor.model.topic import check_topic
from stentor.model.trust.access import AWAITED, GRANT, MEMBER, TOPIC, Grant, Membership, SharedFact, TopicTerms
from stentor.model.trust.facts import Facts, Stamped, rank_of

_LONGEST_VALUE = 4096  # bytes; terms, a membership and a grant have a principal and some numbers
_LONGEST_WRITER = 1024  # characters: a principal, or the name of a repository
_LAST_VERSION = (1 << 63) - 1
_NOBODY: Stamped = (0, "", b"")

_terms = msgspec.msgpack.Decoder(TopicTerms)
_membership = msgspec.msgpack.Decoder(Membership)
_grant = msgspec.msgpack.Decoder(Grant)


def check_facts(topic: str, facts: Iterable[SharedFact]) -> None:
    """Raise FrameError if there is no such topic, or one of the facts cannot be."""
    try:
        check_topic(topic)
        for fact in facts:
            _check_fact(fact)
    except (InvalidInput, msgspec.MsgspecError, UnicodeError) as error:
        raise FrameError(Refusal.PROTOCOL, f"access facts of {topic[:80]!r} that cannot be: {error}") from None


def _check_fact(fact: SharedFact) -> None:
    key, version, writer, value = fact
    if not 0 < version <= _LAST_VERSION or len(writer) > _LONGEST_WRITER or len(value) > _LONGEST_VALUE:
        raise InvalidInput(f"{key[:80]!r} has no version, or a writer or a value that is too long")
    writer.encode()
    if key.startswith((MEMBER, AWAITED)):
        check_client_name(key.partition("/")[2])
        decode: Callable[[bytes], object] = _membership.decode
    elif key.startswith(GRANT):
        role, _, name = key.removeprefix(GRANT).partition("/")
        if role not in ("publisher", "subscriber"):
            raise InvalidInput(f"{role[:40]!r} is no role")
        check_client_name(name)
        decode = _grant.decode
    elif key == TOPIC:
        decode = _terms.decode
    else:
        raise InvalidInput(f"{key[:80]!r} is nothing that brokers are told")
    if value:
        decode(value)


def named_member(facts: Iterable[SharedFact], name: str) -> str | None:
    """Return the principal under which facts name a member; None if they do not."""
    for key, _, _, value in facts:
        if key == MEMBER + name and value:
            return _membership.decode(value).principal
    return None


class Charter:
    """What is known of one topic. Whoever asks must not change it."""

    __slots__ = ("_facts", "_tombstone", "awaited", "former", "members", "open", "owner", "publishers", "subscribers")

    def __init__(self) -> None:
        self._facts = Facts()
        # The version of the newest tombstone, 0 without one. Invariant: all of `_facts` are newer.
        self._tombstone = 0
        self.owner = ""  # the principal that owns the topic; "" if there is no such topic, or only some facts came yet
        self.open = False  # whether anybody may publish and subscribe
        self.members: dict[str, str] = {}  # repositories, and the principal of each
        self.awaited: dict[str, str] = {}  # those of a topic that was deleted which have not heard of that yet
        self.former: dict[str, str] = {}  # those of the topic that the tombstone ended, as long as this node runs
        self.publishers: dict[str, str] = {}  # names, and the principal that may use each; "" is anyone
        self.subscribers: dict[str, str] = {}

    @property
    def is_live(self) -> bool:
        """Whether there is such a topic."""
        return bool(self._facts.get(TOPIC, _NOBODY)[2])

    @property
    def is_over(self) -> bool:
        """Whether nothing is left but a tombstone, and who is to hear of it."""
        return not (self.is_live or self.members or self.publishers or self.subscribers)

    @property
    def tombstone(self) -> int:
        return self._tombstone

    @property
    def digest(self) -> int:
        return self._facts.digest ^ self._tombstone

    def __len__(self) -> int:
        """How many facts whoever knows nothing must be told."""
        return len(self._facts) + bool(self._tombstone)

    def learn(self, facts: Iterable[SharedFact]) -> list[str]:
        """Take what is new among facts that were checked; returns the keys of that."""
        news: dict[str, None] = {}
        for key, version, writer, value in facts:
            if version <= self._tombstone:
                continue
            if key == TOPIC and not value:
                self._end(version)
                news = {each: None for each in news if each in self._facts}
            elif self._facts.is_news(key, (version, writer, value)):
                self._put(key, (version, writer, value))
            else:
                continue
            news[key] = None
        return list(news)

    def knows(self, facts: Iterable[SharedFact]) -> bool:
        """Whether there is nothing new among facts."""
        return not any(
            version > self._tombstone
            and ((key == TOPIC and not value) or self._facts.is_news(key, (version, writer, value)))
            for key, version, writer, value in facts
        )

    def keys(self) -> list[str]:
        """Return the keys of all facts, in the order in which these are told."""
        return sorted({TOPIC: None, **self._facts}, key=rank_of)

    def facts(self, keys: Iterable[str] | None = None) -> list[SharedFact]:
        """Return all facts, or those with these keys; the topic's is preceded by the tombstone of an earlier one."""
        found = [self._facts.shared(key) for key in (self._facts if keys is None else keys) if key in self._facts]
        if self._tombstone and (keys is None or TOPIC in keys):
            found.insert(0, (TOPIC, self._tombstone, "", b""))
        return found

    def _end(self, version: int) -> None:
        """Facts up to this version are of an earlier topic of this name."""
        self._tombstone = version
        self.former = self.members.copy() or self.former
        for key in [key for key, fact in self._facts.items() if fact[0] <= version]:
            self._facts.drop(key)
            self._decode(key, b"")

    def _put(self, key: str, fact: Stamped) -> None:
        self._facts.put(key, fact)
        self._decode(key, fact[2])

    def _decode(self, key: str, value: bytes) -> None:
        if key == TOPIC:
            terms = _terms.decode(value) if value else TopicTerms("")
            self.owner, self.open = terms.owner, terms.open
            return
        kind, _, name = key.partition("/")
        holders = self.awaited if key.startswith(AWAITED) else self.members
        if kind == "grant":
            role, _, name = name.partition("/")
            holders = self.publishers if role == "publisher" else self.subscribers
        if not value:
            holders.pop(name, None)
        else:
            holders[name] = _grant.decode(value).holder if kind == "grant" else _membership.decode(value).principal
