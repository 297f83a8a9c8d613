"""A relay that remembers which events came in: copies of a parcel are for different members, so none comes twice. Each
goes by the colours that it has, and leaves a unit by the same exit as long as the same ones are open.
"""

from collections.abc import Mapping

from stentor.model.routing_state import ExitNumbers, RoutingState, RoutingTables
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.delivery.besteffort.subscriber import frames
from stentor.protocols.dissemination.mask_plans import MaskPlans, NextHop
from stentor.protocols.dissemination.member_interests import InterestIndex
from stentor.protocols.dissemination.relay import Relay
from stentor.protocols.dissemination.routes import Route
from stentor.simulation.outcome import Anomaly
from stentor.wire.block import Block
from stentor.wire.head import schema_of
from stentor.wire.parcel import read_ways

Name = tuple[int, int, int, int]  # publisher, incarnation, topic and catenation number of an event


class RecordingRelay(Relay[Outbox]):
    """Takes the place of a broker's relay for one life of the broker."""

    _anomalies: list[Anomaly]
    _seen: set[Name]

    @staticmethod
    def watch(relay: Relay[Outbox], anomalies: list[Anomaly]) -> None:
        relay.__class__ = RecordingRelay
        assert isinstance(relay, RecordingRelay)
        relay._anomalies, relay._seen = anomalies, set()

    def adopt(self, tables: RoutingTables[InterestIndex], neighbours: Mapping[str, NextHop[Outbox]]) -> None:
        former = self.states
        super().adopt(tables, neighbours)
        for level, (before, after) in enumerate(zip(former, self.states, strict=True)):
            held = tables.held[-1].get(level, 0)
            is_same = (before.numbers, before.exits) == (after.numbers, after.exits)
            if is_same and _exits_by_member(before, ~held) != _exits_by_member(after, ~held):
                detail = f"{self._context.name} chooses another exit than before, and the same ones are open"
                self._anomalies.append(Anomaly("moved-exit", detail))

    def _plans_for(self, level: int, ways: bytes) -> MaskPlans[Outbox]:
        plans = super()._plans_for(level, ways)
        colours = read_ways(ways).colours[level : self._context.depth]
        if plans.colours[level:] != colours:
            detail = f"{self._context.name} sends a parcel of the colours {colours} by {plans.colours[level:]}"
            self._anomalies.append(Anomaly("wrong-colour", detail))
        return plans

    def _deliver_locally(self, inner: bytes, runs: list[tuple[Route[Outbox], int, int, int]], matchings: int) -> int:
        for frame in frames(inner):
            schema = schema_of(frame)
            block = Block(frame, self._forwarder.schemas[schema])
            for offset in block.offsets():
                event = (block.publisher, block.incarnation, block.topic, block.catenation + offset)
                if event in self._seen:
                    self._anomalies.append(Anomaly("twice", f"event {event} came to {self._context.name} again"))
                self._seen.add(event)
        return super()._deliver_locally(inner, runs, matchings)


def _exits_by_member(state: RoutingState[InterestIndex], among: int) -> dict[ExitNumbers, int]:
    """Return the exits that parcels for some members name, and which members these are, as masks."""
    return {exits: mask & among for exits, mask in state.named.items() if mask & among}
