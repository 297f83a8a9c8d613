"""Everything Stentor raises at a user, as one tree; and why a peer is refused.

StentorError
├── InvalidInput          what you gave us is wrong: topic, attribute, body, filter, configuration
│   ├── TopicError
│   ├── AttributeValueError
│   ├── BodyTooLarge
│   ├── FilterError
│   └── ConfigError
├── Refused               the other side said no, and why
│   └── Fenced            … because a newer holder of this name came
├── Unreachable           nobody there, or not one of us
│   └── Unresponsive      … or too slow to answer
├── BufferFull            too much waits to be sent or stored
├── LinkBroken            the link broke before the broker confirmed: events may be lost
├── Closed                this client was closed
└── FrameError            bytes that are not Stentor's
"""

import enum


class StentorError(Exception):
    """The root of everything Stentor raises."""


class InvalidInput(StentorError, ValueError):
    """What the caller gave is wrong; nothing was done with it."""


class TopicError(InvalidInput):
    """A topic or a topic pattern that cannot be."""


class AttributeValueError(InvalidInput):
    """An attribute's name or value that cannot be carried."""


class BodyTooLarge(InvalidInput):
    """A body over the limit of the broker."""


class FilterError(InvalidInput):
    """A filter that does not parse; `position` is the offending character, counted from 0."""

    def __init__(self, reason: str, text: str = "", position: int = 0) -> None:
        self.reason = reason
        self.text = text
        self.position = position
        super().__init__(reason, text, position)

    def __str__(self) -> str:
        pointer = f"\n  {self.text}\n  {' ' * self.position}^" if self.text and "\n" not in self.text else ""
        return f"{self.reason}{pointer}"


class ConfigError(InvalidInput):
    """A configuration file that cannot be used."""


class Refused(StentorError):
    """The other side refused, with its reason."""

    def __init__(self, code: "Refusal", reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(code, reason)

    def __str__(self) -> str:
        return self.reason


class Fenced(Refused):
    """A newer holder of this client's name has connected; this one must not go on."""


class Unreachable(StentorError):
    """No broker answers there, or what answers is not a broker."""


class Unresponsive(Unreachable, TimeoutError):
    """The broker is there but did not answer in time."""


class BufferFull(StentorError):
    """Too much waits to be sent or stored: nothing was taken."""


class LinkBroken(StentorError):
    """The link broke before the broker confirmed what was sent on it."""


class Closed(StentorError):
    """The client or subscription was closed."""


class FrameError(StentorError):
    """Bytes that break the wire protocol; `code` is what the peer is told."""

    def __init__(self, code: "Refusal", reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(code, reason)

    def __str__(self) -> str:
        return self.reason


class Refusal(enum.StrEnum):
    """Why a peer is refused; the text beside it says what to do."""

    PROTOCOL = "protocol"  # not our bytes, or out of order
    VERSION = "version"  # our bytes, another version
    UNAUTHENTICATED = "unauthenticated"
    FENCED = "fenced"
    TOO_LARGE = "too-large"
    TOO_MANY = "too-many"
    FORGED = "forged"  # another publisher's id
    TOPIC = "topic"
    FILTER = "filter"
    SCHEMA = "schema"
    SILENT = "silent"  # said nothing for too long
    BUSY = "busy"
    CLOSING = "closing"
    CORRUPT = "corrupt"
    NOT_AUTHORISED = "not-authorised"  # by the owner of a reliable topic
    UNKNOWN = "unknown"  # no such topic, repository or name here
