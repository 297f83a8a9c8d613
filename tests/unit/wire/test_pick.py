"""Picks: whichever way events are gathered, out come just the events that were kept, as they were."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stentor.model.attribute import EMPTY_SCHEMA, Kind, Schema, Value
from stentor.model.errors import FrameError
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, SchemaId, TopicId
from stentor.wire import block
from stentor.wire.block import Block, Origin
from stentor.wire.block_view import BlockView, block_views
from stentor.wire.frame import SOFT_FRAME
from stentor.wire.head import HEADER_SIZE, LARGEST_COUNT, LAST_FIRST, SPARSE, TIMES, UNIFORM
from stentor.wire.row_selection import RowSelection
from stentor.wire.run_layout import RunLayout
from stentor.wire.uniform_run import find_uniform_run

PRICES = Schema(("price",), (Kind.DECIMAL,))
NUMBERS = Schema(("yes", "n", "price"), (Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL))
TEXTS = Schema(("n", "who"), (Kind.INTEGER, Kind.STRING))
ALL = [PRICES, NUMBERS, TEXTS, EMPTY_SCHEMA]
SCHEMAS: dict[SchemaId, Schema] = {schema.id: schema for schema in ALL}
VALUES: dict[Kind, list[Value]] = {
    Kind.BOOLEAN: [True, False],
    Kind.INTEGER: [0, -1, 2**63 - 1],
    Kind.DECIMAL: [0.0, 1.5, -1e300],
    Kind.STRING: ["", "a", "été", "x" * 30],
}
Picked = Sequence[tuple[bytes | memoryview, int]]


@dataclass(frozen=True)
class Plan:
    """What a block is like."""

    count: int
    size: int
    even: bool = True  # bodies of one size
    whole: bool = True  # no value is missing
    gap: int = 0  # of catenation numbers, before the block; the block goes back if it is negative
    thin: bool = False  # catenation numbers with gaps
    times: bool = False  # each event has its own
    publisher: int = 2
    incarnation: int = 3
    time: int = 5


def made(plans: list[Plan], schema: Schema, random: Random, number: int = 1000) -> list[bytes]:
    frames = []
    for plan in plans:
        number = max(0, number + plan.gap)
        count = plan.count
        columns: list[list[Value | None]] = [
            [None if not plan.whole and random.random() < 0.4 else random.choice(VALUES[kind]) for _ in range(count)]
            for kind in schema.kinds
        ]
        bodies = [random.randbytes(plan.size if plan.even else random.randrange(plan.size + 1)) for _ in range(count)]
        origin = Origin(
            TopicId(1), PublisherId(plan.publisher), Incarnation(plan.incarnation), CatenationNumber(number), plan.time
        )
        offsets = sorted(random.sample(range(3 * count), count)) if plan.thin else []
        times = [random.randrange(-5, 5) for _ in range(count)] if plan.times else []
        packed = [block._pack_values(kind, column) for kind, column in zip(schema.kinds, columns, strict=True)]
        frames.append(block.assemble(origin, schema, packed, bodies, offsets, times))
        number += 3 * count if plan.thin else count
    return frames


def events(frames: Sequence[bytes | memoryview], schema: Schema) -> list[tuple[object, ...]]:
    """All there is to know of each event."""
    found: list[tuple[object, ...]] = []
    for frame in frames:
        each = Block(frame, schema)
        each.verify()
        if each.catenation <= LAST_FIRST:  # brokers pass on others, too
            each.check()
        numbers = [each.catenation + offset for offset in each.offsets()]
        who = (each.topic, each.publisher, each.incarnation, each.schema_id)
        found += [
            (*who, *event) for event in zip(numbers, each.times(), each.bodies(), map(repr, each.rows()), strict=True)
        ]
    return found


def check(picked: Picked, rows: NDArray[np.intp], frames: list[bytes], schema: Schema) -> None:
    """That a pick has just these rows, in frames of a fair size."""
    every = events(frames, schema)
    assert events([frame for frame, _ in picked], schema) == [every[row] for row in rows.tolist()]
    assert [count for _, count in picked] == [Block(frame, schema).count for frame, _ in picked]
    whole = set(frames)
    for frame, count in picked:
        assert bytes(frame) in whole or count == 1 or len(frame) <= SOFT_FRAME + HEADER_SIZE + 100
        offsets = Block(frame, schema).offsets()
        assert offsets[-1] - offsets[0] < LARGEST_COUNT


def ways(frames: list[bytes], schema: Schema, rows: NDArray[np.intp]) -> list[Picked]:
    """The same pick of the bytes of a run, of blocks, by rows, by a mask, and the general way."""
    data = b"front" + b"".join(frames) + b"back"
    blocks = [Block(frame, schema) for frame in frames]
    keep = np.zeros(sum(each.count for each in blocks), np.bool_)
    keep[rows] = True
    (view,) = block_views(data, 5, len(data) - 4, SCHEMAS)
    again = BlockView(blocks)
    starts = [5 + sum(map(len, frames[:index])) for index in range(len(frames))]
    picks: list[Picked] = [view.pick(rows), view.pick(keep), again.pick(rows), again.pick(keep)]
    if len(rows):
        picks.append(RowSelection(RunLayout(data, np.array(starts)), schema, rows).frames(again.column))
    return picks


def chosen(random: Random, count: int, rate: float) -> NDArray[np.intp]:
    return np.array([row for row in range(count) if random.random() < rate], np.intp)


def kept_whole(frames: list[bytes], rows: NDArray[np.intp], schema: Schema) -> list[bool]:
    """Which blocks have all their events among the rows."""
    ends = np.cumsum([Block(frame, schema).count for frame in frames])
    starts = [0, *ends[:-1].tolist()]
    wanted = set(rows.tolist())
    return [wanted.issuperset(range(start, end)) for start, end in zip(starts, ends.tolist(), strict=True)]


sizes = st.sampled_from([0, 1, 16, 256, 3000])
counts = st.sampled_from([1, 1, 2, 7, 32])
rates = st.sampled_from([0.0, 0.05, 0.3, 0.9, 1.0])
any_plan = st.builds(
    Plan,
    count=counts,
    size=sizes,
    even=st.booleans(),
    whole=st.booleans(),
    gap=st.sampled_from([0, 0, 0, 1, 70_000, -3, -100_000]),
    thin=st.booleans(),
    times=st.booleans(),
    publisher=st.sampled_from([2, 2, 2, 9]),
    incarnation=st.sampled_from([3, 3, 3, 4]),
    time=st.integers(3, 5),
)
mixed = st.lists(any_plan, min_size=1, max_size=8)
alike = st.builds(
    lambda count, size, gaps: [Plan(count, size, gap=gap, time=index) for index, gap in enumerate(gaps)],
    counts,
    sizes,
    st.lists(st.sampled_from([0, 0, 0, 0, 1, 40, 70_000, -500]), min_size=2, max_size=20),
)


@settings(deadline=None, max_examples=150)
@given(st.one_of(mixed, alike), st.sampled_from(ALL), rates, st.integers(0, 2**32))
def test_every_way_to_pick_gives_the_same_events(plans: list[Plan], schema: Schema, rate: float, seed: int) -> None:
    random = Random(seed)
    frames = made(plans, schema, random)
    rows = chosen(random, sum(plan.count for plan in plans), rate)
    for picked in ways(frames, schema, rows):
        check(picked, rows, frames, schema)


@settings(deadline=None, max_examples=100)
@given(st.one_of(mixed, alike), st.sampled_from(ALL), st.integers(0, 2**32))
def test_columns_and_rows_are_those_of_the_blocks(plans: list[Plan], schema: Schema, seed: int) -> None:
    frames = made(plans, schema, Random(seed))
    data = b"".join(frames)
    (view,) = block_views(data, 0, len(data), SCHEMAS)
    rows = [row for frame in frames for row in Block(frame, schema).rows()]
    for name in schema.names:
        column = view.column(name)
        assert column is not None
        assert column.to_list() == [row.get(name) for row in rows]
    assert view.column("nothing") is None
    assert view.rows() == rows
    assert view.count == len(rows)


@settings(deadline=None, max_examples=150)
@given(
    st.one_of(mixed, alike), st.sampled_from(ALL), st.sampled_from([0.05, 0.3, 0.9]), st.integers(0, 2**32), st.data()
)
def test_no_new_checksum_vouches_for_a_damaged_block(
    plans: list[Plan], schema: Schema, rate: float, seed: int, data: st.DataObject
) -> None:
    random = Random(seed)
    frames = made(plans, schema, random)
    rows = chosen(random, sum(plan.count for plan in plans), rate)
    every = events(frames, schema)
    victim = data.draw(st.integers(0, len(frames) - 1))
    # neither length nor flow nor count, which are looked at before
    at = data.draw(st.integers(34, len(frames[victim]) - 1))
    broken = bytearray(frames[victim])
    broken[at] ^= 1 << data.draw(st.integers(0, 7))
    damaged = [*frames[:victim], bytes(broken), *frames[victim + 1 :]]
    first = sum(plan.count for plan in plans[:victim])
    touched = bool(((rows >= first) & (rows < first + plans[victim].count)).any())
    wanted = [every[row] for row in rows.tolist()]
    joined = b"".join(damaged)
    for quick in (True, False):
        try:
            picked = (next(block_views(joined, 0, len(joined), SCHEMAS)) if quick else of_blocks(damaged, schema)).pick(
                rows
            )
        except FrameError:
            assert touched or at in range(56, Block(frames[victim], schema).bounds()[0])  # columns of all are looked at
            continue
        if not touched:
            assert events([frame for frame, _ in picked], schema) == wanted
            continue
        assert kept_whole(frames, rows, schema)[victim]
        assert [frame for frame, _ in picked].count(bytes(broken)) == 1


def of_blocks(frames: list[bytes], schema: Schema) -> BlockView:
    return BlockView([Block(frame, schema) for frame in frames])


def run(count: int, size: int, blocks: int, schema: Schema = PRICES, number: int = 1000) -> list[bytes]:
    return made([Plan(count, size, time=index) for index in range(blocks)], schema, Random(1), number)


@pytest.mark.parametrize("schema", [PRICES, NUMBERS, EMPTY_SCHEMA])
@pytest.mark.parametrize("count", [1, 32, 100])
@pytest.mark.parametrize("size", [0, 16, 256])
def test_a_publisher_that_fills_its_batches_sends_uniform_runs(schema: Schema, count: int, size: int) -> None:
    frames = run(count, size, 10, schema)
    data = b"".join(frames)
    stretch = find_uniform_run(data, 0, len(data), schema)
    assert stretch is not None
    assert stretch.count == 10 * count
    rows = np.arange(0, 10 * count, 7)
    picked = stretch.pick(rows, BlockView.over(stretch, schema).column)
    assert picked is not None
    check(picked, rows, frames, schema)


@pytest.mark.parametrize(
    "other",
    [
        Plan(32, 17),
        Plan(31, 16),
        Plan(32, 16, even=False),
        Plan(32, 16, whole=False),
        Plan(32, 16, thin=True),
        Plan(32, 16, times=True),
        Plan(32, 16, publisher=9),
        Plan(32, 16, incarnation=4),
    ],
)
@pytest.mark.parametrize("position", [0, 2, 3])
def test_a_block_that_is_laid_out_differently_makes_no_uniform_run(other: Plan, position: int) -> None:
    plans = [Plan(32, 16)] * 3
    frames = made([*plans[:position], other, *plans[position:]], PRICES, Random(1))
    data = b"".join(frames)
    assert find_uniform_run(data, 0, len(data), PRICES) is None
    rows = np.arange(0, sum(Block(frame, PRICES).count for frame in frames), 5)
    for picked in ways(frames, PRICES, rows):
        check(picked, rows, frames, PRICES)


def test_blocks_with_strings_make_no_uniform_run() -> None:
    frames = made([Plan(3, 16)] * 3, Schema(("who",), (Kind.STRING,)), Random(1))
    data = b"".join(frames)
    assert find_uniform_run(data, 0, len(data), Schema(("who",), (Kind.STRING,))) is None


def test_contiguous_blocks_of_a_uniform_run_become_one_frame() -> None:
    frames = run(32, 16, 8)
    data = b"".join(frames)
    (view,) = block_views(data, 0, len(data), SCHEMAS)
    rows = np.arange(3, 256, 10)
    ((frame, count),) = view.pick(rows)
    assert count == len(rows)
    assert Block(frame, PRICES).flags == SPARSE | TIMES | UNIFORM
    check([(frame, count)], rows, frames, PRICES)


def test_numbers_without_gaps_and_one_time_take_no_room() -> None:
    frames = made([Plan(4, 16), Plan(4, 16), Plan(4, 16)], PRICES, Random(1))
    for picked in ways(frames, PRICES, np.array([0, 1, 2, 3, 4, 5])):
        assert [Block(frame, PRICES).flags for frame, _ in picked] == [UNIFORM]


def test_a_block_that_alone_is_kept_whole_stays_as_it_is() -> None:
    frames = run(32, 16, 4)
    for picked in ways(frames, PRICES, np.arange(32, 64)):
        assert [frame for frame, _ in picked] == [frames[1]]


def test_what_is_kept_of_large_blocks_stays_near_the_soft_limit() -> None:
    for frames in (run(600, 256, 3), made([Plan(600, 400, even=False)] * 3, PRICES, Random(1))):
        for rows in (np.arange(0, 1800, 2), np.arange(1, 1800), np.arange(0, 1800, 100)):
            for picked in ways(frames, PRICES, rows):
                check(picked, rows, frames, PRICES)


def test_numbers_at_the_end_of_their_range_do_not_wrap() -> None:
    for number in (2**64 - 6, 2**64 - 4, 2**63 - 6):
        frames = [run(2, 16, 1, number=(number + 2 * index) % 2**64)[0] for index in range(4)]
        rows = np.array([0, 3, 5, 6])
        for picked in ways(frames, PRICES, rows):
            check(picked, rows, frames, PRICES)


def test_frames_of_empty_events_make_block_views_of_a_bounded_size() -> None:
    frame = block.encode(
        Origin(TopicId(1), PublisherId(2), Incarnation(3), CatenationNumber(1), 0), EMPTY_SCHEMA, (), [b""] * 60_000
    )
    data = frame * 10
    found = list(block_views(data, 0, len(data), SCHEMAS))
    assert sum(view.count for view in found) == 600_000
    assert max(view.count for view in found) < 300_000


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from([run(2, 16, 4), run(1, 0, 5), run(3, 5, 3, NUMBERS)]),
    st.lists(st.tuples(st.integers(0, 3), st.integers(4, 300), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
def test_a_hostile_run_with_right_checksums_is_survived(
    frames: list[bytes], changes: list[tuple[int, int, int]], seed: int
) -> None:
    broken = [bytearray(frame) for frame in frames]
    for index, at, value in changes:
        victim = broken[index % len(broken)]
        place = 4 + at % (len(victim) - 4)
        victim[place] = value
    for each in broken:
        each[60:64] = block.checksum(bytes(each[:HEADER_SIZE]), bytes(each[HEADER_SIZE:])).to_bytes(4, "little")
    data = b"".join(broken)
    assume(all(struct.unpack_from("<H", each, 32)[0] for each in broken))  # which a run never has
    schemas = {**SCHEMAS, **{SchemaId(struct.unpack_from("<Q", each, 24)[0]): NUMBERS for each in broken}}
    try:
        for view in block_views(data, 0, len(data), schemas):
            for name in (*view.schema.names, "none"):
                view.column(name)
            for rate in (0.2, 0.6):
                for frame, _ in view.pick(chosen(Random(seed), view.count, rate)):
                    Block(frame, view.schema).verify()
    except FrameError:
        pass


def test_several_picks_of_one_block_view_do_not_disturb_each_other() -> None:
    frames = run(32, 16, 6)
    data = b"".join(frames)
    (view,) = block_views(data, 0, len(data), SCHEMAS)
    for step in (7, 3, 50, 2, 7):
        rows = np.arange(step // 2, 192, step)
        check(view.pick(rows), rows, frames, PRICES)
