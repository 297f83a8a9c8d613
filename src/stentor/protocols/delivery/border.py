"""The border of a top-level unit: events of a topic that is held there leave it only when a repository for this unit,
its system storage, has them durably; paper 001, section 4.2.4.

Publishers publish such events on a topic of their unit, which nobody outside listens to. The system storage passes on
what is durable, with its numbers; what does not come is noticed by these, and asked for as everything is that another
repository has.
"""

from collections.abc import Container, Iterable

from stentor.model.communication import bundle_of, within_of
from stentor.model.control import GossipPassage
from stentor.model.errors import Refusal, Refused
from stentor.model.ids import topic_id
from stentor.model.record import Kind, Line
from stentor.protocols.delivery.bundle import Peer
from stentor.protocols.delivery.dispatch import LETTER, Dispatch
from stentor.protocols.delivery.post import Ignore, Listen, Post
from stentor.protocols.delivery.registry import Registry, top_of
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.store import Store
from stentor.protocols.delivery.stream import Stream
from stentor.wire.block import Block


class Border:
    """One repository's part in it."""

    def __init__(
        self, topic: str, settings: RepositorySettings, store: Store, registry: Registry, dispatch: Dispatch
    ) -> None:
        self._topic, self._name, self._unit = topic, settings.name, settings.unit
        self._store, self._registry, self._dispatch = store, registry, dispatch
        self._heard = topic  # on which events come to us
        self._passed = 0  # the last number that was passed on

    @property
    def is_held(self) -> bool:
        return self._registry.terms.hold

    @property
    def is_storage(self) -> bool:
        """Whether we are a system storage."""
        return self.is_held and _is_top(self._unit)

    def storages(self, node: str) -> tuple[str, ...]:
        """The system storages for a publisher at this broker."""
        unit = top_of(node)
        return tuple(name for name, serves in self._registry.units.items() if unit and serves == unit)

    def unit_of(self, node: str) -> str:
        """Within which unit a client at this broker speaks and listens; "" is everywhere."""
        return top_of(node) if self.is_held else ""

    def obey(self) -> None:
        """Listen to where publishers speak whom we may hear."""
        hears = self._topic
        if self.is_held:
            hears = within_of(self._unit, self._topic) if self.is_storage else ""
        self._store.keeps_all = self.is_storage
        self._dispatch.held = self.is_held or self._registry.terms.open  # which is published under another name
        self._store.home = topic_id(hears) if self.is_storage else 0
        if hears == self._heard:
            return
        if self._heard:
            self._dispatch.effects.append(Ignore(self._heard))
        if hears:
            self._dispatch.effects.append(Listen(hears, letters=False))
        self._heard = hears

    def check(self, node: str, peers: Iterable[Peer]) -> None:
        """Refuse a publisher whose unit has no system storage, or another one. One that was never heard in this topic
        may turn out to be the storage.
        """
        if not self.is_held or self._name in self.storages(node):
            return
        unit = top_of(node)
        if self.storages(node):
            raise Refused(Refusal.BUSY, f"{self._name} is not the system storage of {unit}")
        unheard = [peer.name for peer in peers if not (peer.whole or peer.unit or peer.departed)]
        if unit and unheard:
            raise Refused(Refusal.BUSY, f"{', '.join(unheard)} has not said yet whether it serves {unit}")
        where = f"no repository of it serves {unit}, where {node} is" if unit else f"{node} is in no unit"
        raise Refused(
            Refusal.NOT_AUTHORISED,
            f"{self._topic} is held at the borders of top-level units, and {where}: a repository whose unit is "
            f"{unit or 'around the broker'} can be added with `stentor topic bundle {self._topic} add NAME`",
        )

    def pass_on(self, lines: Iterable[Line], publishers: Container[int]) -> None:
        """These are durable here: those of the publishers that we steer may leave the unit."""
        if not self.is_storage:
            return
        letter: list[Block] = []
        upto = self._passed
        for line in lines:
            record = self._store.at(line.sequence)
            if line.kind is not Kind.EVENTS or line.publisher not in publishers or record is None:
                continue
            letter.append(self._store.block(record))
            upto = max(upto, line.end)
            if sum(len(block.frame) for block in letter) > LETTER:
                self._send(letter, upto)
                letter = []
        if letter:
            self._send(letter, upto)

    def _send(self, blocks: list[Block], upto: int) -> None:
        passage = GossipPassage(self._topic, self._name, self._unit, self._passed, upto)
        self._dispatch.effects.append(Post(bundle_of(self._topic), (passage,), blocks))
        self._passed = upto

    def is_received(self, stream: Stream, last: int, peers: Iterable[Peer]) -> bool:
        """Whether every other top-level unit, and those who serve everyone, have all up to a number: else it is kept,
        however long they are away.
        """
        if not self.is_held:
            return True
        units: dict[str, bool] = {}
        for peer in peers:
            if peer.unit != self._unit and (not peer.unit or _is_top(peer.unit)) and not peer.departed:
                units[peer.unit] = units.get(peer.unit, False) or stream.reached_by(peer.name) >= last
        return all(units.values())

    def waits(self, peers: Iterable[Peer], living: Container[Peer]) -> bool:
        """Whether all system storages of a unit are away: they alone may have what others miss, and will come back."""
        if not self.is_held:
            return False
        storages = [peer for peer in peers if _is_top(peer.unit) and not peer.departed]
        there = {peer.unit for peer in storages if peer in living} | {self._unit}
        return any(peer.unit not in there for peer in storages)


def _is_top(unit: str) -> bool:
    return bool(unit) and "/" not in unit
