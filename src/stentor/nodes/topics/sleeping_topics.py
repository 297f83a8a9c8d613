"""Topics that sleep: of these, a repository has nothing in memory but what it must know without their ledgers.

A topic that rests still takes a quarter of a MiB, most of it its open ledger, three files, and a look every 5 seconds.
So one that nobody reads, and that this repository manages alone, is closed to its ledger (decision 71). The next letter
or event opens it again, as after a restart; a timer does, when what it stores may have become too old to be kept.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from stentor.machine import SECOND, Effect, StartTimer, StopTimer
from stentor.model.reports.status import TopicHealth
from stentor.model.trust.access import SharedFact
from stentor.model.trust.facts import portions
from stentor.protocols.delivery.repository.repository import TopicRepository, TopicTick
from stentor.protocols.delivery.repository.serving.steered_publisher import SteeredPublisher
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.transport import Vouched

_SHORTEST_SLEEP = 3600 * SECOND  # of a topic with events: looking after 100,000 of them must cost next to nothing
_WAKE_AGAIN = 5 * SECOND  # while there is no file for one more ledger; whoever wrote a letter repeats it meanwhile
_facts = msgspec.msgpack.Decoder(tuple[SharedFact, ...])


class SleepingTopic(msgspec.Struct, frozen=True):
    """What is known of one. Texts that are seldom looked at are kept as bytes: there may be 100,000 of them."""

    owner: str
    version: int  # of the topic: another one of its name has another version
    size: int  # bytes on the disk
    access: bytes  # the facts that brokers are told on every link
    report: bytes  # what operators are told
    publishers: tuple[SteeredPublisher, ...]  # that we steer: they need not notice that it slept


class SleepingTopics(dict[str, SleepingTopic]):
    """All of one repository, by name."""

    def __init__(self, settings: RepositorySettings) -> None:
        super().__init__()
        self._after, self._age_unit = settings.sleep_after, settings.age_unit

    def can_take(self, now: int, machine: TopicRepository) -> bool:
        """Return whether another machine may go on from the ledger whenever something happens, and nobody notices. It
        has rested, so it manages its topic alone and waits for nothing. Topics of our own, and those that are held at
        borders, are few, and listen to more than their name.
        """
        is_special = machine.state.mailboxes.is_mail or machine.feeds.are_events_sent_along
        rests = machine.is_open and not machine.is_gone and machine.interval.has_lasted(now, self._after)
        if not rests or self._after == 0 or is_special or not machine.registry.created:
            return False
        if not machine.tracer.is_kept or machine.closing.is_due or machine.health.trouble:
            return False
        return not (machine.feeds.cursors or machine.state.reads.recalls or machine.gossip.sharing.is_awaited)

    def _until(self, now: int, machine: TopicRepository) -> int | None:
        """Return when something that is stored may be too old to be kept; None if nothing is stored."""
        terms = machine.registry.terms
        age = min(terms.keep, terms.expire or terms.keep) * self._age_unit
        return now + max(age, _SHORTEST_SLEEP) if machine.log.streams.event_count else None

    def put(self, now: int, machine: TopicRepository) -> Effect:
        """Note what must be known of a topic that falls asleep; return what becomes of its timer."""
        self[machine.topic] = SleepingTopic(
            machine.registry.terms.owner,
            machine.registry.version,
            machine.state.size,
            msgspec.msgpack.encode(machine.registry.access()),
            msgspec.json.encode(machine.status(now)),
            tuple(machine.holders.publishers.values()),
        )
        until = self._until(now, machine)
        return StopTimer(machine.timer) if until is None else StartTimer(machine.timer, until)

    def hand_over(self, topic: str, machine: TopicRepository) -> SleepingTopic:
        """Take a topic out, and tell the machine that goes on with it what it knew before."""
        sleeping = self.pop(topic)
        machine.wake(sleeping.size, sleeping.publishers)
        return sleeping

    def notices(self) -> Iterator[tuple[str, tuple[SharedFact, ...]]]:
        """Return what brokers are told of all of them on a new link."""
        for topic, sleeping in self.items():
            for portion in portions(_facts.decode(sleeping.access)):
                yield topic, portion

    def ignores(self, vouched: Vouched) -> bool:
        """Return whether what a broker says of a topic is nothing for which it must wake."""
        sleeping = self.get(vouched.topic)
        return sleeping is not None and vouched.ended < sleeping.version

    def health(self) -> dict[str, TopicHealth]:
        """Return how they are: one that is in trouble, or not ready, does not sleep."""
        return dict.fromkeys(self, TopicHealth(ready=True, leaving=False, trouble=""))

    def report(self, topic: str) -> dict[str, Any]:
        """Return what operators are told of one of them."""
        found: dict[str, Any] = msgspec.json.decode(self[topic].report)
        return found


def wake_later(now: int, topic: str) -> Effect:
    """Return what makes somebody try again to wake a topic for which there is no room now."""
    return StartTimer(TopicTick(topic), now + _WAKE_AGAIN)
