"""Missing traces: a repository that keeps traces asks nodes for those that it did not hear.

A node numbers its traces, so a gap shows as soon as something later is heard. Other repositories may have heard what is
missing; but one that is killed takes with it what it had not written down, and a broker whose memory is damaged passes
nothing on for a while. Then only the node itself can tell it again.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from stentor.machine import SECOND, Input
from stentor.model.communication import check_answerable, inbox_of, repository_name
from stentor.model.control import RepositoryNak
from stentor.model.errors import FrameError, InvalidInput
from stentor.model.reports.trace import kept_of
from stentor.model.stored.record import StreamId
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.transport import EventsReceived, LetterReceived, SendLetter
from stentor.wire.block import Block

_AGAIN: Final = SECOND  # between two requests to one node: an answer takes a round trip
_TRIES: Final = 5  # the way to a node may be damaged for as long as its own traces already come through
_ASKED_FOR: Final = 64  # ranges of one request; the next one names the rest
_REMEMBERED: Final = 60 * SECOND  # of a node's silence; by then all of it is in the ledger, or was given up
_ANSWERING: Final = ("publisher:", "subscriber:", "repository:")  # hear letters; brokers do not


class _HeardTraces:
    """What was heard of one life of a node."""

    __slots__ = ("asked_at", "heard_at", "node", "numbers", "tries")

    def __init__(self, numbers: Spans) -> None:
        self.numbers = numbers  # Those that were asked for in vain count as heard.
        self.heard_at = 0
        self.node = ""  # its name, once something is missing
        self.asked_at = 0
        self.tries = 0  # Invariant: 0 unless something is missing


class MissingTraces:
    """Knows which traces a repository has heard, and asks for the others."""

    def __init__(self, repository: str) -> None:
        self._repository = repository
        self._topic = kept_of(repository)
        self._own = repository_name(repository)  # which is not asked: a repository hears no letters of its own
        self._heard: dict[StreamId, _HeardTraces] = {}  # those that were heard last are the last ones
        self._gaps: dict[StreamId, _HeardTraces] = {}  # Invariant: a part of `_heard`, with what has gaps

    @property
    def is_asking(self) -> bool:
        return bool(self._gaps)

    def hear(self, now: int, inputs: Iterable[Input], stored: Mapping[StreamId, PublisherStream]) -> list[SendLetter]:
        """Note traces that have come; return what is to be asked of whom. `stored` is what the ledger has."""
        for block in _blocks_in(inputs):
            key = block.publisher, block.incarnation
            heard = self._heard.pop(key, None)
            if heard is None:
                known = stored.get(key)
                heard = _HeardTraces(known.stored.copy() if known is not None else Spans())
            self._heard[key] = heard
            heard.heard_at = now
            heard.numbers.add(block.catenation, block.last())
            if heard.numbers.upto() < heard.numbers.last:
                heard.node = heard.node or _node_of(block)
                self._gaps[key] = heard
        self._forget(now)
        return self.ask(now) if self._gaps else []

    def ask(self, now: int) -> list[SendLetter]:
        """Return requests for what is missing, but for those whose answers may be on their way."""
        letters: list[SendLetter] = []
        for key, heard in list(self._gaps.items()):
            missing = heard.numbers.missing(1, heard.numbers.last)
            if not missing or heard.tries == _TRIES or heard.node in ("", self._own):
                heard.numbers.add(1, heard.numbers.last)
                heard.tries = 0
                del self._gaps[key]
            elif not heard.tries or now - heard.asked_at >= _AGAIN:
                heard.asked_at = now
                heard.tries += 1
                spans = tuple(missing[:_ASKED_FOR])
                nak = RepositoryNak(self._topic, self._repository, incarnation=key[1], missing=spans)
                letters.append(SendLetter(inbox_of(heard.node), (nak,)))
        return letters

    def _forget(self, now: int) -> None:
        while self._heard:
            key, heard = next(iter(self._heard.items()))
            if heard.heard_at >= now - _REMEMBERED:
                return
            del self._heard[key]
            self._gaps.pop(key, None)


def _blocks_in(inputs: Iterable[Input]) -> list[Block]:
    """Return the traces that nodes have published, or sent again in letters of their own."""
    found: list[Block] = []
    for each in inputs:
        if isinstance(each, EventsReceived):
            found += each.blocks
        elif isinstance(each, LetterReceived):
            found += [block for block in each.blocks if block.publisher == each.sender]
    return found


def _node_of(block: Block) -> str:
    """Return the name of the node that traced this; "" if it hears no letters, or if anybody has made that up."""
    try:
        column = block.column("node")
        node = str(column.to_list()[0]) if column is not None else ""
        check_answerable(node)
    except (FrameError, InvalidInput):
        return ""
    return node if node.startswith(_ANSWERING) else ""
