"""Letters: control events of reliable delivery, and events that are sent again, as the body of one event.

    body      control frame … events frame …                     whole frames, one after the other

A schema that the events need is defined by a control frame before them.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from stentor.model.attribute import EMPTY_SCHEMA, Schema, check_schema
from stentor.model.control import AnyControlEvent, ControlEvent
from stentor.model.errors import FrameError, InvalidInput, Refusal
from stentor.model.ids import NO_SCHEMA
from stentor.model.messages import SchemaDefinition
from stentor.model.ranges import RangedDecoder
from stentor.model.stored.reading import AnyReadingEvent
from stentor.wire.block import Block
from stentor.wire.frame import CONTROL, CONTROL_HEADER, EVENTS, VERSION
from stentor.wire.head import HEADER_SIZE, schema_of

SOFT_LETTER = 512 << 10  # bytes of events in a letter, unless one frame has more: others use the link, too
_encoder = msgspec.msgpack.Encoder()
_decoder: RangedDecoder[ControlEvent | SchemaDefinition] = RangedDecoder(
    AnyControlEvent | AnyReadingEvent | SchemaDefinition  # type: ignore[arg-type]
)


class Letter(NamedTuple):
    events: list[ControlEvent]
    blocks: list[Block]


def write(events: Iterable[ControlEvent], blocks: Sequence[Block] = ()) -> bytes:
    """The body of a letter."""
    schemas = {block.schema_id: block.schema for block in blocks}
    schemas.pop(NO_SCHEMA, None)
    parts = [
        frame_of(_encoder.encode(event))
        for event in (*(SchemaDefinition(schema) for schema in schemas.values()), *events)
    ]
    return b"".join((*parts, *(block.frame for block in blocks)))


def split(blocks: Sequence[Block], most: int = SOFT_LETTER) -> Iterator[Sequence[Block]]:
    """Divide events among as many letters as it takes so that none is larger than `most`, or than its only frame."""
    start = size = 0
    for at, block in enumerate(blocks):
        size += len(block.frame)
        if size > most and at > start:
            yield blocks[start:at]
            start, size = at, len(block.frame)
    if blocks:
        yield blocks[start:]


def check_readable(event: ControlEvent) -> None:
    """Raise InvalidInput if whoever reads this event would refuse it; better said to whom it can still be said."""
    _decoder.decode(_encoder.encode(event))


def frame_of(payload: bytes) -> bytes:
    """One control frame of a message that is encoded."""
    return CONTROL_HEADER.pack(len(payload) + CONTROL_HEADER.size, CONTROL, VERSION, 0, zlib.crc32(payload)) + payload


def read(body: bytes) -> Letter:
    """What a letter says; FrameError if it is not one, or was damaged."""
    letter = Letter([], [])
    schemas: dict[int, Schema] = {NO_SCHEMA: EMPTY_SCHEMA}
    position = 0
    while position < len(body):
        length = int.from_bytes(body[position : position + 4], "little")
        if length < CONTROL_HEADER.size or position + length > len(body):
            raise FrameError(Refusal.CORRUPT, "a letter whose frames do not fit into it")
        frame = body[position : position + length]
        position += length
        if frame[4] == EVENTS:
            letter.blocks.append(_block(frame, schemas))
        else:
            message = _message(frame)
            if isinstance(message, SchemaDefinition):
                schemas[message.schema.id] = message.schema
            else:
                letter.events.append(message)
    return letter


def _message(frame: bytes) -> ControlEvent | SchemaDefinition:
    _, kind, version, _, checksum = CONTROL_HEADER.unpack_from(frame)
    payload = frame[CONTROL_HEADER.size :]
    if kind != CONTROL or version != VERSION or zlib.crc32(payload) != checksum:
        raise FrameError(Refusal.CORRUPT, "a letter that was damaged, or is of another version")
    try:
        message = _decoder.decode(payload)
        if isinstance(message, SchemaDefinition):
            check_schema(message.schema)
    except InvalidInput as error:
        raise FrameError(Refusal.PROTOCOL, f"a letter that cannot be read: {error}") from None
    return message


def _block(frame: bytes, schemas: dict[int, Schema]) -> Block:
    schema = schemas.get(schema_of(frame)) if len(frame) >= HEADER_SIZE else None
    if schema is None:
        raise FrameError(Refusal.SCHEMA, "a letter with events of a schema that it does not define")
    block = Block(frame, schema)
    block.verify()
    block.check()
    return block
