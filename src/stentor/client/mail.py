"""Events with explicit destinations that are stored until each of these has them; used by `Fabric`.

A client sends all its mail under its own name, as one publisher, which is opened when it is first needed: so what it
sends to somebody comes in order, and once.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Literal

from stentor.client.reliable_endpoints import ReliableEndpoints
from stentor.client.reliable_publisher import Publisher, Stored
from stentor.client.reliable_subscription import Subscription
from stentor.model.attribute import Value
from stentor.model.mail import MAIL, RECIPIENT, address_of
from stentor.model.ranges import check_client_name


class Mail:
    """What one client sends and gets."""

    def __init__(self, ends: ReliableEndpoints, name: str) -> None:
        self._endpoints, self._name = ends, name
        self._publisher: Publisher | None = None
        self._opening = asyncio.Lock()

    async def send(self, to: Iterable[str], body: bytes, attributes: Mapping[str, Value]) -> Stored:
        """Send an event to each of these names; returns when enough repositories have all of them."""
        names = list(to)
        for name in names:
            check_client_name(name)
        publisher = await self._opened()
        await publisher.room()
        addresses = [address_of(name) for name in names]
        columns = {key: [value] * len(names) for key, value in attributes.items()}
        await publisher.send_many([body] * len(names), {**columns, RECIPIENT: addresses})
        return await publisher.flush()

    async def _opened(self) -> Publisher:
        async with self._opening:
            if self._publisher is None or not self._publisher.is_open:
                publisher = self._endpoints.publisher(MAIL, self._name, 0, 16 << 20, None)
                self._publisher = await publisher.__aenter__()
            return self._publisher

    def box(self, ack: Literal["auto", "manual"]) -> Subscription:
        """Return what is sent to this client's name, from when that was first sent something."""
        return self._endpoints.subscription(MAIL, self._name, "", "now", ack, {})
