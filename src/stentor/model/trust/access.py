"""Access facts: who owns a reliable topic, which repositories manage it, and who may publish and subscribe.

Repositories write them down and tell them to brokers, which enforce them. A fact has a key and a version, and the
newest counts, so whoever heard the same facts in any order knows the same. What is taken back stays as a fact without a
value.
"""

import re
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from stentor.model.errors import InvalidInput
from stentor.model.ranges import (
    CHECK,
    Copies,
    Count,
    Path,
    Principal,
    RangedDecoder,
    Version,
    WholeSeconds,
    check_client_name,
)
from stentor.model.scope import LONGEST_NODE_NAME

ANONYMOUS = "anonymous"  # the principal of who has no certificate; only loopback lets them in
TOPIC = "topic"
MEMBER = "member/"
GRANT = "grant/"
AWAITED = "awaited/"  # a member of a topic that was deleted; it loses its value when that member has heard of it
ACCESS = (TOPIC, MEMBER, GRANT)  # the keys of facts that brokers are told of a topic that exists
_NAME: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{LONGEST_NODE_NAME}}}")  # of a repository


class TopicTerms(msgspec.Struct, frozen=True, array_like=True):
    """What the owner wants of a topic."""

    owner: Principal
    copies: Copies = 2  # repositories that must have an event before it is acknowledged and released
    keep: WholeSeconds = 86_400  # seconds that events are kept after everyone has them
    expire: WholeSeconds = 0  # seconds after which they are dropped even if somebody has not got them; 0 is never
    hold: bool = False  # no event leaves its top-level unit before a repository for this unit has it
    open: bool = False  # anybody may publish, unasked and unanswered, and subscribe; what is lost on the way is lost
    most: Count = 0  # events that are kept, whoever has not got them; 0 is any number
    after: Version = 0  # at which a topic of this name was deleted before: what is not newer is about that one


class Membership(msgspec.Struct, frozen=True, array_like=True):
    """A repository manages the topic."""

    unit: Path = ""  # for the clients in this unit, or for everyone
    principal: Principal = ""  # under which it is connected: nobody else speaks for it


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """Somebody may publish or subscribe under a name."""

    holder: Principal = ""  # the principal that may use the name; "" is anyone


_VALUES: dict[str, RangedDecoder[Any]] = {
    TOPIC: RangedDecoder(TopicTerms),
    MEMBER: RangedDecoder(Membership),
    AWAITED: RangedDecoder(Membership),
    GRANT: RangedDecoder(Grant),
}


def _check_fact(fact: tuple[str, int, str, bytes]) -> None:
    """Refuse an access fact that nobody could read; what other facts hold is known to whoever reads them."""
    key, _, _, value = fact
    kind, slash, name = key.partition("/")
    decoder = _VALUES.get(kind + slash)
    if decoder is None:
        return
    if kind + slash in (MEMBER, AWAITED) and not _NAME.fullmatch(name):
        raise InvalidInput(f"a fact about {name[:40]!r}, which is no repository's name")
    if kind + slash == GRANT:
        role, _, holder = name.partition("/")
        if role not in ("publisher", "subscriber"):
            raise InvalidInput(f"a grant to a {role[:40]!r}")
        check_client_name(holder)
    if value:
        decoder.decode(value)


FactKey = Annotated[str, Meta(max_length=512)]
FactValue = Annotated[bytes, Meta(max_length=1 << 20)]
# key, version, who wrote it, value; b"" is that it is not so any more
SharedFact = Annotated[tuple[FactKey, Version, Principal, FactValue], Meta(extra={CHECK: _check_fact})]
