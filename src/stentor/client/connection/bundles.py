"""Which repositories manage reliable topics, as the broker tells a client: nobody else is believed about them."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from stentor.machine import Input
from stentor.nodes.client_api import BundleWatched, TellBundle

Members = Mapping[str, str]  # repositories, and the principal of each


class Bundles:
    """What one client was told."""

    def __init__(self, tell: Callable[[Input], None]) -> None:
        """`tell` tells the client's machine something."""
        self._tell = tell
        self._known: dict[str, Members] = {}
        self.ended: dict[str, int] = {}  # the version at which a topic of this name was deleted; 0 is that none was
        self._listeners: dict[str, list[Callable[[Members], None]]] = {}

    def watch(self, topic: str, listener: Callable[[Members], None]) -> Callable[[], None]:
        """Call the listener with what is known of a topic, and on every change; what is returned ends that."""
        listeners = self._listeners.get(topic)
        if listeners is None:
            listeners = self._listeners[topic] = []
            self._tell(BundleWatched(topic))
        listeners.append(listener)
        if topic in self._known:
            listener(self._known[topic])
        return lambda: listeners.remove(listener)

    def told(self, told: TellBundle) -> None:
        self._known[told.topic], self.ended[told.topic] = told.members, told.ended
        for listener in list(self._listeners.get(told.topic, ())):
            listener(told.members)

    async def find(self, topic: str, within: float) -> Members:
        """Return who manages a topic as soon as somebody does; nobody if nobody is known to within these seconds."""
        await self._wait(topic, bool, within)
        return self._known.get(topic, {})

    async def find_end(self, topic: str, within: float) -> int:
        """Return the version at which such a topic was deleted; 0 if the broker tells of none within these seconds."""
        await self._wait(topic, lambda _: True, within)
        return self.ended.get(topic, 0)

    async def _wait(self, topic: str, is_enough: Callable[[Members], bool], within: float) -> None:
        there = asyncio.Event()
        stop = self.watch(topic, lambda members: there.set() if is_enough(members) else None)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(there.wait(), within)
        finally:
            stop()
