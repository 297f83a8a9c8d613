"""The border of a top-level unit: events of a topic that is held there leave it only when a repository for this unit,
its system storage, has them durably; paper 001, section 4.2.4.

Publishers publish such events on a topic of their unit, which nobody outside listens to. The system storage passes on
what is durable, with its numbers; what does not come is noticed by these, and asked for as everything is that another
repository has.
"""

from collections.abc import Container, Iterable

from stentor.model.communication import bundle_of, within_of
from stentor.model.control import EgressRelease
from stentor.model.errors import Refusal, Refused
from stentor.model.ids import topic_id
from stentor.model.stored.record import RecordHeader, RecordKind
from stentor.protocols.delivery.replication.bundle import PeerRepository
from stentor.protocols.delivery.repository.registry import top_of
from stentor.protocols.delivery.repository.serving.subscriber_feeds import LETTER
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.transport import Subscribe, Unsubscribe
from stentor.wire.block import Block


class EgressHold:
    """One repository's part in it."""

    def __init__(self, state: TopicState) -> None:
        self._state, self._topic = state, state.topic
        self._name, self._unit = state.settings.name, state.settings.unit
        self._log, self._registry = state.log, state.registry
        self._heard = state.topic  # on which events come to us
        self._passed = 0  # the last number that was passed on

    @property
    def is_held(self) -> bool:
        return self._registry.terms.hold

    @property
    def is_storage(self) -> bool:
        """Whether we are a system storage."""
        return self.is_held and _is_top(self._unit)

    def storages(self, node: str) -> tuple[str, ...]:
        """Return the system storages for a publisher at this broker."""
        unit = top_of(node)
        return tuple(name for name, serves in self._registry.units.items() if unit and serves == unit)

    def unit_of(self, node: str) -> str:
        """Return the unit within which a client at this broker speaks and listens; "" is everywhere."""
        return top_of(node) if self.is_held else ""

    def obey(self) -> None:
        """Listen to the topic on which the publishers are that this repository may hear."""
        hears = self._topic
        if self.is_held:
            hears = within_of(self._unit, self._topic) if self.is_storage else ""
        self._log.set_home(topic_id(hears) if self.is_storage else 0)
        if hears == self._heard:
            return
        if self._heard:
            self._state.step.emit(Unsubscribe(self._heard))
        if hears:
            self._state.step.emit(Subscribe(hears, letters=False))
        self._heard = hears

    def check(self, node: str) -> None:
        """Refuse a publisher whose unit has no system storage, or another one. One that was never heard in this topic
        may turn out to be the storage.
        """
        if not self.is_held or self._name in self.storages(node):
            return
        unit = top_of(node)
        if self.storages(node):
            raise Refused(Refusal.BUSY, f"{self._name} is not the system storage of {unit}")
        unheard = [
            peer.name for peer in self._state.bundle.peers.values() if not (peer.whole or peer.unit or peer.is_departed)
        ]
        if unit and unheard:
            raise Refused(Refusal.BUSY, f"{', '.join(unheard)} has not said yet whether it serves {unit}")
        where = f"no repository of it serves {unit}, where {node} is" if unit else f"{node} is in no unit"
        raise Refused(
            Refusal.NOT_AUTHORISED,
            f"{self._topic} is held at the borders of top-level units, and {where}: a repository whose unit is "
            f"{unit or 'around the broker'} can be added with `stentor topic bundle {self._topic} add NAME`",
        )

    def pass_on(self, lines: Iterable[RecordHeader], publishers: Container[int]) -> None:
        """Let what is durable here leave the unit, of the publishers that we steer."""
        if not self.is_storage:
            return
        letter: list[Block] = []
        upto = self._passed
        for line in lines:
            record = self._log.at(line.sequence)
            if line.kind is not RecordKind.EVENTS or line.publisher not in publishers or record is None:
                continue
            letter.append(self._log.block(record))
            upto = max(upto, line.end)
            if sum(len(block.frame) for block in letter) > LETTER:
                self._send(letter, upto)
                letter = []
        if letter:
            self._send(letter, upto)

    def _send(self, blocks: list[Block], upto: int) -> None:
        passage = EgressRelease(self._topic, self._name, self._unit, self._passed, upto)
        self._state.send(bundle_of(self._topic), passage, blocks=blocks)
        self._passed = upto

    def is_received(self, stream: PublisherStream, last: int) -> bool:
        """Return whether every other top-level unit, and those who serve everyone, have all up to a number: else it is
        kept, however long they are away.
        """
        if not self.is_held:
            return True
        units: dict[str, bool] = {}
        for peer in self._state.bundle.peers.values():
            if peer.unit != self._unit and (not peer.unit or _is_top(peer.unit)) and not peer.is_departed:
                units[peer.unit] = units.get(peer.unit, False) or stream.reached_by(peer.name) >= last
        return all(units.values())

    def waits(self, living: Container[PeerRepository]) -> bool:
        """Return whether all system storages of a unit are away: they alone may have what others miss, and will come
        back.
        """
        if not self.is_held:
            return False
        peers = self._state.bundle.peers.values()
        storages = [peer for peer in peers if _is_top(peer.unit) and not peer.is_departed]
        there = {peer.unit for peer in storages if peer in living} | {self._unit}
        return any(peer.unit not in there for peer in storages)


def _is_top(unit: str) -> bool:
    return bool(unit) and "/" not in unit
