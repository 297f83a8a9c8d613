"""Access classes: subscribers whose wildcards mean the same topics, so that their filters are matched together.

A subscription with wildcards is taken, and means those of its topics that its subscriber may read. What that is depends
on the lines of the configuration that are about the subscriber, and on the reliable topics whose readers it is among.
Subscribers for whom both are the same as far as the pattern goes are one class: a route asks a class once, and an event
asks nobody.
"""

from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakValueDictionary

from stentor.matching.topic_tree import TopicTree
from stentor.model.errors import Refusal
from stentor.model.topic import covers, matches
from stentor.policies.access import AccessPolicy, Denied, is_public, readers_of
from stentor.policies.subject import Subject
from stentor.policies.system_topics import REPORTS, may_read_all

_NOBODY: frozenset[str] = frozenset()


class TopicSet:
    """Reliable topics, and the principals that may read just these."""

    __slots__ = ("_last", "_numbers", "_tree", "principals")

    def __init__(self, topics: Iterable[str] = (), principals: Iterable[str] = ()) -> None:
        self.principals = set(principals)
        self._tree: TopicTree[str] = TopicTree()
        self._numbers: dict[str, int] = {}
        self._last = 0
        for topic in topics:
            self.add(topic)

    def __contains__(self, topic: str) -> bool:
        return topic in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(self._numbers)

    def add(self, topic: str) -> None:
        self._last += 1
        self._numbers[topic] = self._last
        self._tree.add(topic, self._last, topic)

    def remove(self, topic: str) -> None:
        self._tree.remove(topic, self._numbers.pop(topic))

    def has_any_of(self, pattern: str) -> bool:
        return next(iter(self._tree.covered(pattern)), None) is not None


class Extent(NamedTuple):
    """What of a pattern's topics somebody may read."""

    is_node: bool
    everything: bool  # all topics that are not reliable
    patterns: tuple[str, ...]  # else those of them that these patterns cover
    reliable: TopicSet | None  # None is that none of them is a topic of the pattern


class AccessClass:
    """Subscribers whose patterns have one extent."""

    __slots__ = ("__weakref__", "_policy", "extent")

    def __init__(self, policy: AccessPolicy, extent: Extent) -> None:
        self._policy, self.extent = policy, extent

    def may_read(self, topic: str) -> bool:
        """Return whether a topic of the pattern is among those that its subscribers may read."""
        extent, is_report = self.extent, topic.startswith(REPORTS)
        if topic.startswith("$") and not is_report:
            return False
        if extent.is_node or (extent.reliable is not None and topic in extent.reliable):
            return True
        charter = None if is_report else self._policy.charter_of(topic)
        if charter is not None:
            return is_public(charter)
        return extent.everything or any(matches(pattern, topic) for pattern in extent.patterns)


class AccessClasses:
    """All classes of a broker. It is told of each charter that changes, and then knows whose classes do.

    Where names are nobody's, all clients are one principal: its set of topics is changed in place, and nobody's class
    becomes another.
    """

    def __init__(self, policy: AccessPolicy) -> None:
        self._policy = policy
        self._classes: WeakValueDictionary[Extent, AccessClass] = WeakValueDictionary()
        self._readers: dict[str, frozenset[str]] = {}  # of each reliable topic, by its name
        self._public = TopicSet()  # those that anyone may read
        # Invariants, where names have owners: _set_of[p] is s if and only if p is in s.principals; _sets[s.topics] is
        # s, so that no two sets have the same topics; no set is empty.
        self._set_of: dict[str, TopicSet] = {}  # by principal
        self._sets: dict[frozenset[str], TopicSet] = {}

    def __len__(self) -> int:
        return len(self._classes)

    def class_of(self, subject: Subject, pattern: str) -> AccessClass:
        """Return the class of a subscriber with a pattern that has wildcards."""
        extent = self._extent(subject, pattern)
        found = self._classes.get(extent)
        if found is None:
            found = self._classes[extent] = AccessClass(self._policy, extent)
        return found

    def deny_pattern(self, subject: Subject, pattern: str) -> Denied | None:
        """Return None if a pattern with wildcards may mean something to a subscriber."""
        if may_read_all(subject, pattern):
            return None
        if pattern.startswith("$") and not pattern.startswith(REPORTS):
            reason = f"{pattern} is about topics of the system, which are subscribed to one by one, without wildcards"
            return Denied(Refusal.NOT_AUTHORISED, reason)
        if any(self._extent(subject, pattern)) or self._public.has_any_of(pattern):
            return None
        return self._policy.suggest(subject, f"subscribe to {pattern}", topics=(pattern,), subscribe=True)

    def update(self, topic: str) -> frozenset[str]:
        """A charter has changed: return the principals whose classes may be others now."""
        charter = self._policy.charter_of(topic)
        before, after = self._readers.pop(topic, _NOBODY), _NOBODY
        if topic in self._public:
            self._public.remove(topic)
        if charter is not None:
            after = self._readers[topic] = readers_of(charter)
            if is_public(charter) and not topic.startswith(REPORTS):
                self._public.add(topic)
        if self._policy.settings.owns_names:
            self._regroup(before - after, topic, is_reader=False)
            self._regroup(after - before, topic, is_reader=True)
            return before ^ after
        for principal in before - after:
            self._set_of[principal].remove(topic)
        for principal in after - before:
            self._set_of.setdefault(principal, TopicSet()).add(topic)
        return _NOBODY

    def _regroup(self, principals: frozenset[str], topic: str, *, is_reader: bool) -> None:
        """Let these principals have other sets: with a topic if they are its readers now, else without it."""
        left = set(principals)
        while left:
            principal = min(left)  # in an order that is the same everywhere
            former = self._set_of.get(principal)
            together = {principal} if former is None else former.principals & left
            left -= together
            topics = (former.topics if former is not None else _NOBODY) ^ {topic}
            shared = self._sets.get(topics)
            if former is not None:
                former.principals -= together
                if not former.principals:
                    del self._sets[former.topics]
            if not topics:
                for each in together:
                    del self._set_of[each]
                continue
            if shared is None and former is not None and not former.principals:
                shared = former  # it has no other readers: change it in place
                (former.add if is_reader else former.remove)(topic)
            elif shared is None:
                shared = TopicSet(sorted(topics))
            shared.principals |= together
            self._sets[topics] = shared
            self._set_of.update(dict.fromkeys(together, shared))

    def _extent(self, subject: Subject, pattern: str) -> Extent:
        if subject.is_node:
            return Extent(True, True, (), None)
        settings = self._policy.settings
        if settings.owns_names:
            reliable = self._set_of.get(subject.principal)
            reliable = reliable if reliable is not None and reliable.has_any_of(pattern) else None
        else:
            reliable = self._set_of.setdefault(subject.principal, TopicSet())
        if settings.is_open:
            return Extent(False, True, (), reliable)
        lines = [rule for rule in self._policy.lines_of(subject) if rule.subscribe]
        granted = {each for rule in lines for each in rule.topics if overlap(each, pattern)}
        if any(covers(each, pattern) for each in granted):
            return Extent(False, True, (), reliable)
        return Extent(False, False, tuple(sorted(granted)), reliable)


def overlap(one: str, other: str) -> bool:
    """Return whether there are topics that both patterns cover."""
    left, right = one.split("/"), other.split("/")
    if one.startswith("$") != other.startswith("$"):
        return False
    for mine, theirs in zip(left, right, strict=False):
        if "#" in (mine, theirs):
            return True
        if mine != theirs and "+" not in (mine, theirs):
            return False
    longer = max(left, right, key=len)
    return len(left) == len(right) or longer[min(len(left), len(right)) :] == ["#"]
