"""Which topics a client may publish on at best effort: all but reliable ones, where such an event would not be stored.

A client asks its broker once for each topic, before the first event, whether anybody hears the topic on which its
repositories are spoken to. It asks again now and then, beside the events, because a topic may become reliable later. A
broker that does not answer holds the first event up for a moment, and no other one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from stentor.model.control import bundle_of
from stentor.model.errors import Refusal, Refused, StentorError
from stentor.model.topic import check_topic

_FRESH_NS = 10 * 10**9  # that an answer is believed: a topic becomes reliable by an act of its owner, not often
_MOST_TOPICS = 10_000  # that are remembered: a client that publishes on more of them asks again


def refusal(topic: str) -> Refused:
    """Return the error for whoever publishes on a reliable topic at best effort."""
    return Refused(
        Refusal.TOPIC,
        f"{topic} is a reliable topic, and what is published on it at best effort is not stored: use "
        f"`fabric.publisher({topic!r}, name=…)`, or `stentor pub {topic} --name NAME`",
    )


class BestEffort:
    """What a client knows of the topics that it publishes on."""

    def __init__(self, is_heard: Callable[[str], Awaitable[bool]]) -> None:
        self._is_heard = is_heard
        self._fresh_until: dict[str, int] = {}  # of topics that are not reliable
        self._reliable: dict[str, None] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def is_known(self, topic: str, now: int) -> bool:
        """Return whether events on this topic may leave at once."""
        return self._fresh_until.get(topic, 0) > now

    async def check(self, topic: str, now: int) -> None:
        """Raise Refused if this topic is reliable; wait for the broker's answer if it is met for the first time."""
        if check_topic(topic).startswith("$"):
            return
        if topic in self._fresh_until and topic not in self._reliable:
            self._fresh_until[topic] = now + _FRESH_NS
            task = asyncio.get_running_loop().create_task(self._ask(topic, now))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
            return
        await self._ask(topic, now)
        if topic in self._reliable:
            raise refusal(topic)

    async def _ask(self, topic: str, now: int) -> None:
        heard = False
        with suppress(StentorError):  # the link broke, or the broker is busy: it is asked again after a while
            heard = await self._is_heard(bundle_of(topic))
        if len(self._fresh_until) >= _MOST_TOPICS:
            self._fresh_until.clear()
            self._reliable.clear()
        if heard:
            self._reliable[topic] = None
            self._fresh_until.pop(topic, None)
        else:
            self._reliable.pop(topic, None)
            self._fresh_until[topic] = now + _FRESH_NS

    def close(self) -> None:
        for task in list(self._asking):
            task.cancel()
