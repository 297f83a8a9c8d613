"""The load generator: Python sets the scene, the loops of load.c publish and receive."""

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import compiler
from benchmarks.targets.target import Publisher, Subscriber
from stentor.model.messages import Credit
from stentor.wire import frame

WINDOW = 2 << 20  # bytes ahead of the slowest subscriber: under what every broker here buffers without dropping
SEND = 64 << 10  # bytes of one send
AHEAD = 16  # frames that each of many publishers has under way on average
PATIENCE = 3_000_000_000  # ns without a byte after which the rest counts as lost
BROKEN = -1


class _Progress(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("delivered", "sent", "closed", "began", "ended")]
    delivered: int
    sent: int
    closed: int
    began: int
    ended: int


class _Subscriber(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("fd", "got", "before", "window", "granted")),
        *((name, ctypes.c_int64) for name in ("counts", "events", "have", "left")),
        ("head", ctypes.c_ubyte * 40),
    ]
    got: int


class LinkError(Exception):
    """The broker closed a link during a measurement."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of the generator saw; units are what the publisher's turns are counted in."""

    sent: int
    delivered: int  # to the slowest subscriber
    seconds: float


class Generator:
    """The compiled loops."""

    def __init__(self, directory: Path) -> None:
        self._loops = ctypes.CDLL(str(compiler.library("load.c", directory)))
        for loop in ("publish", "publish_each", "pace", "receive"):
            getattr(self._loops, loop).restype = None
        self._check_credit()

    def _check_credit(self) -> None:
        """The one frame that C builds by itself must be the one that Stentor reads."""
        limit = 5_000_000_000
        buffer = ctypes.create_string_buffer(64)
        size = self._loops.credit_frame(buffer, ctypes.c_uint64(limit))
        assert frame.decode(buffer.raw[:size]) == Credit(limit), "load.c and stentor.wire disagree on Credit"

    def stream(
        self, publisher: Publisher, ring: Sequence[bytes], subscribers: Sequence[Subscriber], size: int, seconds: float
    ) -> Outcome:
        """Publish the ring's units over and over; each of them brings `size` bytes, or events, to every subscriber."""
        unit = len(ring[0])
        assert all(len(entry) == unit for entry in ring), "units of one size only"
        progress = _Progress()
        receiver = self._receive(subscribers, size, progress)
        self._loops.publish(
            publisher.socket.fileno(),
            b"".join(ring),
            ctypes.c_int64(unit),
            ctypes.c_int64(len(ring)),
            ctypes.c_int64(max(1, SEND // unit)),
            ctypes.c_int64(max(4, WINDOW // unit)),
            ctypes.c_int64(int(seconds * 1e9)),
            ctypes.byref(progress),
        )
        return _finish(receiver, progress)

    def scatter(
        self,
        publishers: Sequence[Publisher],
        frames: Sequence[bytes],
        subscribers: Sequence[Subscriber],
        size: int,
        seconds: float,
    ) -> Outcome:
        """Publishers in turn, one frame a send."""
        count = len(publishers)
        sockets = (ctypes.c_int * count)(*(publisher.socket.fileno() for publisher in publishers))
        progress = _Progress()
        receiver = self._receive(subscribers, size, progress)
        self._loops.publish_each(
            sockets,
            count,
            b"".join(frames),
            ctypes.c_int64(len(frames[0])),
            ctypes.c_int64(AHEAD * count),
            ctypes.c_int64(int(seconds * 1e9)),
            ctypes.byref(progress),
        )
        return _finish(receiver, progress)

    def pace(
        self, publisher: Publisher, message: bytes, subscriber: Subscriber, size: int, rate: int, count: int
    ) -> list[int]:
        """Publish `count` frames at a steady rate; the nanoseconds that each took."""
        sent_at, arrived_at = (ctypes.c_int64 * count)(), (ctypes.c_int64 * count)()
        progress = _Progress()
        receiver = self._receive([subscriber], size, progress, arrived_at)
        self._loops.pace(
            publisher.socket.fileno(),
            message,
            ctypes.c_int64(len(message)),
            ctypes.c_int64(count),
            ctypes.c_int64(1_000_000_000 // rate),
            sent_at,
            ctypes.byref(progress),
        )
        outcome = _finish(receiver, progress)
        if outcome.delivered < count:
            raise LinkError(f"{count - outcome.delivered} of {count} messages did not arrive")
        return [arrived - sent for sent, arrived in zip(sent_at, arrived_at, strict=True)]

    def _receive(
        self,
        subscribers: Sequence[Subscriber],
        size: int,
        progress: _Progress,
        arrived_at: "ctypes.Array[ctypes.c_int64] | None" = None,
    ) -> threading.Thread:
        links = (_Subscriber * len(subscribers))(
            *(_Subscriber(each.socket.fileno(), 0, each.received, each.window, 0, each.counts) for each in subscribers)
        )
        capacity = ctypes.c_int64(len(arrived_at) if arrived_at else 0)
        thread = threading.Thread(
            target=lambda: self._loops.receive(
                links,
                len(links),
                ctypes.c_int64(size),
                ctypes.c_int64(PATIENCE),
                arrived_at,
                capacity,
                ctypes.byref(progress),
            ),
            daemon=True,
        )
        thread.start()
        return thread


def _finish(receiver: threading.Thread, progress: _Progress) -> Outcome:
    receiver.join()
    if progress.closed == BROKEN:
        raise LinkError(f"the broker closed a link after {progress.sent} units")
    return Outcome(progress.sent, progress.delivered, max(progress.ended - progress.began, 1) / 1e9)
