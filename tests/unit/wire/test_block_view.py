"""Sheaves: several blocks looked at as one batch say what each of them says."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.model.attribute import EMPTY_SCHEMA, Kind, Schema, Value
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import NO_SCHEMA, CatenationNumber, Incarnation, PublisherId, SchemaId, TopicId
from stentor.wire import block
from stentor.wire.block import Block, Origin
from stentor.wire.block_view import BlockView, block_views

ALL_KINDS = Schema(("yes", "n", "price", "who"), (Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.STRING))
NUMBERS = Schema(("n",), (Kind.INTEGER,))
SCHEMAS: dict[SchemaId, Schema] = {NO_SCHEMA: EMPTY_SCHEMA, ALL_KINDS.id: ALL_KINDS, NUMBERS.id: NUMBERS}


def drawn(random: Random, schema: Schema, count: int, first: int) -> bytes:
    """A block of random events; body and number tell them apart."""
    values: dict[Kind, list[Value]] = {
        Kind.BOOLEAN: [True, False],
        Kind.INTEGER: [0, -1, 2**63 - 1],
        Kind.DECIMAL: [0.0, 1.5],
        Kind.STRING: ["", "a", "été", "x" * 300],
    }
    whole = random.random() < 0.5
    columns: list[list[Value | None]] = [
        [None if not whole and random.random() < 0.3 else random.choice(values[kind]) for _ in range(count)]
        for kind in schema.kinds
    ]
    bodies = [str(first + number).encode() for number in range(count)]
    origin = Origin(TopicId(1), PublisherId(2), Incarnation(3), CatenationNumber(first), 1000 * first)
    return block.encode(origin, schema, columns, bodies)


def bound(random: Random, schema: Schema, sizes: list[int]) -> BlockView:
    firsts = [1 + sum(sizes[:index]) for index in range(len(sizes))]
    return BlockView(
        [Block(drawn(random, schema, size, first), schema) for size, first in zip(sizes, firsts, strict=True)]
    )


sizes = st.lists(st.integers(1, 30), min_size=1, max_size=6) | st.lists(st.just(1), min_size=1, max_size=6)


@settings(deadline=None, max_examples=100)
@given(sizes, st.sampled_from([ALL_KINDS, NUMBERS, EMPTY_SCHEMA]), st.integers(0, 2**32))
def test_columns_and_rows_are_those_of_the_blocks_one_after_the_other(
    counts: list[int], schema: Schema, seed: int
) -> None:
    view = bound(Random(seed), schema, counts)
    rows = [row for each in view.blocks for row in each.rows()]
    assert view.count == sum(counts) == len(rows)
    assert view.rows() == rows
    for name, kind in zip(schema.names, schema.kinds, strict=True):
        column = view.column(name)
        assert column is not None
        assert column.kind is kind
        assert column.to_list() == [row.get(name) for row in rows]
    assert view.column("nothing") is None


@settings(deadline=None, max_examples=100)
@given(sizes, st.sampled_from([ALL_KINDS, EMPTY_SCHEMA]), st.sampled_from([0.0, 0.2, 0.8, 1.0]), st.integers(0, 2**32))
def test_a_pick_holds_just_what_is_kept(counts: list[int], schema: Schema, rate: float, seed: int) -> None:
    view = bound(Random(seed), schema, counts)
    keep = np.random.default_rng(seed).random(view.count) < rate
    events = [
        (row, body, each.time) for each in view.blocks for row, body in zip(each.rows(), each.bodies(), strict=True)
    ]
    wanted = [event for kept, event in zip(keep.tolist(), events, strict=True) if kept]
    found = []
    for frame, count in view.pick(keep):
        picked = Block(frame, schema)
        picked.verify()
        assert picked.count == count
        numbers = [picked.catenation + offset for offset in picked.offsets()]
        assert [str(number).encode() for number in numbers] == picked.bodies()
        found += list(zip(picked.rows(), picked.bodies(), picked.times(), strict=True))
    assert found == wanted


def test_what_is_kept_whole_is_not_touched() -> None:
    view = bound(Random(1), NUMBERS, [3, 2, 4])
    keep = np.array([True] * 3 + [False] * 2 + [True] * 3 + [False])
    picked = list(view.pick(keep))
    assert sum(count for _, count in picked) == 6
    everything = list(view.pick(np.ones(9, np.bool_)))
    assert [frame for frame, _ in everything] == [each.frame for each in view.blocks]
    assert all(frame is each.frame for (frame, _), each in zip(everything, view.blocks, strict=True))


def test_parts_of_neighbouring_blocks_of_one_publisher_become_one() -> None:
    view = bound(Random(1), NUMBERS, [10] * 20)
    keep = np.arange(200) % 10 == 3
    ((frame, count),) = view.pick(keep)
    joined = Block(frame, NUMBERS)
    joined.verify()
    assert count == joined.count == 20
    assert [joined.catenation + offset for offset in joined.offsets()] == list(range(4, 204, 10))
    assert list(joined.times()) == [1000 * (1 + 10 * number) for number in range(20)]
    assert joined.last() == 194


def test_parts_of_different_publishers_stay_apart_and_in_order() -> None:
    random = Random(1)
    blocks = []
    for publisher, first in ((1, 1), (2, 1), (1, 5), (1, 3)):
        origin = Origin(TopicId(1), PublisherId(publisher), Incarnation(3), CatenationNumber(first), 0)
        blocks.append(Block(block.encode(origin, NUMBERS, [[1, 2]], [random.randbytes(3)] * 2), NUMBERS))
    picked = list(BlockView(blocks).pick(np.array([True, False] * 4)))
    assert [(Block(frame, NUMBERS).publisher, Block(frame, NUMBERS).catenation) for frame, _ in picked] == [
        (1, 1),
        (2, 1),
        (1, 5),
        (1, 3),
    ]


def test_frames_are_bound_together_as_long_as_their_schema_stays_the_same() -> None:
    random = Random(1)
    plan = [ALL_KINDS, ALL_KINDS, NUMBERS, EMPTY_SCHEMA, EMPTY_SCHEMA, ALL_KINDS]
    frames = [drawn(random, schema, 2, 1) for schema in plan]
    data = b"front" + b"".join(frames) + b"back"
    found = list(block_views(data, 5, len(data) - 4, SCHEMAS))
    assert [len(view.blocks) for view in found] == [2, 1, 2, 1]
    assert [each.frame for view in found for each in view.blocks] == frames
    assert list(block_views(data, 5, 5, SCHEMAS)) == []


def test_a_schema_that_nobody_defined_is_refused() -> None:
    data = drawn(Random(1), NUMBERS, 1, 1)
    with pytest.raises(FrameError, match="not defined") as caught:
        list(block_views(data, 0, len(data), {}))
    assert caught.value.code is Refusal.SCHEMA
