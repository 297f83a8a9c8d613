"""The sending end of a link: control leaves at once, events while the peer's credit lasts; then they wait, bounded.

Only the peer's credit holds events back, so what is under way to a peer is never more than the window it asked for, and
what waits for it never more than the queue's bound. Beyond that a policy decides what is dropped; dropped events are
counted, and told to the peer.

An outbox belongs to a set of outboxes that whoever sends empties at the end of its step. It enters the set by itself
when a message is posted. Events are appended to `fresh` without a call, because that is the broker's hottest path;
whoever appends them enters the outbox into the set, many of them at once.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from stentor.machine import Buffer
from stentor.model.ids import LinkId, SchemaId, SubscriptionId, TopicId
from stentor.model.messages import Message, Missed
from stentor.protocols.connection.drop_policy import DROP_OLDEST, DropPolicy, WaitingRun
from stentor.wire import frame

Recipients = Mapping["Outbox", tuple[SubscriptionId, ...]]
Unflushed = dict["Outbox", None]  # outboxes with something to send, in the order in which they got it
_MOST_DEFINED = 65_536  # definitions remembered; telling one twice does no harm


class Choosers(Protocol):
    """Knows which subscriptions of a peer chose how many of some events."""

    def get(self, outbox: "Outbox", default: Mapping[SubscriptionId, int], /) -> Mapping[SubscriptionId, int]: ...


# event frames, how many events, who takes all, who chose how many
OutboundRun = tuple[Buffer, int, Recipients, Choosers]
_NOTHING: Mapping[SubscriptionId, int] = {}


class Outbox:
    """Events and control messages on their way to one peer."""

    __slots__ = (
        "_behind",
        "_bound",
        "_control",
        "_drop_policy",
        "_missed",
        "_unflushed",
        "_waiting",
        "defined",
        "dropped",
        "events",
        "fresh",
        "limit",
        "link",
        "on_drop",
        "position",
        "queued",
        "sent",
    )

    def __init__(
        self, link: LinkId, bound: int, unflushed: Unflushed | None = None, drop_policy: DropPolicy = DROP_OLDEST
    ) -> None:
        """Without `unflushed`, its owner knows by itself when there is something to release."""
        self.link = link
        self.fresh: list[OutboundRun] = []  # offered in this step; the forwarder appends here without a call
        self._control: list[Buffer] = []
        self._behind: list[Buffer] = []  # messages that leave when no event waits
        self._waiting: deque[WaitingRun] = deque()
        self._missed: Counter[SubscriptionId] = Counter()
        self._bound = bound
        self._unflushed = unflushed
        self._drop_policy = drop_policy
        self.limit = 0  # bytes of events that the peer lets us have sent, counted from the link's start
        self.defined: set[TopicId | SchemaId] = set()  # what we have told the peer the meaning of
        self.queued = 0  # bytes that wait; Invariant: the sum over `_waiting`, at most `_bound` after each release.
        self.sent = 0  # bytes of events sent, counted from the link's start
        self.position = 0  # bytes of everything sent
        self.events = 0
        self.dropped = 0
        self.on_drop: Callable[[bytes], None] | None = None  # is told what is dropped

    def grant(self, limit: int) -> None:
        """Credits are totals, so a late or repeated one does no harm."""
        self.limit = max(self.limit, limit)

    @property
    def credit(self) -> int:
        """Bytes of events that the peer lets us send now."""
        return self.limit - self.sent

    def post(self, message: Message) -> None:
        self.post_frame(frame.encode(message))

    def post_frame(self, data: bytes) -> None:
        self._control.append(data)
        self.position += len(data)
        self.enter()

    def post_behind(self, message: Message) -> None:
        """Send a message after all events that wait: whoever gets it has got them."""
        self._behind.append(frame.encode(message))
        self.enter()

    def enter(self) -> None:
        """Enter the set of outboxes that are released at the end of this step."""
        if self._unflushed is not None:
            self._unflushed[self] = None

    def define(self, number: TopicId | SchemaId, definition: Message) -> bool:
        """Tell the peer what a number means, once; True if it had to be told."""
        if number in self.defined:
            return False
        if len(self.defined) >= _MOST_DEFINED:
            self.defined.clear()
        self.defined.add(number)
        self.post(definition)
        return True

    def release(self) -> list[Buffer]:
        """Return what can leave now, in order."""
        ready = self._control
        self._control = []
        if self.fresh or self._waiting:
            self._release_events(ready)
        if self._behind and not self._waiting:
            self.position += sum(map(len, self._behind))
            ready += self._behind
            self._behind = []
        return ready

    def _release_events(self, ready: list[Buffer]) -> None:
        fresh = self.fresh
        if not self._waiting and not self._missed:
            pieces: tuple[Buffer, ...]
            if len(fresh) == 1:  # the most frequent case, at half the price
                piece, events, _, _ = fresh[0]
                pieces, size = (piece,), len(piece)
            else:
                pieces, counts, _, _ = zip(*fresh, strict=True)
                size, events = sum(map(len, pieces)), sum(counts)
            if self.sent + size <= self.limit:
                self.sent += size
                self.position += size
                self.events += events
                ready += pieces
                fresh.clear()
                return
        self._queue(fresh)
        fresh.clear()
        self._drain(ready)
        self._trim()

    def _queue(self, fresh: Iterable[OutboundRun]) -> None:
        for data, count, recipients, choosers in fresh:
            # a view of a chunk would keep all of the chunk, so the bound would not bound the memory
            owned = bytes(data)
            losers = dict.fromkeys(recipients.get(self, ()), count)
            losers.update(choosers.get(self, _NOTHING))
            self._waiting.append(WaitingRun(owned, count, losers))
            self.queued += len(owned)

    def _trim(self) -> None:
        """Drop what is beyond the bound; the policy chooses what that is."""
        if self.queued <= self._bound:
            return
        for data, count, losers in self._drop_policy.drop(self._waiting, self.queued - self._bound):
            self.queued -= len(data)
            self.dropped += count
            self._missed.update(losers)
            if self.on_drop is not None:
                self.on_drop(data)

    def _drain(self, ready: list[Buffer]) -> None:
        waiting = self._waiting
        while waiting and self.sent < self.limit:  # what is begun within the credit may end beyond it
            if self._missed:
                missed = frame.encode(Missed(dict(self._missed)))
                ready.append(missed)
                self.position += len(missed)
                self._missed.clear()
            data, count, _ = waiting.popleft()
            ready.append(data)
            self.queued -= len(data)
            self.sent += len(data)
            self.position += len(data)
            self.events += count

    def take_waiting(self) -> list[tuple[bytes, int]]:
        """Take out the events that have not left, as runs with how many events are in each, in order."""
        waiting = [(run.frames, run.events) for run in self._waiting]
        waiting += [(bytes(run[0]), run[1]) for run in self.fresh]
        self.discard()
        return waiting

    def recount(self) -> None:
        """Count what waits anew: nobody at the other end could find out that the count is wrong."""
        if self._waiting or self.queued:
            self.queued = sum(len(run.frames) for run in self._waiting)

    def discard(self) -> int:
        """Forget what has not left, and return how many events that were."""
        events = sum(run.events for run in self._waiting) + sum(run[1] for run in self.fresh)
        self._waiting.clear()
        self._behind.clear()
        self.fresh.clear()
        self.queued = 0
        return events

    @property
    def slow(self) -> bool:
        """Whether events wait for this peer's credit."""
        return bool(self._waiting)
