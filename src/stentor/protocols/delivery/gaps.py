"""Gaps: numbers that a publisher has used and nobody has. They become void, so that others do not wait behind them."""

from stentor.machine import Report
from stentor.model.control import GossipVoid, Held
from stentor.model.span import Span
from stentor.protocols.delivery.border import Border
from stentor.protocols.delivery.dispatch import Dispatch
from stentor.protocols.delivery.gossip import Gossip
from stentor.protocols.delivery.registry import Registry
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.store import Store
from stentor.protocols.delivery.stream import Stream


class Gaps:
    """Closes those of one topic at one repository."""

    def __init__(
        self,
        topic: str,
        settings: RepositorySettings,
        store: Store,
        registry: Registry,
        dispatch: Dispatch,
        gossip: Gossip,
        border: Border,
    ) -> None:
        self._topic, self._settings = topic, settings
        self._store, self._registry, self._dispatch = store, registry, dispatch
        self._gossip, self._border = gossip, border

    def tick(self, now: int) -> None:
        """Close the gaps of publishers that are silent, or do not have what is missing: others wait behind them."""
        living = self._gossip.living(now)
        for key, stream in list(self._store.streams.items()):
            if not (missing := self._hopeless(now, stream)):
                continue
            if any(stream.wanted_from(peer.name) for peer in living):
                continue  # somebody has it: it will come
            voided = Held(*key, 0, tuple(self._store.void(stream, missing)))
            known = self._registry.publishers.get(key[0])
            level = "debug" if self._registry.terms.open else "warning"
            details: dict[str, str | int | float] = {"topic": self._topic, "publisher": known.name if known else ""}
            self._dispatch.effects.append(Report(level, "a gap is closed", {**details, "events": _size(voided)}))
            self._gossip.say(GossipVoid(self._topic, self._settings.name, (voided,)))
            self._gossip.touched[stream] = None

    def _hopeless(self, now: int, stream: Stream) -> list[Span]:
        """What is missing of a stream and has been waited for long enough."""
        settings = self._settings
        missing = stream.missing
        if self._registry.terms.open:
            return missing  # what was sent after it is here, and nobody sends it again
        missing = stream.undamaged(missing)
        lost = [part for gap in missing for part in stream.acknowledged.within(*gap)]  # another repository had it
        stream.lost = (stream.lost or now) if lost else 0
        turn = self._gossip.company.turn(now)
        silence = now - max(stream.heard, stream.seen, turn)
        anew = not self._registry.is_current(*stream.id)
        if self._border.waits(self._gossip.bundle.peers.values(), self._gossip.living(now)):
            return []
        everyone = self._gossip.company.is_here(now)
        soon = settings.void_anew if everyone else settings.void_after  # one that is away may have it
        if missing and self._gossip.company.since and silence >= (soon if anew else settings.void_after):
            return missing
        if lost and now - max(stream.lost, turn) >= soon:
            return lost
        return []


def _size(held: Held) -> int:
    return sum(last - first + 1 for first, last in held.spans)
