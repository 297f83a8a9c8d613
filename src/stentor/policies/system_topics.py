"""System topics: who reads and writes them. The rules are fixed, because the protocols need them as they are.

A topic that begins with `$` and is not in the table is nobody's. What is said to repositories is written by everybody:
they look at who wrote it. What is asked of them with somebody's authority is written on a topic that names who asks.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol
from urllib.parse import unquote

from stentor.model.communication import WITHIN, inbox_of
from stentor.model.mail import MAIL
from stentor.model.reports.trace import TRACE
from stentor.model.trust.place import REPOSITORY_NAME
from stentor.model.trust.request_topic import requester_of, requests_pattern
from stentor.policies.subject import Subject

REPORTS = "$stentor/"
_ENDS = ("publisher:", "subscriber:")  # how the names of ends of reliable topics begin


class Decisions(Protocol):
    """What is decided of topics that are not the system's, and where."""

    place: str  # the broker's name

    def may_publish(self, subject: Subject, topic: str) -> bool: ...
    def may_subscribe(self, subject: Subject, topic: str) -> bool: ...
    def may_send(self, subject: Subject, name: str) -> bool: ...
    def may_use_reports(self, subject: Subject, topic: str, right: str) -> bool: ...
    def holds_end(self, subject: Subject) -> bool: ...


Rule = Callable[[Decisions, Subject, str], bool]  # the string is what follows the first level of the topic


class SystemTopic(NamedTuple):
    """Who reads and writes the topics that begin with one level."""

    may_read: Rule
    may_write: Rule


def may_read(decisions: Decisions, subject: Subject, topic: str) -> bool:
    """Return whether somebody may subscribe to a system topic, which is no pattern."""
    first, _, rest = topic.partition("/")
    return first in _TABLE and _TABLE[first].may_read(decisions, subject, rest)


def may_write(decisions: Decisions, subject: Subject, topic: str) -> bool:
    """Return whether somebody may publish on a system topic."""
    first, _, rest = topic.partition("/")
    return first in _TABLE and _TABLE[first].may_write(decisions, subject, rest)


def may_read_all(subject: Subject, pattern: str) -> bool:
    """Return whether somebody may subscribe to a pattern of system topics: a repository, to what it is asked for."""
    return bool(subject.repository) and pattern == requests_pattern(subject.repository)


def recipient_of(topic: str) -> str:
    """Return the name of whoever is spoken to on a topic; "" if it is not written as `inbox_of` writes it."""
    first, _, rest = topic.partition("/")
    name = unquote(rest)
    return name if first == "$to" and inbox_of(name) == topic else ""


def topic_within(topic: str) -> str:
    """Return the topic whose events are published on this one: another one if they must not leave a unit yet."""
    return _after(topic.removeprefix(WITHIN), 1) if topic.startswith(WITHIN) else topic


def _write_to(decisions: Decisions, subject: Subject, rest: str) -> bool:
    name = recipient_of(f"$to/{rest}")
    if name.startswith(REPOSITORY_NAME) or not name:
        return bool(name)
    return subject.is_node if name.startswith(_ENDS) else decisions.may_send(subject, name)


def _read_chorus(_: Decisions, subject: Subject, rest: str) -> bool:
    topic = _after(rest, 2)
    return bool(topic) and (subject.is_node or bool(subject.end_of("subscriber", topic)))


def _write_chorus(_: Decisions, subject: Subject, rest: str) -> bool:
    return bool(_after(rest, 2)) and subject.repository == rest.partition("/")[0] != ""


def _read_within(decisions: Decisions, subject: Subject, rest: str) -> bool:
    """What must not leave a unit yet is read in that unit, by whoever reads the topic."""
    unit, _, topic = rest.partition("/")
    is_inside = decisions.place.startswith(f"{unit}/")
    return is_inside and _is_plain(topic) and (bool(subject.repository) or decisions.may_subscribe(subject, topic))


def _write_within(decisions: Decisions, subject: Subject, rest: str) -> bool:
    topic = _after(rest, 1)
    return _is_plain(topic) and decisions.may_publish(subject, topic)


def _may_post(decisions: Decisions, subject: Subject) -> bool:
    return bool(subject.end_of("publisher", MAIL)) and decisions.may_send(subject, "")


def _read_reports(decisions: Decisions, subject: Subject, rest: str) -> bool:
    return bool(rest) and decisions.may_use_reports(subject, REPORTS + rest, "subscribe")


def _write_reports(decisions: Decisions, subject: Subject, rest: str) -> bool:
    topic = REPORTS + rest
    if topic == TRACE:
        return subject.is_node or decisions.holds_end(subject)
    if topic.startswith(f"{TRACE}/"):  # what repositories keep: they take it from nowhere else
        return subject.is_node
    return bool(rest) and decisions.may_use_reports(subject, topic, "publish")


def _after(rest: str, levels: int) -> str:
    """The topic that follows so many levels."""
    parts = rest.split("/", levels)
    return parts[levels] if len(parts) > levels else ""


def _is_plain(topic: str) -> bool:
    return bool(topic) and not topic.startswith("$")


_TABLE: Mapping[str, SystemTopic] = {
    # $to/NAME: letters to whoever is connected under a name, and reads them
    "$to": SystemTopic(lambda _, subject, rest: inbox_of(subject.name) == f"$to/{rest}", _write_to),
    # $bundle/TOPIC: to all repositories of a topic
    "$bundle": SystemTopic(lambda _, subject, rest: bool(rest and subject.repository), lambda _, __, rest: bool(rest)),
    # $repositories: to all repositories
    "$repositories": SystemTopic(
        lambda _, subject, rest: not rest and bool(subject.repository), lambda _, __, rest: not rest
    ),
    # $by/NAME/REPOSITORY: to a repository, from whoever is connected under a name; read with a pattern only
    "$by": SystemTopic(lambda *_: False, lambda _, subject, rest: requester_of(f"$by/{rest}") == subject.name != ""),
    # $chorus/REPOSITORY/NUMBER/TOPIC: a repository tells subscribers who want the same what is stored
    "$chorus": SystemTopic(_read_chorus, _write_chorus),
    # $within/UNIT/TOPIC: events of a reliable topic that must not leave a unit yet
    "$within": SystemTopic(_read_within, _write_within),
    # $mail: events for clients by their names, which repositories keep until these have them
    MAIL: SystemTopic(
        lambda _, subject, rest: not rest and bool(subject.repository or subject.end_of("subscriber", MAIL)),
        lambda decisions, subject, rest: not rest and _may_post(decisions, subject),
    ),
    # $stentor/…: traces, and reports about them
    "$stentor": SystemTopic(_read_reports, _write_reports),
}
