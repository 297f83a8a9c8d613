"""What a broker tells of access when it is asked: the rules in force, and what somebody may do on a topic."""

import msgspec


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether somebody may do something; if not, why, and what would allow it."""

    act: str
    allowed: bool
    reason: str = ""


class AccessView(msgspec.Struct, frozen=True, kw_only=True):
    """What is in force at a broker, as far as it is told to whoever asked."""

    node: str
    default: str  # "granted" or "open": what holds for topics that no rule is about
    rules: tuple[str, ...] = ()  # as they are written in a file
    principal: str = ""  # whom it is about
    topic: str = ""
    reliable: str = ""  # the owner, if the topic is a reliable one
    verdicts: tuple[Verdict, ...] = ()
