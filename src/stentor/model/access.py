"""Access facts: who owns a reliable topic, which repositories manage it, and who may publish and subscribe.

Repositories write them down and tell them to brokers, which enforce them. A fact has a key and a version, and the
newest counts, so whoever heard the same facts in any order knows the same. What is taken back stays as a fact without a
value.
"""

import msgspec

ANONYMOUS = "anonymous"  # the principal of who has no certificate; only loopback lets them in
TOPIC = "topic"
MEMBER = "member/"
GRANT = "grant/"
ACCESS = (TOPIC, MEMBER, GRANT)  # the keys of facts that brokers are told

SharedFact = tuple[str, int, str, bytes]  # key, version, who wrote it, value; b"" is that it is not so any more


class TopicTerms(msgspec.Struct, frozen=True, array_like=True):
    """What the owner wants of a topic."""

    owner: str  # its principal
    copies: int = 2  # repositories that must have an event before it is acknowledged and released
    keep: int = 86_400  # seconds that events are kept after everyone has them
    expire: int = 0  # seconds after which they are dropped even if somebody has not got them; 0 is never
    hold: bool = False  # no event leaves its top-level unit before a repository for this unit has it
    open: bool = False  # anybody may publish, unasked and unanswered, and subscribe; what is lost on the way is lost
    most: int = 0  # events that are kept, whoever has not got them; 0 is any number


class Membership(msgspec.Struct, frozen=True, array_like=True):
    """A repository manages the topic."""

    unit: str = ""  # for the clients in this unit, or for everyone
    principal: str = ""  # under which it is connected: nobody else speaks for it


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """Somebody may publish or subscribe under a name."""

    holder: str = ""  # the principal that may use the name; "" is anyone
