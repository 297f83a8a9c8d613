"""A record's audience as bytes: MessagePack of a map, nothing if it is empty."""

from collections.abc import Mapping

import msgspec

_decoder = msgspec.msgpack.Decoder(dict[int, bytes])


def encode_audience(audience: Mapping[int, bytes]) -> bytes:
    return msgspec.msgpack.encode(audience) if audience else b""


def decode_audience(data: bytes) -> dict[int, bytes]:
    return _decoder.decode(data) if data else {}
