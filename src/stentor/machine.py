"""Machines: deterministic protocol cores. `step(now, input) -> effects`, and nothing else.

No clock, socket, file, randomness, thread or log call lives inside a machine. `now` is integer nanoseconds of a
monotonic clock. Inputs tell what happened (past tense), effects ask for what shall be done (imperative), messages are
nouns. The same machines run over real sockets (`stentor.runtime`) and in simulation (`stentor.simulation`).

Every input and effect has a tag beside its class. Digests of simulated runs hold tags and values, so that a tag stays
when its class gets another name.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from stentor.model.attribute import Schema
from stentor.model.colours.memory_part import MemoryPart
from stentor.model.ids import LinkId
from stentor.model.stored.position import Position
from stentor.model.stored.record import Entry, LedgerContents, Record, RecordHeader
from stentor.model.trust.place import EVERYWHERE
from stentor.model.trust.token import FabricToken

SECOND = 1_000_000_000
MILLISECOND = 1_000_000

Buffer = bytes | memoryview


class Input(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=True):
    """Something that happened."""


class LinkOpened(Input, frozen=True, gc=False, tag="link opened"):
    """A stream to a peer is open. `dialled` says whether this node asked for it.

    `principal` is what the peer's certificate proved, `node` whether it is a node's certificate, `scopes` the places
    that it names, which are all that a broker or repository may take, and `attributes` what else it says of its
    subject. A link without TLS has a `nonce`, fresh and random, and proves nothing by itself: the peer's messages may
    prove that it knows the fabric's `token`, if this node has one.
    """

    link: LinkId
    dialled: bool = False
    principal: str = ""
    address: str = ""
    node: bool = True
    attributes: tuple[str, ...] = ()  # such as OU=trading
    scopes: tuple[str, ...] = EVERYWHERE
    nonce: bytes = b""
    token: FabricToken | None = None


class CertificateEnded(Input, frozen=True, gc=False, tag="certificate ended"):
    """The certificate of the peer on a link has expired or was revoked."""

    link: LinkId
    reason: str


class Received(Input, frozen=True, gc=False, tag="received"):
    """A link brought bytes, cut anywhere."""

    link: LinkId
    data: bytes


class LinkLost(Input, frozen=True, gc=False, tag="link lost"):
    """A stream ended, or a dialled one could not be opened."""

    link: LinkId
    reason: str


class Timer(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=True):
    """What a machine wants to be woken for. Equal timers are one timer: starting it again replaces it."""


class TimerFired(Input, frozen=True, gc=False, tag="timer fired"):
    """A timer that was started has fired.

    `wall` is the time of day in nanoseconds since 1970. It is for what people are told, for versions that must be newer
    than those of an earlier life, and for the age of stored events, which outlive processes and machines. It never
    decides anything else.
    """

    timer: Timer
    wall: int = 0


class Appended(Input, frozen=True, gc=False, tag="appended"):
    """The records of the Append or Rewrite with this token are durable."""

    log: str
    token: int


class AppendFailed(Input, frozen=True, gc=False, tag="append failed"):
    """The disk refused the Append or Rewrite with this token: nothing of it may be counted on."""

    log: str
    token: int
    reason: str


class Started(Input, frozen=True, gc=False, tag="started"):
    """The node begins; `records` is what its logs held, by log, and `wall` the time in nanoseconds since 1970."""

    records: dict[str, list[bytes]] = {}
    wall: int = 0


class Opened(Input, frozen=True, gc=False, tag="opened"):
    """A ledger is open, and held this; with a reason, it could not be opened. `wall` is as in TimerFired."""

    ledger: str
    holdings: LedgerContents
    reason: str = ""
    wall: int = 0


class Committed(Input, frozen=True, gc=False, tag="committed"):
    """The Commit with this token, and all before it, are durable in the ledger."""

    ledger: str
    token: int


class CommitFailed(Input, frozen=True, gc=False, tag="commit failed"):
    """The ledger has nothing of the Commit with this token; unless it is `fatal`, the same may be tried again."""

    ledger: str
    token: int
    reason: str
    fatal: bool = True


class Scanned(Input, frozen=True, tag="scanned"):
    """The records that a Scan found; `damaged` ones cannot be read. With a reason, nothing could be read at all."""

    ledger: str
    token: int
    records: list[Record]
    damaged: list[RecordHeader] = []
    reason: str = ""


class Recalled(Input, frozen=True, tag="recalled"):
    """What a lake has of the events that a Recall wanted: frames with their schemas; what it sought, and found."""

    ledger: str
    token: int
    frames: Sequence[tuple[bytes, Schema]]
    sought: Position
    found: Position
    reason: str = ""  # if the lake could not be read


class Measured(Input, frozen=True, gc=False, tag="measured"):
    """A ledger takes `size` bytes on its disk; the driver tells this now and then."""

    ledger: str
    size: int


class StopRequested(Input, frozen=True, gc=False, tag="stop requested"):
    """An operator or supervisor wants this node to end in good order."""


class Effect(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=True):
    """Something to be done."""


class Send(Effect, frozen=True, tag="send"):
    """Write these buffers to a link, in order."""

    link: LinkId
    data: Sequence[Buffer]


class Close(Effect, frozen=True, gc=False, tag="close"):
    """End a link after what was sent; no `LinkLost` follows."""

    link: LinkId
    reason: str


class Pause(Effect, frozen=True, gc=False, tag="pause"):
    """Read no more from a link for now; what has been read already may still come."""

    link: LinkId


class Resume(Effect, frozen=True, gc=False, tag="resume"):
    """Read from a link again."""

    link: LinkId


class Dial(Effect, frozen=True, gc=False, tag="dial"):
    """Open a link to an address; `LinkOpened` or `LinkLost` with this id follows."""

    link: LinkId
    address: str


class StartTimer(Effect, frozen=True, gc=False, tag="start timer"):
    """Fire at `at`, or up to `jitter` later (the driver draws it); an equal timer is replaced."""

    timer: Timer
    at: int
    jitter: int = 0


class StopTimer(Effect, frozen=True, gc=False, tag="stop timer"):
    """Forget a timer; nothing happens if it is not running."""

    timer: Timer


class Append(Effect, frozen=True, tag="append"):
    """Make records durable at the end of a log; `Appended` or `AppendFailed` with this token follows."""

    log: str
    token: int
    records: Sequence[bytes]


class Rewrite(Effect, frozen=True, tag="rewrite"):
    """Replace the contents of a log by these records; `Appended` or `AppendFailed` with this token follows.

    After a crash in between the log holds all that it held before, or all of these.
    """

    log: str
    token: int
    records: Sequence[bytes]


class Open(Effect, frozen=True, gc=False, tag="open"):
    """Open the ledger of a topic, make it if it is not there; `Opened` follows."""

    ledger: str


class CloseLedger(Effect, frozen=True, gc=False, tag="close ledger"):
    """Close the ledger of a topic once all that was asked of it is done; it may be opened again."""

    ledger: str


class Discard(Effect, frozen=True, gc=False, tag="discard"):
    """Delete the ledger of a topic."""

    ledger: str


class Commit(Effect, frozen=True, tag="commit"):
    """Make entries durable in a ledger, all or none; `Committed` or `CommitFailed` follows, in order."""

    ledger: str
    token: int
    entries: Sequence[Entry]


class Scan(Effect, frozen=True, gc=False, tag="scan"):
    """Read records from `first` on, or from the first of this `time` on; `Scanned` with this token follows."""

    ledger: str
    token: int
    first: int
    budget: int
    time: int = 0


class Recall(Effect, frozen=True, tag="recall"):
    """Read events that are forgotten here from the lake, about `budget` bytes; `Recalled` with this token follows.

    With a `time`, find the first number of each stream that is of this time or later instead.
    """

    ledger: str
    token: int
    wanted: Position
    budget: int = 0
    time: int = 0


class Collect(Effect, frozen=True, gc=False, tag="collect"):
    """Delete the records of a ledger that end at or before this sequence number."""

    ledger: str
    end: int


class Report(Effect, frozen=True, tag="report"):
    """Something people should know; the driver logs it. `level` is debug, info, warning or error."""

    level: str
    what: str
    details: dict[str, str | int | float]


class Serve(Effect, frozen=True, gc=False, tag="serve"):
    """This node is ready: accept links from now on."""


class Stop(Effect, frozen=True, gc=False, tag="stop"):
    """This node cannot go on: it must be restarted from its log."""

    reason: str


class Scramble(Effect, frozen=True, tag="scramble"):
    """Damage these parts of the machine's own memory, at random by this seed: an operator wants to see it heal."""

    parts: tuple[MemoryPart, ...]
    seed: int


class Step:
    """One step of a machine, as its parts see it: what time it is, and where effects go.

    A machine owns one and hands it to its parts. Parts return what has changed; what shall be done they emit, and it is
    done in the order in which they emit it.
    """

    __slots__ = ("_last", "effects", "now")

    def __init__(self) -> None:
        self.now = 0  # of the step that runs, or of the last one
        self.effects: list[Effect] = []  # emitted in this step, in order; for parts there is `emit`
        self._last: list[Effect] = []  # to follow them, in order

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def emit_last(self, effect: Effect) -> None:
        """Emit behind everything that `emit` takes in this step: what follows from it, such as the next timer."""
        self._last.append(effect)

    def report(self, level: str, what: str, /, **details: str | int | float) -> None:
        self.effects.append(Report(level, what, details))

    def end(self) -> list[Effect]:
        """Return what was emitted, and begin the next step."""
        effects, self.effects = self.effects, []
        if self._last:
            effects += self._last
            self._last.clear()
        return effects


class Machine(Protocol):
    """What every protocol and node is: whatever has `step`, and nothing else."""

    def step(self, now: int, happened: Input) -> list[Effect]: ...
