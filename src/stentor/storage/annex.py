"""A record's annex as bytes: its audience, and when it was stored. MessagePack of both, nothing if there is neither.

Ledgers that are older than stored times have the audience alone: their records are as old as their events say.
"""

from collections.abc import Mapping

import msgspec

Audience = dict[int, bytes]

_decoder = msgspec.msgpack.Decoder(Audience | tuple[Audience, int])


def encode_annex(audience: Mapping[int, bytes], stored: int) -> bytes:
    if stored:
        return msgspec.msgpack.encode((audience, stored))
    return msgspec.msgpack.encode(audience) if audience else b""


def decode_annex(data: bytes, time: int) -> tuple[Audience, int]:
    """Return the audience of a record and when it was stored; without that, it is the `time` of its events."""
    found = _decoder.decode(data) if data else {}
    return found if isinstance(found, tuple) else (found, time)
