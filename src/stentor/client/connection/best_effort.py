"""Which topics a client may publish on at best effort, as its broker says.

The first event on a topic leaves at once, as all others do, and whoever published it waits until the broker has taken
it in or refused it. A refusal may also come later, when an owner makes the topic reliable or takes a right back. After
that publishing there is refused until there is another link: that broker may know better.
"""

from collections.abc import Awaitable, Callable

from stentor.model.errors import Refused
from stentor.model.ids import topic_id
from stentor.model.topic import check_topic
from stentor.nodes.client_api import RefuseFlow

_MOST_TOPICS = 10_000  # that are remembered: a client that publishes on more of them waits again


class BestEffort:
    """What a client knows of the topics that it publishes on, on this link."""

    def __init__(self, confirm: Callable[[], Awaitable[None]]) -> None:
        """`confirm` returns when the broker has taken in what was published before, or the link is gone."""
        self._confirm = confirm
        self._taken: dict[str, None] = {}  # topics on which the broker has taken events in …
        self._by_number: dict[int, str] = {}  # … by their numbers. Invariant: the same topics.
        self._refused: dict[int, Refused] = {}  # by the number of the topic

    def is_taken(self, topic: str) -> bool:
        """Return whether the broker takes events on this topic, as far as is known; raise Refused if it does not."""
        if topic in self._taken:
            return True
        self._check(check_topic(topic))
        return False

    async def confirm(self, topic: str) -> None:
        """Wait for what the broker says to the first event on a topic; raise Refused if it refuses."""
        await self._confirm()
        self._check(topic)
        if len(self._taken) >= _MOST_TOPICS:
            self._taken.clear()
            self._by_number.clear()
        self._taken[topic] = None
        self._by_number[topic_id(topic)] = topic

    def _check(self, topic: str) -> None:
        refused = self._refused.get(topic_id(topic))
        if refused is not None:
            raise Refused(refused.code, refused.reason)

    def refuse(self, effect: RefuseFlow) -> None:
        if len(self._refused) >= _MOST_TOPICS:
            self._refused.clear()
        self._refused[effect.topic] = Refused(effect.code, effect.reason)
        topic = self._by_number.pop(effect.topic, None)
        if topic is not None:
            del self._taken[topic]

    def forget(self) -> None:
        """The link is gone, and with it what this broker said."""
        self._taken.clear()
        self._by_number.clear()
        self._refused.clear()
