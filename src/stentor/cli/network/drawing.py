"""The map of a network as an SVG picture: dark on white, everything explained on the picture itself."""

from textwrap import wrap
from xml.etree import ElementTree as Tree

from stentor.admin.survey import SUSPECTED, UP, BrokerSeen, LinkSeen, Survey, UnitSeen, concerns
from stentor.cli.network.layout import (
    RADIUS,
    MapLayout,
    Point,
    Rect,
    Wire,
    label_of,
    lay_out,
    tag_text,
    title_of,
)
from stentor.model.wording.count import counted, noun

_FONT = "Inter, 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif"
_INK, _SOFT, _ALARM = "#0f172a", "#64748b", "#b91c1c"
_MARGIN, _LEAST_WIDTH = 28.0, 620.0
_THINNEST, _THICKEST = 1.4, 6.0
_FILLS = ("#ffffff", "#f1f5f9", "#f8fafc", "#f1f5f9")  # of boxes, by level; a cluster stands out
# line, fill and dashes of each state: nobody has to tell colours apart
_BROKERS = {
    UP: ("#0369a1", "#e0f2fe", ""),
    SUSPECTED: ("#b45309", "#fef3c7", "5 3"),
    "unreachable": (_ALARM, "#fee2e2", "2 3"),
}
_LINKS = {UP: ("#334155", ""), SUSPECTED: ("#d97706", "8 4"), "down": ("#dc2626", "2 5")}


def draw(survey: Survey) -> str:
    """The whole picture."""
    layout = lay_out(survey)
    legend, legend_width, legend_height = _legend()
    width = max(layout.width, legend_width, _LEAST_WIDTH) + 2 * _MARGIN
    head = _headlines(survey, width - 2 * _MARGIN)
    top = _MARGIN + 36 + 17 * len(head)
    height = top + layout.height + 24 + legend_height + _MARGIN
    root = Tree.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
    )
    root.set("font-family", _FONT)
    root.set("role", "img")
    _title(root, f"The network as {survey.origin} and those around it see it")
    _shape(root, "rect", width="100%", height="100%", fill="white")
    _text(root, _MARGIN, _MARGIN + 12, _summary(survey), size=17, weight="600")
    for number, (line, colour) in enumerate(head):
        _text(root, _MARGIN, _MARGIN + 34 + 17 * number, line, size=12, fill=colour)
    _draw_map(_group(root, (width - layout.width) / 2, top), survey, layout)
    legend.set("transform", f"translate({_MARGIN:.1f} {height - _MARGIN - legend_height:.1f})")
    root.append(legend)
    Tree.indent(root, " ")
    return Tree.tostring(root, encoding="unicode") + "\n"


def _summary(survey: Survey) -> str:
    answered, known = len(survey.views()), len(survey.brokers)
    missing = f", {known - answered} of them silent" if known > answered else ""
    return f"{counted(known, 'broker')}{missing}, {counted(len(survey.links), 'link')}"


def _headlines(survey: Survey, width: float) -> list[tuple[str, str]]:
    lines = [(f"as told by all that answer, from {survey.origin} on", _SOFT)] if survey.origin else []
    for concern in concerns(survey):
        lines += [(line, _ALARM) for line in wrap("! " + concern, int(width / 6.4), subsequent_indent="   ")]
    return lines


# ---- the map itself


def _draw_map(into: Tree.Element, survey: Survey, layout: MapLayout) -> None:
    units = {unit.name: unit for unit in survey.units()}
    for name, box in layout.boxes.items():
        _draw_unit(into, units[name], box)
    busiest = max((link.onward + link.backward for link in survey.links), default=0)
    links = [(link, layout.wires[link.one, link.other]) for link in survey.links if link.other]
    for link, wire in links:
        _draw_link(into, link, wire, busiest)
    for name, centre in layout.brokers.items():
        _draw_broker(into, survey.brokers[name], centre, first=name == survey.origin)
    for link, wire in links:
        _draw_tag(into, link, wire.tag)


def _draw_unit(into: Tree.Element, unit: UnitSeen, box: Rect) -> None:
    parted, colour = len(unit.parts) > 1, "#cbd5e1"
    if parted or not unit.seen:
        colour = _ALARM
    group = _group(into)
    _title(group, unit.name)
    rect = _shape(
        group,
        "rect",
        x=box.x,
        y=box.y,
        width=box.width,
        height=box.height,
        rx=14 if unit.level > 1 else 10,
        fill=_FILLS[min(unit.level, len(_FILLS) - 1)],
        stroke=colour,
    )
    rect.set("stroke-width", "1.5")
    if colour == _ALARM:
        rect.set("stroke-dasharray", "6 4")
    remark = f" – in {len(unit.parts)} parts" if parted else "" if unit.seen else " – silent"
    place = title_of(box, unit.name)
    name = unit.name.rpartition("/")[2]
    fill = _ALARM if remark else _INK if unit.level > 1 else "#334155"
    _text(group, place.x + 4, place.y + 14, name + remark, size=14 if unit.level > 1 else 12.5, weight="600", fill=fill)


def _draw_link(into: Tree.Element, link: LinkSeen, wire: Wire, busiest: int) -> None:
    colour, dashes = _LINKS[link.state]
    (x1, y1), (x2, y2), (x3, y3) = wire.start, wire.bend, wire.end
    path = _shape(
        into, "path", d=f"M{x1:.1f} {y1:.1f} Q{x2:.1f} {y2:.1f} {x3:.1f} {y3:.1f}", fill="none", stroke=colour
    )
    path.set("stroke-width", f"{_thickness(link.onward + link.backward, busiest):.1f}")
    path.set("stroke-linecap", "round" if link.state == "down" else "butt")
    if dashes:
        path.set("stroke-dasharray", dashes)
    trip = f", round trip {1000 * link.round_trip:.1f} ms" if link.round_trip else ""
    _title(
        path,
        f"{link.one} – {link.other}: {link.state}, level {link.level}, cost {link.cost:g}{trip}; "
        f"{link.onward:,} events onward, {link.backward:,} back",
    )


def _thickness(events: int, busiest: int) -> float:
    """Not in proportion: a hundredth of the traffic is still seen."""
    return _THINNEST + (_THICKEST - _THINNEST) * (events / busiest) ** 0.4 if events else _THINNEST


def _draw_tag(into: Tree.Element, link: LinkSeen, tag: Rect) -> None:
    colour, _ = _LINKS[link.state]
    group = _group(into)
    rect = _shape(
        group, "rect", x=tag.x, y=tag.y, width=tag.width, height=tag.height, rx=7, fill="white", stroke=colour
    )
    rect.set("stroke-width", "0.8")
    _text(group, tag.x + tag.width / 2, tag.y + 11, tag_text(link), size=9.5, fill=colour, anchor="middle")


def _draw_broker(into: Tree.Element, broker: BrokerSeen, centre: Point, *, first: bool) -> None:
    line, fill, dashes = _BROKERS[broker.state]
    group = _group(into)
    _title(group, f"{broker.name} at {broker.address or '?'}: {broker.state}{broker.trouble and ', ' + broker.trouble}")
    circle = _shape(group, "circle", cx=centre.x, cy=centre.y, r=RADIUS, fill=fill, stroke=line)
    circle.set("stroke-width", "2")
    if dashes:
        circle.set("stroke-dasharray", dashes)
    if first:
        _shape(group, "circle", cx=centre.x, cy=centre.y, r=RADIUS + 4, fill="none", stroke=line)
    name = broker.name.rpartition("/")[2]
    name = name if len(name) <= 9 else name[:4] + "…" + name[-4:]
    size = min(13.0, 1.75 * (RADIUS - 2) / (0.62 * len(name)))
    _text(group, centre.x, centre.y + size * 0.35, name, size=size, weight="600", anchor="middle")
    place = label_of(centre)
    if broker.view is None:
        words = [(broker.state, line)]
    else:
        clients = f"{short(broker.view.clients)} {noun(broker.view.clients, 'client')}"
        words = [(clients, "#334155"), (f"{short(broker.view.relayed)} relayed", _SOFT)]
    for number, (word, colour) in enumerate(words):
        _text(group, centre.x, place.y + 11 + 13 * number, word, size=10.5, fill=colour, anchor="middle", halo=True)


def short(count: int) -> str:
    """A number in at most four letters, and its unit."""
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if count >= size:
            amount = count / (1_000 if letter == "k" else size)
            return f"{amount:.0f} {letter}" if amount >= 10 else f"{amount:.1f} {letter}"
    return f"{count:,}"


# ---- the legend


def _legend() -> tuple[Tree.Element, float, float]:
    """What lines, circles and numbers mean; with its size."""
    legend = Tree.Element("g")
    x = 0.0
    for state, (line, fill, dashes) in _BROKERS.items():
        circle = _shape(legend, "circle", cx=x + 8, cy=8, r=7, fill=fill, stroke=line)
        circle.set("stroke-width", "1.6")
        if dashes:
            circle.set("stroke-dasharray", dashes)
        x = _word(legend, x + 21, 8, {UP: "broker that answers"}.get(state, state))
    for radius in (5, 8):
        _shape(legend, "circle", cx=x + 8, cy=8, r=radius, fill="none", stroke="#0369a1")
    widest = _word(legend, x + 21, 8, "the one asked first")
    x = 0.0
    for state, (colour, dashes) in _LINKS.items():
        line_ = _shape(legend, "line", x1=x, y1=34, x2=x + 30, y2=34, stroke=colour)
        line_.set("stroke-width", "2.2")
        if dashes:
            line_.set("stroke-dasharray", dashes)
        x = _word(legend, x + 37, 34, {UP: "link"}.get(state, state))
    _shape(legend, "path", d=f"M{x:.1f} 33.5 L{x + 30:.1f} 30.5 V37.5 L{x:.1f} 34.5 Z", fill="#334155")
    x = _word(legend, x + 37, 34, "more events")
    rect = _shape(legend, "rect", x=x, y=26.5, width=42, height=15, rx=7, fill="white", stroke="#334155")
    rect.set("stroke-width", "0.8")
    _text(legend, x + 21, 37.5, "L1 · 2", size=9.5, fill="#334155", anchor="middle")
    return legend, max(widest, _word(legend, x + 49, 34, "a link of level 1 that costs 2")), 44.0


def _word(into: Tree.Element, x: float, y: float, text: str) -> float:
    """Some text of the legend; where the next thing may begin."""
    _text(into, x, y + 4, text, size=11, fill=_SOFT)
    return x + 6.3 * len(text) + 22


# ---- elements


def _group(into: Tree.Element, x: float = 0.0, y: float = 0.0) -> Tree.Element:
    group = Tree.SubElement(into, "g")
    if x or y:
        group.set("transform", f"translate({x:.1f} {y:.1f})")
    return group


def _shape(into: Tree.Element, kind: str, **attributes: float | str) -> Tree.Element:
    shown = {
        name: value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
        for name, value in attributes.items()
    }
    return Tree.SubElement(into, kind, shown)


def _title(into: Tree.Element, text: str) -> None:
    """What a browser shows when the mouse is over it."""
    title = Tree.Element("title")
    title.text = text
    into.insert(0, title)


def _text(
    into: Tree.Element,
    x: float,
    y: float,
    text: str,
    *,
    size: float,
    fill: str = _INK,
    weight: str = "400",
    anchor: str = "start",
    halo: bool = False,
) -> None:
    element = _shape(into, "text", x=x, y=y, fill=fill)
    element.set("font-size", f"{size:g}")
    if weight != "400":
        element.set("font-weight", weight)
    if anchor != "start":
        element.set("text-anchor", anchor)
    if halo:  # so that a line behind it does not make it hard to read
        element.set("stroke", "white")
        element.set("stroke-width", "3")
        element.set("stroke-linejoin", "round")
        element.set("paint-order", "stroke")
    element.text = text
