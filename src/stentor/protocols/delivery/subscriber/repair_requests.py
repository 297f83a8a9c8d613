"""Repair requests: which of the events that are stored and have not come a subscriber asks for, and when."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stentor.machine import Step
from stentor.model.stored.span import Span
from stentor.protocols.delivery.retry_timer import NEVER
from stentor.protocols.delivery.settings import SubscriberSettings
from stentor.protocols.delivery.subscriber.event_buffer import EventBuffer
from stentor.protocols.delivery.subscriber.persistent_chain import PersistentChain, rank, to_array, to_spans
from stentor.wire.block import Block

_FIRST_GUESS = 1024
_FURTHER = 16  # times as many events are looked at as are asked for


class RepairRequests:
    """Asks for what is missing at the front of the chain; when half of that has come, for as much again.

    So it takes the same memory however long the chain is, and never waits for an answer before it asks on.
    """

    def __init__(self, step: Step, settings: SubscriberSettings) -> None:
        self._step = step
        self._events = settings.asked_events
        self._size = min(settings.asked, settings.buffer // 2)  # bytes: the rest of the buffer is for what comes itself
        self._wait = settings.missing
        self.mean = _FIRST_GUESS  # bytes of an event
        self.reached = 0  # all that was missing before this event of the chain has been asked for

    def forget(self) -> None:
        """Ask again."""
        self.reached = 0

    def learn(self, blocks: Sequence[Block]) -> None:
        """Learn how large events are."""
        events = sum(block.count for block in blocks)
        if events:
            self.mean = (3 * self.mean + sum(len(block.frame) for block in blocks) // events) // 4

    def find(self, chain: PersistentChain, buffer: EventBuffer) -> tuple[list[Span], int]:
        """Return the sequence numbers to ask for now, and when to look again."""
        most = max(min(self._size // max(self.mean, 1), self._events), 1)
        under_way = max(self.reached - chain.taken, 0)
        if 2 * under_way > most:
            return [], NEVER
        self.reached = max(self.reached, chain.taken)
        found: list[NDArray[np.int64]] = []
        due = NEVER
        room, further = most - under_way, _FURTHER * most
        start = chain.taken
        for run in chain.runs:
            if self.reached < start + len(run):
                source = buffer.sources[run.stream]
                # one that is to come by itself is waited for, one before what has come is lost
                certain = not source.live or self._step.now >= run.since + self._wait
                end = len(run) if certain else rank(run.numbers, source.live)
                while room > 0 and further > 0 and (at := self.reached - start) < end:
                    stop = min(at + most, end)
                    gone = source.missing(run.numbers[at:stop])[:room]
                    if len(gone) == room:
                        stop = at + int(gone[-1]) + 1
                    found.append(to_array(run.sequences[at:stop])[gone])
                    room -= len(gone)
                    further -= stop - at
                    self.reached = start + stop
                if self.reached < start + len(run):
                    if not certain and self.reached - start >= end:
                        due = run.since + self._wait
                    break
            start += len(run)
        return (to_spans(np.concatenate(found)) if found else []), due
