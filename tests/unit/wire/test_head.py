"""The head of an events frame: each accessor agrees with the block that decodes the whole frame."""

import numpy as np
import pytest

from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, TopicId
from stentor.wire import block, head
from stentor.wire.block import Block, Origin

ORIGIN = Origin(TopicId(2**63 + 5), PublisherId(2**64 - 7), Incarnation(2**48 - 1), CatenationNumber(41), -3)
WHOLE = block.encode(ORIGIN, EMPTY_SCHEMA, [], [b"a", b"bb", b"", b"cccc"])
SPARSE = Block(WHOLE, EMPTY_SCHEMA).excerpt(np.array([0, 2]))


@pytest.mark.parametrize("frame", [WHOLE, SPARSE])
@pytest.mark.parametrize("at", [0, 7])
def test_accessors_agree_with_the_decoded_block(frame: bytes, at: int) -> None:
    data, decoded = b"\xff" * at + frame, Block(frame, EMPTY_SCHEMA)
    assert head.length_of(data, at) == len(frame)
    assert head.topic_of(data, at) == decoded.topic
    assert head.schema_of(data, at) == decoded.schema_id
    assert head.count_of(data, at) == decoded.count
    assert head.last_offset_of(data, at) == decoded.last() - decoded.catenation
    assert block.checksum(data[at : at + head.HEADER_SIZE], frame[head.HEADER_SIZE :]) == head.checksum_of(data, at)


def test_a_flow_names_topic_publisher_and_schema() -> None:
    flow = head.flow_of(WHOLE)
    assert flow == WHOLE[head.FLOW]
    assert head.topic_of_flow(flow) == ORIGIN.topic
    assert head.publisher_of_flow(flow) == ORIGIN.publisher
    assert head.schema_of_flow(flow) == EMPTY_SCHEMA.id
    assert head.flags_of_flow(flow) == 0
    assert head.reserved_of_flow(flow) == 0


def test_frames_of_a_run_are_found_one_after_the_other() -> None:
    run = WHOLE + SPARSE + WHOLE
    places = [0, len(WHOLE), len(WHOLE + SPARSE)]
    assert list(head.frames_of(run, 0, len(run))) == [
        (at, len(frame), count) for at, frame, count in zip(places, (WHOLE, SPARSE, WHOLE), (4, 2, 4), strict=True)
    ]


def test_the_last_number_of_a_frame_that_is_cut_off_is_no_error() -> None:
    """A broker does not look into frames: a tracer may ask before anybody has found the frame damaged."""
    damaged = bytearray(SPARSE[: head.HEADER_SIZE])
    damaged[32:34] = b"\xff\xff"
    assert head.last_offset_of(bytes(damaged)) == 0
