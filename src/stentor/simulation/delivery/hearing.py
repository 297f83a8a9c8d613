"""A hearing: whether what a machine traced of a step is what it did in that step, number by number."""

from collections import Counter
from collections.abc import Iterable

from stentor.machine import Effect
from stentor.model.record import Line
from stentor.model.trace import Trace, TraceKind, numbers_of
from stentor.protocols.delivery.dialogue import Release
from stentor.protocols.delivery.post import Publish
from stentor.protocols.delivery.testimony import KINDS
from stentor.wire.block import Block

Event = tuple[int, int, int]  # publisher, incarnation, number
Told = Counter[tuple[str, int, int, int]]  # kinds and events
_OF_NUMBERS = {TraceKind.PUBLISHED, TraceKind.RELEASED, TraceKind.ACKNOWLEDGED, *KINDS.values()}


def told(rows: Iterable[Trace]) -> Told:
    """What was traced."""
    found: Told = Counter()
    for row in rows:
        if row.kind in _OF_NUMBERS:
            spans = [(0, row.last - row.first)]
            if row.kind in (TraceKind.RELEASED, TraceKind.ACKNOWLEDGED) and row.body:
                spans = numbers_of(row.body)
            numbers = [row.first + each for low, high in spans for each in range(low, high + 1)]
            assert len(numbers) == row.count, row
            found.update((row.kind, row.source_id, row.life, number) for number in numbers)
    return found


def done(effects: Iterable[Effect]) -> Told:
    """What was published and released."""
    found: Told = Counter()
    for effect in effects:
        if isinstance(effect, Publish):
            found.update((TraceKind.PUBLISHED, *event) for event in events(effect.block))
        elif isinstance(effect, Release):
            for portion in effect.portions:
                found.update((TraceKind.RELEASED, *event) for event in events(portion.block))
    return found


def events(block: Block) -> list[Event]:
    return [(block.publisher, block.incarnation, block.catenation + offset) for offset in block.offsets()]


def durable(lines: Iterable[Line]) -> Told:
    """What became durable."""
    return Counter(
        (KINDS[line.kind], line.publisher, line.incarnation, number)
        for line in lines
        if line.kind in KINDS
        for number in range(line.first, line.last + 1)
    )
