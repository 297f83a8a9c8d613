"""What happened, as a digest that is the same wherever a seed is replayed, and for people as lines of text.

A digest proves that a change of the code changed no behaviour. So it holds tags and values, and no name that only the
code knows: classes, modules, fields and timers can be renamed, and every digest stays.
"""

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from stentor.machine import SECOND, Effect, Input, Opened, Received, Report, Send
from stentor.model.errors import FrameError
from stentor.model.stored.position import Position
from stentor.wire import frame
from stentor.wire.block import Block

_LONGEST = 160
_BULKY = {frame.EVENTS: "events", frame.PARCEL: "parcel"}


class ReplayTrace:
    """Digests every step; keeps a line for each if asked to."""

    __slots__ = ("_digest", "_encoder", "_keep", "lines", "steps")

    def __init__(self, keep: bool = False) -> None:
        self._digest = blake2b(digest_size=16)
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_canonical)
        self._keep = keep
        self.lines: list[str] = []
        self.steps = 0

    def step(self, time: int, node: str, happened: Input, effects: Sequence[Effect]) -> None:
        self.steps += 1
        self._add((time, node, _readable(happened), [_placeless(effect) for effect in effects]))
        if self._keep:
            self._write(time, node, _describe(happened))
            self.lines += [f"{'':28}-> {_describe(each)}" for each in effects]

    def note(self, time: int, node: str, what: str, detail: str = "") -> None:
        """Something that happens to a node rather than inside it; people read the detail, which no digest holds."""
        self._add((time, node, what))
        if self._keep:
            self._write(time, node, f"{what} {detail}" if detail else what)

    def digest(self) -> str:
        return self._digest.hexdigest()

    def _add(self, entry: object) -> None:
        self._digest.update(self._encoder.encode(entry))

    def _write(self, time: int, node: str, what: str) -> None:
        self.lines.append(f"{time / SECOND:14.9f} {node:12} {what}")


def _readable(happened: Input) -> Input:
    """Return an input without the records of a ledger, which are read once, by the machine."""
    if not isinstance(happened, Opened):
        return happened
    return msgspec.structs.replace(happened, holdings=msgspec.structs.replace(happened.holdings, lines=(), rows=()))


def _placeless(effect: Effect) -> Effect:
    """Return an effect without the trace of an exception, which names files of the code and where they lie."""
    if not isinstance(effect, Report) or "trace" not in effect.details:
        return effect
    details = {name: value for name, value in effect.details.items() if name != "trace"}
    return msgspec.structs.replace(effect, details=details)


def _canonical(value: object) -> object:
    if isinstance(value, Block):
        return bytes(value.frame)
    if isinstance(value, Position):
        return value.held
    raise TypeError(f"{type(value).__name__} crosses a machine's border: only plain data may")


def _describe(item: Input | Effect) -> str:
    if isinstance(item, Received):
        return f"Received({item.link}: {describe_bytes(item.data)})"
    if isinstance(item, Send):
        return f"Send({item.link}: {describe_bytes(b''.join(item.data))})"
    text = repr(item)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def describe_bytes(data: bytes) -> str:
    """The frames in a chunk, as far as it holds whole ones from its beginning."""
    parts: list[str] = []
    position = 0
    if data.startswith(frame.PREAMBLE):
        parts.append("preamble")
        position = len(frame.PREAMBLE)
    while position < len(data):
        try:
            kind, length = frame.measure(data, position, 1 << 30)
            if not length or position + length > len(data):
                break
            whole = data[position : position + length]
            parts.append(f"{_BULKY[kind]}[{length}]" if kind in _BULKY else str(frame.decode(whole)))
        except FrameError:
            break
        position += length
    if position < len(data):
        parts.append(f"{len(data) - position} bytes {data[position : position + 12].hex()}…")
    return ", ".join(parts)
