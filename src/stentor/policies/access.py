"""Who may publish, subscribe, send and take a name. Each decision is None, or why not and what would allow it.

Three kinds of topics have three kinds of rules. System topics, which begin with `$`, have fixed ones: see
`system_topics.py`. A reliable topic has a charter, which its owner writes. All others have the `[[access]]` lines of
the configuration; with TLS they are needed, and nodes need none.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, NamedTuple, Protocol

import msgspec
from msgspec import Meta

from stentor.model.errors import Refusal
from stentor.model.filter import Filter
from stentor.model.mail import MAIL, mail_filter
from stentor.model.reports.trace import TRACE
from stentor.model.topic import matches
from stentor.model.trust.place import is_node_name
from stentor.policies import system_topics
from stentor.policies.subject import Subject

_ATTRIBUTE = re.compile(r"[A-Za-z]+=")  # how a pattern for an attribute of a certificate begins
_ROLES = ("publisher", "subscriber")
_MOST_SUBJECTS = 10_000  # whose lines are remembered


class Charter(Protocol):
    """What the owner of a reliable topic has laid down; "" as a holder is anyone."""

    @property
    def owner(self) -> str: ...
    @property
    def open(self) -> bool: ...
    @property
    def members(self) -> Mapping[str, str]: ...
    @property
    def publishers(self) -> Mapping[str, str]: ...
    @property
    def subscribers(self) -> Mapping[str, str]: ...


class Denied(NamedTuple):
    """Why not, and what would allow it."""

    code: Refusal
    reason: str


class AccessRule(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the configuration: it grants something to some principals, and takes nothing from others."""

    principals: Annotated[
        tuple[str, ...],
        Meta(description="names of principals, patterns such as team-*, or attributes of certificates: OU=trading"),
    ]
    topics: Annotated[tuple[str, ...], Meta(description="topics and topic patterns that it is about")] = ()
    publish: Annotated[bool, Meta(description="whether they may publish on these topics")] = False
    subscribe: Annotated[bool, Meta(description="whether they may subscribe to these topics")] = False
    send: Annotated[bool, Meta(description="whether they may send to others by their names")] = False
    names: Annotated[
        tuple[str, ...], Meta(description="names that their clients may take beside their own, or patterns: desk-*")
    ] = ()

    def applies_to(self, subject: Subject) -> bool:
        return any(_is_meant(pattern, subject) for pattern in self.principals)

    def __str__(self) -> str:
        """The line as it is written in a file."""
        written = [f"principals = {_toml(self.principals)}"]
        if self.topics:
            written.append(f"topics = {_toml(self.topics)}")
        written += [f"{right} = true" for right in ("publish", "subscribe", "send") if getattr(self, right)]
        if self.names:
            written.append(f"names = {_toml(self.names)}")
        return f"[[access]] {', '.join(written)}"


class AccessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker is told of access. Without TLS everybody is on this machine and anonymous."""

    rules: tuple[AccessRule, ...] = ()
    is_open: bool = True  # whether what no rule is about is everybody's
    owns_names: bool = False  # whether a name belongs to a principal: certificates prove who that is


def settle_access(rules: tuple[AccessRule, ...], default: str | None, *, secured: bool) -> AccessSettings:
    """Return what holds at a broker: with TLS what is granted, without it everything, unless a default is set."""
    return AccessSettings(
        rules=rules, is_open=not secured if default is None else default == "open", owns_names=secured
    )


class AccessPolicy:
    """Decides by rules, charters and the table of system topics."""

    def __init__(self, settings: AccessSettings, charter_of: Callable[[str], Charter | None], place: str = "") -> None:
        """`place` is the name of the broker that decides."""
        self.settings, self.place = settings, place
        self.charter_of = charter_of
        self._lines: dict[tuple[str, frozenset[str]], tuple[AccessRule, ...]] = {}

    # ---- topics

    def deny_publishing(self, subject: Subject, topic: str) -> Denied | None:
        """Return None if somebody may publish on a topic."""
        if topic.startswith("$"):
            return None if system_topics.may_write(self, subject, topic) else self._deny_writing(subject, topic)
        charter = self.charter_of(topic)
        if charter is not None:
            return self._deny_reliable_publishing(subject, topic, charter)
        if subject.is_node or self.settings.is_open or self.has_line(subject, topic, "publish"):
            return None
        return self.suggest(subject, f"publish on {topic}", topics=(topic,), publish=True)

    def deny_subscribing(self, subject: Subject, topic: str) -> Denied | None:
        """Return None if somebody may subscribe to a topic, which is no pattern."""
        if topic.startswith("$"):
            return None if system_topics.may_read(self, subject, topic) else self._deny_reading(subject, topic)
        charter = self.charter_of(topic)
        if charter is not None:
            if subject.is_node or is_public(charter) or subject.principal in readers_of(charter):
                return None
            way = f"stentor topic grant {topic} --subscriber NAME --principal {subject.principal}"
            reason = f"{subject.principal} may not subscribe to {topic}, a reliable topic of {charter.owner}"
            return Denied(Refusal.NOT_AUTHORISED, f"{reason}: `{way}` would allow it")
        if subject.is_node or self.settings.is_open or self.has_line(subject, topic, "subscribe"):
            return None
        return self.suggest(subject, f"subscribe to {topic}", topics=(topic,), subscribe=True)

    def _deny_reliable_publishing(self, subject: Subject, topic: str, charter: Charter) -> Denied | None:
        if charter.open or subject.repository:
            return None
        name = subject.end_of("publisher", topic)
        if not name:
            return Denied(Refusal.TOPIC, best_effort_refusal(topic))
        if charter.publishers.get(name) in ("", subject.principal):
            return None
        return _ungranted(subject, "publisher", name, topic, charter.publishers.get(name))

    def _deny_writing(self, subject: Subject, topic: str) -> Denied:
        recipient = system_topics.recipient_of(topic)
        if recipient and not recipient.startswith(tuple(f"{role}:" for role in _ROLES)):
            return self.suggest(subject, f"send to {recipient}", send=True)
        if topic.startswith(system_topics.REPORTS) and not f"{topic}/".startswith(f"{TRACE}/"):
            return self.suggest(subject, f"publish on {topic}", topics=(topic,), publish=True)
        reason = f"{subject.principal} may not publish on {topic}: that is for nodes, or for nobody"
        return Denied(Refusal.NOT_AUTHORISED, reason)

    def _deny_reading(self, subject: Subject, topic: str) -> Denied:
        if topic.startswith(system_topics.REPORTS):
            return self.suggest(subject, f"subscribe to {topic}", topics=(topic,), subscribe=True)
        reason = f"{subject.principal} may not subscribe to {topic}: that is for nodes, or for whoever has this name"
        return Denied(Refusal.NOT_AUTHORISED, reason)

    def may_publish(self, subject: Subject, topic: str) -> bool:
        return self.deny_publishing(subject, topic) is None

    def may_subscribe(self, subject: Subject, topic: str) -> bool:
        return self.deny_subscribing(subject, topic) is None

    def may_use_reports(self, subject: Subject, topic: str, right: str) -> bool:
        """Return whether somebody may read or write reports of the system, which are nobody's secret but not public."""
        if subject.is_node or self.settings.is_open or self.has_line(subject, topic, right):
            return True
        charter = self.charter_of(topic)  # of traces that a repository keeps
        return charter is not None and right == "subscribe" and subject.principal in readers_of(charter)

    def has_line(self, subject: Subject, topic: str, right: str) -> bool:
        """Return whether an `[[access]]` line gives somebody this right to a topic."""
        return any(
            getattr(rule, right) and any(matches(pattern, topic) for pattern in rule.topics)
            for rule in self.lines_of(subject)
        )

    def may_send(self, subject: Subject, name: str) -> bool:
        """Return whether somebody may write to whoever is connected under a name."""
        if subject.is_node or self.settings.is_open or name == subject.name:
            return True
        return _is_own(subject.principal, name) or any(rule.send for rule in self.lines_of(subject))

    def lines_of(self, subject: Subject) -> tuple[AccessRule, ...]:
        """Return the lines that are about somebody."""
        key = subject.principal, subject.attributes
        found = self._lines.get(key)
        if found is None:
            if len(self._lines) >= _MOST_SUBJECTS:
                self._lines.clear()
            found = self._lines[key] = tuple(rule for rule in self.settings.rules if rule.applies_to(subject))
        return found

    # ---- names

    def deny_name(self, subject: Subject) -> Denied | None:
        """Return None if somebody may be connected under its name."""
        name = subject.name
        if is_node_name(name):
            reason = f"{name!r} is a name for nodes and operators only"
            return None if subject.is_node else Denied(Refusal.UNAUTHENTICATED, reason)
        if not self.settings.owns_names:
            return None
        role = next((role for role in _ROLES if name.startswith(f"{role}:")), None)
        if role is not None:
            return self._deny_end(subject, role)
        if _is_own(subject.principal, name):
            return None
        if any(fnmatchcase(name, pattern) for rule in self.lines_of(subject) for pattern in rule.names):
            return None
        own = f"{subject.principal!r} and names that begin with {subject.principal + ':'!r}"
        denied = self.suggest(subject, f"take the name {name!r}, only {own}", names=(name,))
        return denied._replace(code=Refusal.NOT_AUTHORISED)

    def _deny_end(self, subject: Subject, role: str) -> Denied | None:
        """A name of an end belongs to the holder of its grant. Where a colon could end the name of the end or be part
        of the topic's, all topics that there are must agree: nobody may be taken for somebody else.
        """
        chartered = [each for each in _ends(subject.name, role) if self.charter_of(each[1]) is not None]
        for name, topic in chartered:
            denied = self._deny_end_of(subject, role, name, topic)
            if denied is not None:
                return denied
        name, _, topic = subject.name.removeprefix(f"{role}:").partition(":")
        if chartered or name == subject.principal:
            return None
        return Denied(Refusal.BUSY, f"nothing is known here of a reliable topic {topic!r}: try again, or create it")

    def holds_end(self, subject: Subject) -> bool:
        """Return whether somebody is connected as an end of a reliable topic that there is, and was given that place.

        Everybody may get mail, so an end of mail counts if it may send. Without certificates names are free.
        """
        role = next((role for role in _ROLES if subject.name.startswith(f"{role}:")), "")
        if not self.settings.owns_names:
            return bool(role)
        chartered = [each for each in _ends(subject.name, role) if role and self.charter_of(each[1]) is not None]
        return bool(chartered) and all(
            self._deny_end_of(subject, role, name, topic) is None and (topic != MAIL or self.may_send(subject, ""))
            for name, topic in chartered
        )

    def _deny_end_of(self, subject: Subject, role: str, name: str, topic: str) -> Denied | None:
        charter = self.charter_of(topic)
        assert charter is not None, "only of reliable topics"
        if topic == MAIL:
            return self._deny_correspondent(subject, role, name)
        if role == "subscriber" and charter.open and name not in charter.subscribers:
            return self.deny_subscribing(subject, topic)
        grants = charter.publishers if role == "publisher" else charter.subscribers
        if grants.get(name) in ("", subject.principal):
            return None
        return _ungranted(subject, role, name, topic, grants.get(name))

    def _deny_correspondent(self, subject: Subject, role: str, name: str) -> Denied | None:
        """Mail is sent and got under the name of a client, by whoever may have that name."""
        denied = self.deny_name(msgspec.structs.replace(subject, name=name))
        if denied is None and role == "publisher" and not self.may_send(subject, ""):
            return self.suggest(subject, "send", send=True)
        return denied

    def deny_filter(self, subject: Subject, pattern: str, where: Filter | None) -> Denied | None:
        """Return None if somebody who may subscribe to a pattern may do so with this filter: mail is for one name."""
        if pattern != MAIL or subject.repository:
            return None
        own = mail_filter(subject.end_of("subscriber", MAIL))
        if where == Filter(own):
            return None
        return Denied(Refusal.NOT_AUTHORISED, f"{subject.principal} may subscribe to {MAIL} where {own} only")

    # ---- what is said

    def suggest(self, subject: Subject, act: str, **rights: bool | tuple[str, ...]) -> Denied:
        """Deny an act, and name the line that would allow it."""
        line = AccessRule(principals=(subject.principal,), **rights)  # type: ignore[arg-type]
        reason = f"{subject.principal} may not {act}: `{line}` in the configuration would allow it"
        return Denied(Refusal.NOT_AUTHORISED, reason)


def deny_creating(rules: Iterable[AccessRule], principal: str, topic: str) -> Denied | None:
    """Return None if somebody may make a topic reliable.

    That takes a topic from those to whom `[[access]]` lines give it, so only somebody whom one of these lines, by its
    name, lets publish may do so. A line about `#` names no topic.
    """
    about = [rule for rule in rules if any(each != "#" and matches(each, topic) for each in rule.topics)]
    if not about or any(rule.publish and rule.applies_to(Subject(principal)) for rule in about):
        return None
    line = AccessRule(principals=(principal,), topics=(topic,), publish=True)
    reason = f"{principal} may not create {topic}, which [[access]] lines give to others"
    return Denied(Refusal.NOT_AUTHORISED, f"{reason}: `{line}` in the configuration would allow it, and operators may")


def readers_of(charter: Charter) -> frozenset[str]:
    """Return the principals that may subscribe to a reliable topic because of who they are."""
    return frozenset(filter(None, (charter.owner, *charter.subscribers.values())))


def is_public(charter: Charter) -> bool:
    """Return whether anyone may subscribe to a reliable topic."""
    return charter.open or "" in charter.subscribers.values()


def best_effort_refusal(topic: str) -> str:
    """Return what whoever publishes on a reliable topic at best effort is told."""
    return (
        f"{topic} is a reliable topic, and what is published on it at best effort is not stored: use "
        f"`fabric.publisher({topic!r}, name=…)`, or `stentor pub {topic} --name NAME`"
    )


def _ungranted(subject: Subject, role: str, name: str, topic: str, holder: str | None) -> Denied:
    way = f"stentor topic grant {topic} --{role} {name} --principal {subject.principal}"
    reason = f"{name} is not registered as a {role} of {topic}"
    if holder is not None:
        reason = f"as a {role} of {topic}, {name} is {holder}, not {subject.principal}"
    return Denied(Refusal.NOT_AUTHORISED, f"{reason}: its owner can change that with `{way}`")


def _ends(name: str, role: str) -> Iterator[tuple[str, str]]:
    """Yield what a connection's name may mean: the name of an end, and its topic."""
    rest = name.removeprefix(f"{role}:")
    for at, character in enumerate(rest):
        if character == ":" and 0 < at < len(rest) - 1:
            yield rest[:at], rest[at + 1 :]


def _is_own(principal: str, name: str) -> bool:
    return name == principal or name.startswith(f"{principal}:")


def _is_meant(pattern: str, subject: Subject) -> bool:
    if _ATTRIBUTE.match(pattern):
        return any(fnmatchcase(attribute, pattern) for attribute in subject.attributes)
    return fnmatchcase(subject.principal, pattern)


def _toml(words: tuple[str, ...]) -> str:
    return json.dumps(words, ensure_ascii=False)
