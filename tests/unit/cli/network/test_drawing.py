"""The map as a picture: everything is on it, nothing on top of anything else."""

from itertools import combinations
from xml.etree import ElementTree

import pytest
from tests.unit.cli.network.networks import campus_of_22, clusters, paper_network

from stentor.admin.survey import Survey, concerns, lay_together
from stentor.cli.network.drawing import draw, short
from stentor.cli.network.layout import Rect, label_of, lay_out, on_broker, title_of

_SVG = "{http://www.w3.org/2000/svg}"


def titles(picture: str) -> str:
    return "\n".join(element.text or "" for element in ElementTree.fromstring(picture).iter(f"{_SVG}title"))


def written(picture: str) -> str:
    return "\n".join(element.text or "" for element in ElementTree.fromstring(picture).iter(f"{_SVG}text"))


@pytest.fixture(scope="module")
def large() -> Survey:
    return paper_network(*campus_of_22())


def test_one_broker_is_a_map() -> None:
    picture = draw(paper_network(["local"], []))
    assert "1 broker, 0 links" in written(picture)
    assert "local at 127.0.0.1:7420: up" in titles(picture)


def test_every_broker_unit_and_link_of_a_large_network_is_drawn(large: Survey) -> None:
    picture = draw(large)
    named = titles(picture)
    assert len(large.brokers) == 22
    for name in large.brokers:
        assert f"{name} at 127.0.0.1:" in named
    for unit in large.units():
        assert unit.name in named
    for link in large.links:
        assert f"{link.one} – {link.other}: up, level {link.level}, cost {link.cost:g}" in named
    assert draw(large) == picture, "the same network, the same picture"


def test_nothing_is_drawn_on_top_of_anything_else(large: Survey) -> None:
    layout = lay_out(large)
    things: list[Rect] = [title_of(box, name.rpartition("/")[2]) for name, box in layout.boxes.items()]
    things += [wire.tag for wire in layout.wires.values()]
    things += map(label_of, layout.brokers.values())
    assert [thing for thing in things for centre in layout.brokers.values() if on_broker(thing, centre)] == []
    assert [pair for pair in combinations(things, 2) if pair[0].overlaps(pair[1])] == []
    for one, other in combinations(layout.boxes, 2):
        nested = other.startswith(one + "/") or one.startswith(other + "/")
        assert layout.boxes[one].overlaps(layout.boxes[other]) == nested, (one, other)
    for thing in things:
        assert 0 <= thing.x <= layout.width - thing.width
        assert 0 <= thing.y <= layout.height - thing.height


def test_brokers_stand_in_their_units(large: Survey) -> None:
    layout = lay_out(large)
    for name, centre in layout.brokers.items():
        box = layout.boxes[name.rpartition("/")[0]]
        assert box.x < centre.x < box.x + box.width
        assert box.y < centre.y < box.y + box.height


def test_a_partition_is_said_in_words() -> None:
    names, links = clusters("", 2, 2)
    parted = paper_network(names, [link for link in links if link[0][:2] == link[1][:2]])
    assert parted.network.parts == (("c0",), ("c1",))
    told = concerns(parted)
    assert "the network is in 2 parts that do not reach each other: c0 | c1" in told
    assert "c1 answers us, but cannot be reached by c0/b0 and c0/b1" in told
    assert "the network is in 2 parts" in written(draw(parted))


def test_a_unit_in_parts_is_not_the_networks_concern() -> None:
    names, links = clusters("", 2, 3)
    cut = [link for link in links if not link[0].startswith("c0/") or not link[1].startswith("c0/")]
    cut += [("c0/b0", "c1/b0"), ("c0/b1", "c1/b1")]
    found = paper_network(names, cut)
    assert len(found.network.parts) == 1
    assert found.network.units[0].parts == (("c0/b0",), ("c0/b1",))
    assert "c0 – in 2 parts" in written(draw(found))


def test_silent_brokers_keep_their_place_and_their_links() -> None:
    names, links = clusters("", 3, 2)
    found = paper_network(names, links, silent=["c0/b1"], suspected=[("c0/b2", "c0/b0")])
    assert found.brokers["c0/b1"].state == "unreachable"
    assert {link.state for link in found.links if "c0/b1" in (link.one, link.other)} == {"down"}
    assert [link.state for link in found.links if (link.one, link.other) == ("c0/b0", "c0/b2")] == ["suspected"]
    picture = draw(found)
    assert "5 brokers, 1 of them silent" in written(picture)
    assert "unreachable" in written(picture)
    assert any("c0/b1 is unreachable: no broker at" in line for line in concerns(found))


def test_a_silent_broker_with_links_is_only_suspected() -> None:
    names, links = clusters("", 3)
    found = paper_network(names, links, silent=["c0/b1"], suspected=[("c0/b0", "c0/b1")])
    assert found.brokers["c0/b1"].state == "suspected"


def test_a_whole_unit_is_silent() -> None:
    names, links = clusters("", 2, 2)
    found = paper_network(names, links, silent=["c1/b0", "c1/b1"])
    unit = next(unit for unit in found.units() if unit.name == "c1")
    assert not unit.seen
    assert "nobody answers in c1" in concerns(found)
    assert "c1 – silent" in written(draw(found))


def test_nobody_answers_at_all() -> None:
    nothing = lay_together("", {}, {})
    assert concerns(nothing) == ["nobody answers in the network"]
    assert "0 brokers, 0 links" in written(draw(nothing))


def test_large_numbers_are_short() -> None:
    assert [short(each) for each in (0, 9_999, 12_345, 1_234_567, 12_345_678, 3_200_000_000)] == [
        "0",
        "9,999",
        "12 k",
        "1.2 M",
        "12 M",
        "3.2 G",
    ]


def test_strange_names_do_not_break_the_picture() -> None:
    found = paper_network(["a.b-c_d/a-very-long-broker-name", "a.b-c_d/b"], [])
    picture = draw(found)
    assert "a.b-c_d/a-very-long-broker-name" in titles(picture)
    assert "a-ve…name" in written(picture)
