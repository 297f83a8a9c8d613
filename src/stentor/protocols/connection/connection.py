"""One link's state: greeting, credit, heartbeat and the integrity of the stream. The same for both ends.

The heartbeat says how many bytes were written before it. TCP's checksum is weak and middleboxes exist: a reader that
counts another number knows that the stream lost, repeated or swapped something, and ends the link. It also says how
many of these bytes were events, and how much credit was given: whatever damaged one end's counters, the ends disagree,
and the next link begins with sound ones.
"""

from stentor.machine import SECOND
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import Incarnation, LinkId, PublisherId, SchemaId, TopicId
from stentor.model.messages import Credit, Heartbeat, Message
from stentor.protocols.connection.outbox import Outbox
from stentor.wire.frame import FRAME_OVERHEAD, LARGEST_GREETING, PREAMBLE, check_preamble
from stentor.wire.frame_buffer import FrameBuffer

SMALLEST_WINDOW = 64 << 10
SILENCE = 3  # heartbeats without a word, after which a link is given up


class Connection:
    """What both ends know of a link. `greeted` is set when hello and welcome have been said."""

    __slots__ = (
        "_beaten",
        "_granted",
        "_greeting",
        "_seal",
        "address",
        "attempt",
        "buffer",
        "greeted",
        "heard",
        "heartbeat",
        "incarnation",
        "largest_frame",
        "link",
        "name",
        "outbox",
        "principal",
        "publisher",
        "received",
        "taken",
        "window",
    )

    def __init__(
        self, link: LinkId, now: int, window: int, queue: int, heartbeat: float, outbox: Outbox | None = None
    ) -> None:
        """Without an `outbox`, it makes one that is bounded by `queue` and that its owner releases."""
        self.link = link
        self.heard = self._beaten = now
        self.window = window  # bytes of events that we let the peer send ahead
        self.heartbeat = int(heartbeat * SECOND)
        self.buffer = FrameBuffer()
        self.outbox = outbox or Outbox(link, queue)
        self.greeted = False
        self.name = ""
        self.principal = ""
        self.address = ""
        self.incarnation = Incarnation(0)
        self.attempt = 0  # which of its links this is to the peer
        self.publisher = PublisherId(0)
        self.largest_frame = LARGEST_GREETING
        self.received = 0  # bytes of everything
        self.taken = 0  # bytes of events that were taken off the peer's credit for good
        self._granted = window
        self._greeting = b""
        self._seal = 0  # of who is at the other end, once it was greeted
        self.outbox.post_frame(PREAMBLE)

    def greet(self, largest_body: int, heartbeat: float) -> None:
        """Both sides know each other: real limits apply from here."""
        self.greeted = True
        self.largest_frame = largest_body + FRAME_OVERHEAD
        self.heartbeat = int(heartbeat * SECOND)

    @property
    def _identity(self) -> int:
        who = self.name, self.principal, self.address, self.incarnation, self.attempt, self.publisher
        return hash((*who, self.window))

    def seal(self) -> None:
        """Remember that this is who is at the other end, and what we offered it: neither changes any more."""
        self._seal = self._identity

    @property
    def is_intact(self) -> bool:
        """Whether we know who is at the other end as we knew it when it was greeted."""
        return self._seal == self._identity

    def narrow(self, window: int) -> None:
        """The peer takes less ahead than we offered."""
        self.window = self._granted = min(self.window, window)

    def feed(self, now: int, data: bytes) -> bytes | None:
        """Count a chunk in. Return what can be looked at, beginning at a frame; None if there is nothing yet."""
        self.received += len(data)
        missing = len(PREAMBLE) - len(self._greeting)
        if missing:
            self._greeting += data[:missing]
            check_preamble(self._greeting)
            data = data[missing:]
            if not data:
                return None
        chunk = self.buffer.take(data)
        if chunk is not None:
            self.heard = now  # a damaged length makes us wait for a frame that never ends: that is silence, too
        return chunk

    def check_heartbeat(self, heartbeat: Heartbeat, rest: int, events: int) -> None:
        """Hold a heartbeat against what we count; raise FrameError if one of the ends must be wrong.

        The heartbeat began `rest` bytes before the end of what was received, and `events` bytes of events came before
        it. Credit is compared in the same way: all that the peer gave before it has been taken in.
        """
        read, limit = self.received - rest, self.outbox.limit
        if heartbeat.position != read:
            trouble = f"the peer had written {heartbeat.position} bytes, {read} were read"
        elif heartbeat.sent not in (None, events):
            trouble = f"the peer had sent {heartbeat.sent} bytes of events, {events} were read"
        elif heartbeat.granted not in (None, limit):
            trouble = f"the peer had given credit for {heartbeat.granted} bytes, {limit} are known"
        else:
            return
        raise FrameError(Refusal.CORRUPT, f"the link is broken: {trouble}")

    def take_events(self, size: int) -> bool:
        """Bytes of events were consumed: grant more when a good part of the window is used up; return whether it is."""
        self.taken += size
        if self.taken + self.window - self._granted < self.window >> 2:  # said twice, since a call costs more
            return False
        return self.grant_more()

    def grant_more(self) -> bool:
        """Grant what was consumed, if it is a good part of the window; return whether it is."""
        if self.taken + self.window - self._granted < self.window >> 2:
            return False
        self._granted = self.taken + self.window
        self.outbox.post(Credit(self._granted))
        return True

    @property
    def credit(self) -> int:
        return self.outbox.credit - sum(len(cargo[0]) for cargo in self.outbox.fresh)

    def define(self, number: TopicId | SchemaId, definition: Message) -> bool:
        """Tell the peer what a number means, once; True if it had to be told."""
        return self.outbox.define(number, definition)

    def carry(self, frame: bytes, events: int) -> None:
        self.outbox.fresh.append((frame, events, {}, {}))

    def silent(self, now: int) -> bool:
        """Return whether the peer has said nothing for so long that it must be gone."""
        self.heard = min(self.heard, now)  # a time that lies ahead is damage, and would hide the silence
        return now - self.heard > SILENCE * self.heartbeat

    def beat(self, now: int, subscriptions: int | None = None) -> bool:
        """Tell our totals now and then, on a busy link too: so the peer finds out that bytes are missing. A client
        tells the digest of its subscriptions with them.
        """
        if 0 <= now - self._beaten < self.heartbeat:  # a time that lies ahead is damage
            return False
        self._beaten = now
        outbox = self.outbox
        outbox.recount()
        outbox.post(Heartbeat(outbox.position, outbox.sent, self._granted, subscriptions))
        return True
