"""Where things go on a map: units as nested boxes, brokers in them, links between, labels where there is room.

Members of a unit stand in rows, or in a ring. Which of these and in what order is found by trying: a change stays if it
makes links shorter, or cross less, or no longer run over a broker.
"""

import math
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stentor.admin.survey import LinkSeen, Survey, UnitSeen

RADIUS = 25.0  # of a broker
SLOT_WIDTH, SLOT_HEIGHT = 108.0, 94.0  # of a broker with its label
LABEL_WIDTH, LABEL_HEIGHT = 88.0, 29.0
TITLE_HEIGHT, PADDING, GAP = 30.0, 16.0, 52.0
TAG_HEIGHT = 15.0
TAG_LETTER = 5.6  # width of a letter of a tag
_LARGEST_RING = 9
_TRIES = 2000
_FEWEST_TRIES = 200
_EFFORT = 50_000  # tries times brokers
_WARMTH = 150.0
_BENDS = (0, 24, -24, 48, -48, 80, -80, 120, -120)
_ALONG = (0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73, 0.2, 0.8)
_SHAPE = 1.6  # width to height of a pleasant map

Points = NDArray[np.float64]


class Point(NamedTuple):
    x: float
    y: float


class Rect(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: "Rect") -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


class Wire(NamedTuple):
    """A link as it is drawn: from one end to the other, bent towards a point."""

    start: Point
    bend: Point
    end: Point
    tag: Rect

    def at(self, share: float) -> Point:
        one, two, three = (1 - share) ** 2, 2 * share * (1 - share), share**2
        return Point(
            one * self.start.x + two * self.bend.x + three * self.end.x,
            one * self.start.y + two * self.bend.y + three * self.end.y,
        )


class MapLayout(NamedTuple):
    """The places of all that is on a map."""

    width: float
    height: float
    boxes: dict[str, Rect]  # by unit, the outer ones first; the network has none
    brokers: dict[str, Point]  # their centres
    wires: dict[tuple[str, str], Wire]  # by the names of both ends


def circle_of(centre: Point) -> Rect:
    return Rect(centre.x - RADIUS, centre.y - RADIUS, 2 * RADIUS, 2 * RADIUS)


def on_broker(thing: Rect, centre: Point) -> bool:
    """Whether something covers a part of a broker's circle."""
    nearest = Point(
        min(max(centre.x, thing.x), thing.x + thing.width), min(max(centre.y, thing.y), thing.y + thing.height)
    )
    return math.dist(nearest, centre) < RADIUS


def label_of(centre: Point) -> Rect:
    """Where a broker's load is written: below it."""
    return Rect(centre.x - LABEL_WIDTH / 2, centre.y + RADIUS + 3, LABEL_WIDTH, LABEL_HEIGHT)


def title_of(box: Rect, text: str) -> Rect:
    return Rect(box.x + 10, box.y + 6, 7.6 * len(text) + 8, TITLE_HEIGHT - 10)


def tag_text(link: LinkSeen) -> str:
    return f"L{link.level} · {link.cost:g}"


# ---- arranging members


class Arrangement(NamedTuple):
    """How the members of a unit stand: 0 columns is a ring."""

    order: tuple[int, ...]
    columns: int


class _Block(NamedTuple):
    """A unit that was laid out, from its own corner."""

    width: float
    height: float
    boxes: dict[str, Rect]
    brokers: dict[str, Point]


def _members(unit: UnitSeen) -> int:
    return len(unit.units) or len(unit.brokers)


def _shapes(unit: UnitSeen) -> list[int]:
    """Numbers of columns that fill their rows well; a few brokers stand in full rows or a ring."""
    count = max(1, _members(unit))
    widest = max(1, min(count, math.ceil(2.5 * math.sqrt(count))))
    shapes = [columns for columns in range(1, widest + 1) if math.ceil(count / math.ceil(count / columns)) == columns]
    if not unit.brokers or count > _LARGEST_RING:
        return sorted(shapes, key=lambda columns: abs(columns - math.sqrt(count) * 1.2))
    return ([0] if count > 2 else []) + [columns for columns in shapes if not count % columns][::-1]


def _block(unit: UnitSeen, chosen: Mapping[str, Arrangement]) -> _Block:
    inner = [_block(each, chosen) for each in unit.units]
    inner += [_Block(SLOT_WIDTH, SLOT_HEIGHT, {}, {each: _in_slot()}) for each in unit.brokers]
    arrangement = chosen[unit.name]
    inner = [inner[number] for number in arrangement.order]
    places = _rows(inner, arrangement.columns, GAP if unit.units else 14.0) if arrangement.columns else _ring(inner)
    boxes: dict[str, Rect] = {}
    brokers: dict[str, Point] = {}
    inset, top = (PADDING, TITLE_HEIGHT) if unit.name else (0.0, 0.0)
    width = max((place.x + block.width for place, block in zip(places, inner, strict=True)), default=80.0)
    height = max((place.y + block.height for place, block in zip(places, inner, strict=True)), default=40.0)
    width = max(width, 9.0 * len(unit.name.rpartition("/")[2]) + (90 if len(unit.parts) > 1 or not unit.seen else 0))
    if unit.name:
        boxes[unit.name] = Rect(0, 0, width + 2 * inset, height + top + PADDING)
    for place, block in zip(places, inner, strict=True):
        x, y = place.x + inset, place.y + top
        boxes |= {name: rect._replace(x=rect.x + x, y=rect.y + y) for name, rect in block.boxes.items()}
        brokers |= {name: Point(point.x + x, point.y + y) for name, point in block.brokers.items()}
    outer = PADDING if unit.name else 0.0
    return _Block(width + 2 * inset, height + top + outer, boxes, brokers)


def _in_slot() -> Point:
    return Point(SLOT_WIDTH / 2, RADIUS + 8)


def _rows(blocks: list[_Block], columns: int, gap: float) -> list[Point]:
    """Row by row, each block in the middle of its cell."""
    rows = [blocks[start : start + columns] for start in range(0, len(blocks), columns)]
    widths = [
        max(row[column].width for row in rows if column < len(row)) for column in range(min(columns, len(blocks)))
    ]
    places, y = [], 0.0
    for row in rows:
        height, x = max(block.height for block in row), 0.0
        for block, width in zip(row, widths, strict=False):
            places.append(Point(x + (width - block.width) / 2, y + (height - block.height) / 2))
            x += width + gap
        y += height + gap
    return places


def _ring(blocks: list[_Block]) -> list[Point]:
    """Around a circle, the first on top."""
    count = len(blocks)
    radius = max(84.0, 1.05 * SLOT_WIDTH / (2 * math.sin(math.pi / count)))
    angles = [2 * math.pi * number / count - math.pi / 2 for number in range(count)]
    points = [(radius * math.cos(angle), radius * 0.92 * math.sin(angle)) for angle in angles]
    left, top = min(x for x, _ in points), min(y for _, y in points)
    return [Point(x - left, y - top) for x, y in points]


# ---- trying


def lay_out(survey: Survey) -> MapLayout:
    """The best of many tries; the same for the same survey."""
    units = {unit.name: unit for unit in survey.units()}
    chosen = {name: Arrangement(tuple(range(_members(unit))), _shapes(unit)[0]) for name, unit in units.items()}
    judge = _Judge(survey.brokers, [(link.one, link.other) for link in survey.links if link.other])
    cost = least = judge(_block(survey.network, chosen))
    best, chance = chosen, random.Random(7)
    movable = [name for name, unit in units.items() if _members(unit) > 1]
    tries = max(_FEWEST_TRIES, min(_TRIES, _EFFORT // max(1, len(survey.brokers)))) if movable else 0
    for number in range(tries):
        name = chance.choice(movable)
        tried = {**chosen, name: _changed(units[name], chosen[name], chance)}
        price = judge(_block(survey.network, tried))
        warmth = max(1e-9, _WARMTH * (1 - 1.5 * number / tries))  # early on, somewhat worse may lead to better
        if price < cost or chance.random() < math.exp((cost - price) / warmth):
            chosen, cost = tried, price
        if cost < least:
            best, least = chosen, cost
    block = _block(survey.network, best)
    return _framed(block, _wires(survey, block))


def _framed(block: _Block, wires: dict[tuple[str, str], Wire]) -> MapLayout:
    """A bent link may leave the outermost boxes: the frame grows with it."""
    points = [Point(0, 0), Point(block.width, block.height)]
    for wire in wires.values():
        tag = wire.tag
        points += [wire.at(step / 16) for step in range(17)]
        points += [Point(tag.x, tag.y), Point(tag.x + tag.width, tag.y + tag.height)]
    left, top = min(point.x for point in points), min(point.y for point in points)

    def moved(point: Point) -> Point:
        return Point(point.x - left, point.y - top)

    def moved_box(box: Rect) -> Rect:
        return Rect(box.x - left, box.y - top, box.width, box.height)

    return MapLayout(
        width=max(point.x for point in points) - left,
        height=max(point.y for point in points) - top,
        boxes={name: moved_box(box) for name, box in block.boxes.items()},
        brokers={name: moved(centre) for name, centre in block.brokers.items()},
        wires={
            ends: Wire(moved(wire.start), moved(wire.bend), moved(wire.end), moved_box(wire.tag))
            for ends, wire in wires.items()
        },
    )


def _changed(unit: UnitSeen, now: Arrangement, chance: random.Random) -> Arrangement:
    shapes = _shapes(unit)
    if len(shapes) > 1 and chance.random() < 0.25:
        return Arrangement(now.order, chance.choice(shapes))
    order = list(now.order)
    one, other = chance.sample(range(len(order)), 2)
    order[one], order[other] = order[other], order[one]
    return Arrangement(tuple(order), now.columns)


class _Judge:
    """Says how hard a map is to read."""

    def __init__(self, names: Iterable[str], links: list[tuple[str, str]]) -> None:
        self._names = list(names)
        index = {name: number for number, name in enumerate(self._names)}
        self._ends = np.array([(index[one], index[other]) for one, other in links], np.int64).reshape(-1, 2)
        first, second = np.triu_indices(len(links), 1)
        apart = ~(self._ends[first][:, :, None] == self._ends[second][:, None, :]).any(axis=(1, 2))
        self._first, self._second = first[apart], second[apart]  # pairs of links without a common end
        self._each = np.arange(len(links))

    def __call__(self, block: _Block) -> float:
        total = 1.2 * math.sqrt(block.width * block.height) + 300 * abs(math.log(block.width / block.height / _SHAPE))
        if not len(self._ends):
            return total
        centres = np.array([block.brokers[name] for name in self._names])
        starts, stops = centres[self._ends[:, 0]], centres[self._ends[:, 1]]
        over = _run_over(starts, stops, centres - (RADIUS + 6), centres + (RADIUS + 6))
        over[self._each, self._ends[:, 0]] = over[self._each, self._ends[:, 1]] = False
        corner, size = np.array((-30.0, RADIUS + 3)), np.array((60.0, LABEL_HEIGHT))
        labels = _run_over(starts, stops, centres + corner, centres + corner + size)
        total += float(np.hypot(*(stops - starts).T).sum())
        return total + 400.0 * int(over.sum()) + 70.0 * int(labels.sum()) + 160.0 * self._crossings(starts, stops)

    def _crossings(self, starts: Points, stops: Points) -> int:
        a, b, c, d = starts[self._first], stops[self._first], starts[self._second], stops[self._second]
        return int(((_side(a, b, c) * _side(a, b, d) < 0) & (_side(c, d, a) * _side(c, d, b) < 0)).sum())


def _run_over(starts: Points, stops: Points, low: Points, high: Points) -> NDArray[np.bool_]:
    """Which segments touch which rectangles."""
    away = (stops - starts)[:, None, :]
    away = np.where(np.abs(away) < 1e-9, 1e-9, away)
    near, far = (low[None] - starts[:, None]) / away, (high[None] - starts[:, None]) / away
    first, last = np.minimum(near, far).max(axis=2), np.maximum(near, far).min(axis=2)
    touched: NDArray[np.bool_] = (first <= last) & (last > 0) & (first < 1)
    return touched


def _side(one: Points, two: Points, point: Points) -> Points:
    """On which side of the line from one to two a point is."""
    ahead, aside = two - one, point - one
    answer: Points = ahead[:, 0] * aside[:, 1] - ahead[:, 1] * aside[:, 0]
    return answer


# ---- links and their tags


def _wires(survey: Survey, block: _Block) -> dict[tuple[str, str], Wire]:
    """Bend links around what is in their way, and find a place for each tag; short links first, they have no choice."""
    links = [link for link in survey.links if link.other]
    links.sort(key=lambda link: math.dist(block.brokers[link.one], block.brokers[link.other]))
    fixed = [label_of(centre) for centre in block.brokers.values()]
    fixed += [title_of(box, name.rpartition("/")[2]) for name, box in block.boxes.items()]
    circles = {name: circle_of(centre) for name, centre in block.brokers.items()}
    bent: dict[tuple[str, str], Wire] = {}
    for link in links:
        others = [circle for name, circle in circles.items() if name not in (link.one, link.other)]
        ends = block.brokers[link.one], block.brokers[link.other]
        bent[link.one, link.other] = _bent(*ends, others, fixed, list(bent.values()))
    taken, centres = list(fixed), list(block.brokers.values())
    wires: dict[tuple[str, str], Wire] = {}
    for link in links:
        key = link.one, link.other
        rivals = [wire for other, wire in bent.items() if other != key]
        wires[key] = _tagged(bent[key], TAG_LETTER * len(tag_text(link)) + 8, taken, centres, rivals)
        taken.append(wires[key].tag)
    return wires


def _bent(start: Point, end: Point, circles: list[Rect], texts: list[Rect], wires: list[Wire]) -> Wire:
    """The straightest way that runs over no broker, and over as little text and as few links as can be."""
    courses = [wire.at(step / 20) for wire in wires for step in range(2, 19)]
    length = max(1.0, math.dist(start, end))
    across = Point((start.y - end.y) / length, (end.x - start.x) / length)
    middle = Point((start.x + end.x) / 2, (start.y + end.y) / 2)
    best, least = None, math.inf
    for bend in _BENDS:
        towards = Point(middle.x + 2 * bend * across.x, middle.y + 2 * bend * across.y)
        wire = Wire(start, towards, end, Rect(0, 0, 0, 0))
        course = [wire.at(step / 32) for step in range(1, 32)]
        price = abs(bend) / 10 + 100.0 * _touches(course, circles, 5.0) + 7.0 * _touches(course, texts, -2.0)
        inner = [Rect(point.x - 5, point.y - 5, 10, 10) for point in course[4:-4]]
        price += 2.0 * _touches(courses, inner, 0.0)
        if price < least:
            best, least = wire, price
    assert best is not None, "there is always a way"
    return best


def _touches(course: list[Point], things: list[Rect], margin: float) -> int:
    return sum(
        thing.x - margin < point.x < thing.x + thing.width + margin
        and thing.y - margin < point.y < thing.y + thing.height + margin
        for thing in things
        for point in course
    )


def _tagged(wire: Wire, width: float, taken: list[Rect], centres: list[Point], rivals: list[Wire]) -> Wire:
    """Put the tag where nothing else is; on no other link, if that is possible."""
    best, least = wire, math.inf
    courses = [rival.at(step / 30) for rival in rivals for step in range(31)]
    for place, share in enumerate(_places()):
        centre = wire.at(share)
        tag = Rect(centre.x - width / 2, centre.y - TAG_HEIGHT / 2, width, TAG_HEIGHT)
        covered = sum(map(tag.overlaps, taken)) + sum(on_broker(tag, each) for each in centres)
        price = 1000.0 * covered + 5.0 * _touches(courses, [tag], 2.0) + place
        if price < least:
            best, least = wire._replace(tag=tag), price
    return best


def _places() -> Iterator[float]:
    yield from _ALONG
    yield from (0.15 + 0.7 * step / 20 for step in range(21))
