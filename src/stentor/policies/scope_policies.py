"""Scope policies: which policies hold for a topic in the scopes around a broker. They are resolved here alone.

The nearest scope that says something of a topic decides, the scope itself first. In a scope the most specific pattern
that covers the topic decides, and after all patterns what the scope says of all topics.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from stentor.matching.topic_tree import PatternMap
from stentor.model.errors import InvalidInput
from stentor.policies.channel import Channel, ChannelSettings, channel_between
from stentor.policies.forwarding import DEFAULT, FORWARDING, Forwarding


class TopicPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a scope says of the topics that a pattern covers."""

    scope: str  # "" is the network
    topics: str
    forwarding: str


class ScopePolicies:
    """The policies of the scopes around one broker, the innermost first."""

    def __init__(
        self,
        scopes: Sequence[str],
        forwarding: Mapping[str, str] | None = None,
        topics: Iterable[TopicPolicy] = (),
        channels: Sequence[ChannelSettings] = (),
    ) -> None:
        """`forwarding` is what scopes say of all topics, by their names."""
        self._scopes = tuple(scopes)
        self._of_scope = {scope: _forwarding(name) for scope, name in (forwarding or {}).items()}
        self._of_topics: dict[str, PatternMap[tuple[TopicPolicy, Forwarding]]] = {}
        for number, each in enumerate(topics):
            patterns = self._of_topics.setdefault(each.scope, PatternMap())
            policy = _forwarding(each.forwarding)
            if policy.is_by_tree:  # a relay sees whom a parcel is for, and not what it is about
                raise InvalidInput(f"{each.forwarding!r} holds for a scope, not for {each.topics!r} alone")
            patterns.add(each.topics, number, (each, policy))
        self._channels = tuple(channels)
        self._common = tuple(self._resolve(scope, None) for scope in self._scopes)

    def forwarding_of(self, topic: str) -> tuple[Forwarding, ...]:
        """Return who decides in each scope which members shall have the events of a topic."""
        if not self._of_topics:  # there may be a million topics
            return self._common
        return tuple(self._resolve(scope, topic) for scope in self._scopes)

    def forwarding_in(self, scope: str) -> str:
        """Return the name of the policy of a scope, for topics of which nobody says anything else."""
        policy = self._resolve(scope, None)
        return next(name for name, each in FORWARDING.items() if each is policy)

    def goes_by_tree(self, scope: str) -> bool:
        """Return whether events go between the members of a scope by links of its tree."""
        return self._resolve(scope, None).is_by_tree

    def channel(self, source: str, target: str) -> Channel | None:
        """Return the channel for a link between brokers of these two units; None lets everything pass."""
        return channel_between(source, target, self._channels)

    def _resolve(self, scope: str, topic: str | None) -> Forwarding:
        while True:
            patterns = self._of_topics.get(scope)
            if topic is not None and patterns is not None and (found := patterns.covering(topic)):
                return max(found, key=lambda each: _specificity(each[0].topics))[1]
            if scope in self._of_scope:
                return self._of_scope[scope]
            if not scope:
                return FORWARDING[DEFAULT]
            scope = scope.rpartition("/")[0]


def _specificity(pattern: str) -> tuple[int, int, str]:
    """Return what is greater for the more specific of two patterns that cover the same topic."""
    levels = pattern.split("/")
    return sum(level not in ("+", "#") for level in levels), -levels.count("#"), pattern


def _forwarding(name: str) -> Forwarding:
    if name not in FORWARDING:
        raise InvalidInput(f"there is no forwarding policy {name!r}: use one of {', '.join(FORWARDING)}")
    return FORWARDING[name]
