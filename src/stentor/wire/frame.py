"""Frames: the one format of every link (client–broker, broker–broker, repository, Spark). Little-endian.

preamble   "STENTOR" u8 version                                    first bytes of both sides
frame      u32 length | u8 kind | u8 version | …
control    u32 length | u8 2 | u8 version | u16 0 | u32 crc32 | MessagePack of one message
events     u32 length | u8 1 | u8 version | u8 flags | u8 hop | 24 bytes flow | … (see block.py)
parcel     u32 length | u8 3 | u8 version | … | events frames              between brokers (see parcel.py)
"""

import struct
import zlib

import msgspec

from stentor.model.errors import FrameError, InvalidInput, Refusal
from stentor.model.messages import AnyMessage, Message
from stentor.model.ranges import RangedDecoder

LINK_VERSION = 2  # of what two nodes say to each other; both ends have the same
PREAMBLE = b"STENTOR" + bytes([LINK_VERSION])
VERSION = 1  # of the layout of events and control frames: ledgers and lakes hold events
PARCEL_VERSION = 2

EVENTS = 1
CONTROL = 2
PARCEL = 3

CONTROL_HEADER = struct.Struct("<IBBHI")
LENGTH = struct.Struct("<I")
MEASURABLE = 6  # bytes of a frame that tell its length, kind and version
SHORTEST_EVENTS = 64  # the head of an events frame
LARGEST_GREETING = 4096  # a frame before authentication
LARGEST_CONTROL = 1 << 20
SOFT_FRAME = 64 << 10  # a batch is closed when it gets near this
FRAME_OVERHEAD = 256 << 10  # what columns and header may add to the largest body

_encoder = msgspec.msgpack.Encoder()
_decoder: RangedDecoder[AnyMessage] = RangedDecoder(AnyMessage)  # type: ignore[arg-type]

_OTHERS = {
    b"INFO ": "a NATS server",
    b"HTTP/": "a web server",
    b"GET /": "a web browser",
    b"POST ": "a web client",
    b"PRI *": "an HTTP/2 client",
    b"SSH-2": "an SSH peer",
    b"AMQP\0": "an AMQP peer",
    b"-ERR ": "a Redis or NATS server",
    b"\x16\x03": "a TLS peer (use a certificate directory with --tls, or STENTOR_TLS)",
    b"\x15\x03": "a TLS server (use a certificate directory with --tls, or STENTOR_TLS)",
    b"\x10": "an MQTT client",
    b"CONNE": "a NATS client",
    b"*": "a Redis client",
}


def check_preamble(data: bytes) -> None:
    """Refuse a peer that speaks something else, naming it where we can. `data` may be the beginning of one."""
    if data[:7] == PREAMBLE[: min(7, len(data))]:
        if len(data) >= len(PREAMBLE) and data[7] != LINK_VERSION:
            older = "this node is the older one: upgrade it" if data[7] > LINK_VERSION else "upgrade the peer"
            raise FrameError(
                Refusal.VERSION,
                f"the peer speaks version {data[7]} of the Stentor protocol, this node version {LINK_VERSION}: {older}",
            )
        return
    seen = next((name for start, name in _OTHERS.items() if data.startswith(start)), None)
    raise FrameError(
        Refusal.PROTOCOL,
        f"the peer is not a Stentor node: it looks like {seen}"
        if seen
        else f"the peer is not a Stentor node: it began with {bytes(data[:16])!r}",
    )


def encode(message: Message) -> bytes:
    payload = _encoder.encode(message)
    return CONTROL_HEADER.pack(len(payload) + CONTROL_HEADER.size, CONTROL, VERSION, 0, zlib.crc32(payload)) + payload


def decode(frame: bytes) -> AnyMessage:
    """The message of one whole control frame, whose fields are all within their ranges."""
    length, kind, version, _, checksum = CONTROL_HEADER.unpack_from(frame)
    assert kind == CONTROL, "only control frames come here"
    assert length == len(frame), "whole frames only"
    if version != VERSION:
        raise FrameError(Refusal.CORRUPT, f"a control frame of version {version}, which nobody speaks")
    payload = frame[CONTROL_HEADER.size :]
    if zlib.crc32(payload) != checksum:
        raise FrameError(Refusal.CORRUPT, "a control frame was damaged on the way")
    try:
        return _decoder.decode(payload)
    except InvalidInput as error:
        raise FrameError(Refusal.PROTOCOL, f"a control frame that says nothing known: {error}") from None


def measure(data: bytes, position: int, largest: int) -> tuple[int, int]:
    """Kind and length of the frame that begins here; length 0 if too little of it is there to tell."""
    if len(data) - position < MEASURABLE:
        return 0, 0
    (length,) = LENGTH.unpack_from(data, position)
    kind, version = data[position + 4], data[position + 5]
    if kind not in (EVENTS, CONTROL, PARCEL):
        raise FrameError(Refusal.PROTOCOL, f"a frame of unknown kind {kind}: the stream is damaged or not ours")
    if version != (PARCEL_VERSION if kind == PARCEL else VERSION):
        raise FrameError(Refusal.CORRUPT, f"a frame of kind {kind} and of version {version}, which nobody speaks")
    limit = min(largest, LARGEST_CONTROL) if kind == CONTROL else largest
    if length > limit:
        raise FrameError(Refusal.TOO_LARGE, f"a frame of {length} bytes, at most {limit} are taken")
    if length < (CONTROL_HEADER.size if kind == CONTROL else SHORTEST_EVENTS):
        raise FrameError(Refusal.PROTOCOL, f"a frame of {length} bytes is too short to be one")
    return kind, length
