"""The forwarder: event frames come in as chunks and leave as slices. It never decodes what it only forwards."""

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from stentor.machine import Buffer
from stentor.model.attribute import EMPTY_SCHEMA, Schema
from stentor.model.ids import NO_SCHEMA, SchemaId, SubscriptionId
from stentor.protocols.dissemination.routing import Route, RouteTable
from stentor.wire.block import Block
from stentor.wire.frame import LENGTH
from stentor.wire.run import cut


class Destination(Protocol):
    """Whatever collects slices for a peer."""

    fresh: list[tuple[Buffer, int, Mapping["Destination", tuple[SubscriptionId, ...]]]]


D = TypeVar("D", bound=Destination)


class Forwarder(Generic[D]):
    """Applies routes to runs. `touched` collects, in order, the destinations that got something in this step."""

    def __init__(self) -> None:
        self.table: RouteTable[D] = RouteTable()
        self.schemas: dict[SchemaId, Schema] = {NO_SCHEMA: EMPTY_SCHEMA}
        self.touched: dict[D, None] = {}
        self.unrouted = 0  # events that nobody wanted

    def forward(self, data: bytes, runs: list[tuple[Route[D], int, int, int]]) -> int:
        """Hand each run to everyone on its route; returns how many events there were."""
        total = 0
        for route, start, end, count in runs:
            total += count
            route.events += count
            if route.whole:
                cargo = (cut(data, start, end), count, route.recipients)
                for destination in route.whole:
                    destination.fresh.append(cargo)  # type: ignore[arg-type]
                self.touched.update(route.everything)
            if route.channels or route.watched:
                self._filter(route, data, start, end)
            elif not route.whole:
                self.unrouted += count
        return total

    def _filter(self, route: Route[D], data: bytes, start: int, end: int) -> None:
        while start < end:
            (length,) = LENGTH.unpack_from(data, start)
            frame = data[start : start + length]
            start += length
            block = Block(frame, self.schemas[SchemaId(int.from_bytes(frame[24:32], "little"))])
            for channel in route.watched:
                channel.decide(block)
            for destination, channel in route.channels:
                keep, _ = channel.decide(block)
                chosen = block.select(keep)
                if chosen is not None:
                    destination.fresh.append((chosen, int(keep.sum()), route.recipients))  # type: ignore[arg-type]
                    self.touched[destination] = None
