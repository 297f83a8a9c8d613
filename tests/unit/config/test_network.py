"""Reading a network: what units, links, channels and elasticity mean, and every way in which they can be wrong."""

import msgspec
import pytest

from stentor.cli.running.process import Assignment
from stentor.config import Address, ChannelTable, DialledLink, Elasticity, parse, settings
from stentor.model.errors import ConfigError, InvalidInput
from stentor.model.limits import Limits
from stentor.model.scope import ScopePath


def complaints(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return str(caught.value).splitlines()


def nodes(*names: str) -> str:
    """A file of nodes, two lines each."""
    return "".join(f"[[node]]\nname = '{name}'\n" for name in names)


def links(*pairs: str) -> str:
    """Links, two lines each."""
    return "".join("[[link]]\nbetween = ['{}', '{}']\n".format(*pair.split()) for pair in pairs)


CAMPUS = nodes("campus/library/b1", "campus/library/b2", "campus/hall/b1")
JOINED = CAMPUS + links("campus/library/b1 campus/library/b2", "campus/library/b2 campus/hall/b1")  # ten lines

NETWORK = """
[fabric]
forwarding = "flooding"
costs = [1, 2.5]
[[unit]]
name = "n/lib"
forwarding = "content"
number = 7
connect = "mesh"
[[unit]]
name = "n"
forwarding = "flooding"
connect = "ring"
[[node]]
name = "n/lib/b1"
[[node]]
name = "n/hall/b1"
listen = "127.0.0.1:9000"
[[node]]
name = "n/lib/b2"
number = 0
[[node]]
name = "n/lib/b3"
[[node]]
name = "n/gym/b1"
[[node]]
name = "s/lib/b1"
[[link]]
between = ["n/lib/b3", "n/lib/b1"]
cost = 9
[[link]]
between = ["s/lib/b1", "n/gym/b1"]
[[channel]]
from = "n/lib"
to = "n/hall"
where = ["price < 5.0", "secret = FALSE"]
[[channel]]
from = "n/lib/b1"
to = "s/lib/b1"
where = ["TRUE"]
[elasticity]
clients_per_broker = 9
purge_slow = true
check_every = "500 ms"
path_length = 4
"""


def test_numbers_of_members() -> None:
    config = parse(NETWORK)
    found = {str(node.name): config.numbers(node) for node in config.nodes}
    assert found == {
        "n/lib/b1": (0, 7, 1),
        "n/hall/b1": (0, 1, 0),
        "n/lib/b2": (0, 7, 0),
        "n/lib/b3": (0, 7, 2),
        "n/gym/b1": (0, 2, 0),
        "s/lib/b1": (1, 0, 0),
    }
    assert [str(unit.name) for unit in config.units] == ["", "n", "n/lib", "n/hall", "n/gym", "s", "s/lib"]


def test_links_and_who_dials() -> None:
    config = parse(NETWORK)
    found = {str(node.name): config.dials(node) for node in config.nodes}
    lib2 = DialledLink(name="n/lib/b2", address="127.0.0.1:7422")
    hall, gym = (
        DialledLink(name="n/hall/b1", address="127.0.0.1:9000"),
        DialledLink(name="n/gym/b1", address="127.0.0.1:7424"),
    )
    assert found == {
        "n/lib/b1": (lib2, hall, gym),  # not b3, which dials it by a [[link]]
        "n/hall/b1": (gym,),
        "n/lib/b2": (DialledLink(name="n/lib/b3", address="127.0.0.1:7423"),),
        "n/lib/b3": (DialledLink(name="n/lib/b1", address="127.0.0.1:7420", cost=9.0),),
        "n/gym/b1": (),
        "s/lib/b1": (gym,),
    }
    assert len(config.links) == 7
    assert config.fabric.costs == (1.0, 2.5)


def test_forwarding_is_that_of_the_nearest_scope_that_sets_it() -> None:
    config = parse(NETWORK)
    assert config.forwarding_by_scope() == {"": "flooding", "n/lib": "content", "n": "flooding"}
    expected = {
        "n/lib/b1": "content",
        "n/lib": "content",
        "n/hall/b1": "flooding",
        "n": "flooding",
        "s/lib": "flooding",
    }
    assert {path: config.forwarding(ScopePath.parse(path)) for path in expected} == expected
    assert parse(nodes("b1")).forwarding(ScopePath(("b1",))) == "content"
    whole = parse("[[unit]]\nname = ''\nforwarding = 'flooding'\n" + nodes("b1"))
    assert whole.forwarding_by_scope() == {"": "flooding"}
    assert whole.forwarding(ScopePath(("b1",))) == "flooding"


def test_channels_and_elasticity() -> None:
    config = parse(NETWORK)
    library, hall = ScopePath(("n", "lib")), ScopePath(("n", "hall"))
    assert config.channels[0] == ChannelTable(origin=library, to=hall, where=("price < 5.0", "secret = FALSE"))
    assert str(config.channels[1].origin) == "n/lib/b1"
    assert config.elasticity == Elasticity(clients_per_broker=9, purge_slow=True, check_every=0.5, path_length=4.0)
    assert parse(nodes("b1")).elasticity is None
    assert parse(nodes("b1") + "[elasticity]").elasticity == Elasticity()


def test_a_process_is_told_all_of_it() -> None:
    config = parse(NETWORK)
    told = Assignment(
        name="n/lib/b1",
        listen="127.0.0.1:0",
        http=None,
        storage="x",
        certificates=None,
        limits=Limits(),
        log="info",
        numbers=config.numbers(config.nodes[0]),
        gateways=config.dials(config.nodes[0]),
        costs=config.fabric.costs,
        forwarding=config.forwarding_by_scope(),
        channels=config.channels,
    )
    assert msgspec.json.decode(msgspec.json.encode(told), type=Assignment) == told


def test_one_node_needs_no_link() -> None:
    config = parse(nodes("campus/library/b1"))
    assert (config.links, config.numbers(config.nodes[0])) == ((), (0, 0, 0))
    assert config.dials(config.nodes[0]) == ()


def test_without_a_file_a_node_has_numbers() -> None:
    config = settings.default()
    assert config.numbers(config.nodes[0]) == (0,)


def test_nodes_listen_by_their_place_in_the_file() -> None:
    text = nodes("a", "b", "c") + "listen = '127.0.0.1:9'\n" + nodes("d") + "[[unit]]\nname = ''\nconnect = 'chain'"
    assert [node.listen.port for node in parse(text).nodes] == [7420, 7421, 9, 7423]


def test_more_nodes_than_there_are_ports_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.default_listen(65535 - 7420).port == 65535
    with pytest.raises(InvalidInput, match="more than 65535"):
        settings.default_listen(65536 - 7420)
    monkeypatch.setattr(settings, "LISTEN", Address("127.0.0.1", 65534))
    assert complaints(JOINED) == [
        "stentor.toml:5: node[2].listen: missing; expected host:port, because 65536, its default port, "
        "is more than 65535"
    ]


def test_a_connected_pair_is_not_linked_twice() -> None:
    mesh = "[[unit]]\nname = 'campus/library'\nconnect = 'mesh'\n[[unit]]\nname = 'campus'\nconnect = 'ring'\n"
    assert len(parse(JOINED + mesh).links) == 3
    assert len(parse(CAMPUS + mesh).links) == 2


def test_a_file_of_one_cluster_is_joined_by_its_root() -> None:
    assert len(parse(nodes("a", "b", "c") + "[[unit]]\nname = ''\nconnect = 'mesh'").links) == 3


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "[[unit]]\nname = 'campus/libary'",
            "12: unit[0].name: unknown unit 'campus/libary'; did you mean 'campus/library'?",
        ),
        (
            "[[unit]]\nname = 'campus/hall/b1'",
            "12: unit[0].name: expected a unit, found the broker 'campus/hall/b1'; it is in 'campus/hall'",
        ),
        (
            "[[unit]]\nname = 'campus//b1'",
            "12: unit[0].name: 'campus//b1' is not a scope path: names of letters, "
            "digits, '-', '_' and '.', joined by '/'",
        ),
        (
            "[[unit]]\nnumber = 3",
            '11: unit[0].name: missing; expected a unit such as "campus/library", or "" for the whole network',
        ),
        (
            "[[unit]]\nname = 'campus'\n[[unit]]\nname = 'campus'",
            "14: unit[1].name: expected a unit of its own, found that of unit[0] on line 11: campus",
        ),
        (
            "[[unit]]\nname = ''\n[[unit]]\nname = ''",
            "14: unit[1].name: expected a unit of its own, found that of unit[0] on line 11: the network",
        ),
        (
            "[[unit]]\nname = ''\nnumber = 1",
            "13: unit[0].number: unexpected: the whole network is no member of anything",
        ),
        (
            "[[unit]]\nname = 'campus'\nnumber = 64",
            "13: unit[0].number: expected an integer of at least 0 and at most 63, found 64 (an integer)",
        ),
        (
            "[[unit]]\nname = 'campus'\nconnect = 'star'",
            '13: unit[0].connect: expected mesh or ring or chain, found "star"',
        ),
        (
            "[[unit]]\nname = 'campus'\nconnect = 'mash'",
            "13: unit[0].connect: expected mesh or ring or chain, found \"mash\"; did you mean 'mesh'?",
        ),
        (
            "[[unit]]\nname = 'campus'\nforwarding = 'flood'",
            '13: unit[0].forwarding: expected content or flooding or coloured, found "flood"; '
            "did you mean 'flooding'?",
        ),
        ("[fabric]\nforwarding = ''", '12: fabric.forwarding: expected content or flooding or coloured, found ""'),
        (
            "[fabric]\ncosts = [1, 0]",
            "12: fabric.costs[1]: expected a number of more than 0 and at most 1000000, found 0 (an integer)",
        ),
        ("[fabric]\ncosts = [1, true]", "12: fabric.costs[1]: expected a number, found true (a boolean)"),
        (
            "[fabric]\ncosts = []",
            "12: fabric.costs: expected a list of costs such as [1, 2, 3, 4], found an empty array",
        ),
        (
            "[fabric]\ncosts = 3",
            "12: fabric.costs: expected a list of costs such as [1, 2, 3, 4], found 3 (an integer)",
        ),
        ("[unit]\nname = ''", "11: unit: expected [[unit]], in double brackets, found a table"),
        ("[[channels]]", "11: channels: unknown key; did you mean 'channel'?"),
        (
            links("campus/library/b1 campus/library/b3"),
            "12: link[2].between[1]: unknown broker 'campus/library/b3'; did you mean 'campus/library/b2'?",
        ),
        (
            links("campus/library/b1 campus/hall"),
            "12: link[2].between[1]: expected a broker, found the unit "
            "'campus/hall'; its first broker is 'campus/hall/b1'",
        ),
        (
            links("campus/hall/b1 campus/hall/b1"),
            "12: link[2].between: expected two brokers, found campus/hall/b1 twice: no broker links to itself",
        ),
        (
            links("campus/library/b2 campus/library/b1"),
            "12: link[2].between: expected a pair of its own, found that of "
            "link[0] on line 7: campus/library/b2 and campus/library/b1; one link goes both ways",
        ),
        (
            "[[link]]",
            '11: link[2].between: missing; expected two brokers, such as ["campus/library/b1", "campus/hall/b1"]',
        ),
        (
            "[[link]]\nbetween = ['campus/hall/b1']",
            "12: link[2].between: expected two brokers, such as "
            '["campus/library/b1", "campus/hall/b1"], found an array of 1',
        ),
        (
            "[[link]]\nbetween = 3",
            "12: link[2].between: expected two brokers, such as "
            '["campus/library/b1", "campus/hall/b1"], found 3 (an integer)',
        ),
        (
            links("campus/library/b1 campus/hall/b1") + "cost = -1",
            "13: link[2].cost: expected a number of more than 0 and at most 1000000, found -1 (an integer)",
        ),
        (
            links("campus/library/b1 campus/hall/b1") + "cost = nan",
            "13: link[2].cost: expected a number of more than 0 and at most 1000000, found nan (a decimal)",
        ),
        (
            "[elasticity]\nmost_brokers = 65",
            "12: elasticity.most_brokers: expected an integer of at least 1 and at most 64, found 65 (an integer)",
        ),
        ("[elasticity]\npurge_slow = 1", "12: elasticity.purge_slow: expected true or false, found 1 (an integer)"),
        ("[elasticity]\ncheck_evry = 1", "12: elasticity.check_evry: unknown key; did you mean 'check_every'?"),
        ("elasticity = 3", "11: link[1].elasticity: unknown key; known are between, cost, address"),
    ],
)
def test_a_wrong_network_gets_one_complaint(text: str, complaint: str) -> None:
    assert complaints(JOINED + text) == [f"stentor.toml:{complaint}"]


PASSAGE = "[[channel]]\nfrom = 'campus/hall'\nto = '{}'\n"
OPEN = PASSAGE + "where = ['TRUE']\n"
TO_LIBRARY = PASSAGE.format("campus/library")
FILTERS = 'a list of filters, such as ["price < 5.0", "secret = FALSE"]'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            OPEN.format("campus/libry"),
            ["13: channel[0].to: unknown unit or broker 'campus/libry'; did you mean 'campus/library'?"],
        ),
        (
            OPEN.format("campus/hall/b1"),
            [
                "13: channel[0].to: expected two members of one unit, or two brokers, found "
                "campus/hall and campus/hall/b1"
            ],
        ),
        (
            OPEN.format("campus/hall"),
            ["13: channel[0].to: expected another than from, found campus/hall: what stays inside passes anyway"],
        ),
        (
            TO_LIBRARY + "where = ['a = 1', 'b = ']",
            [
                "14: channel[0].where[1]: the filter ends too early: expected an attribute, a value or (",
                "  b = ",
                "      ^",
            ],
        ),
        (TO_LIBRARY + "where = [5]", ["14: channel[0].where[0]: expected a filter in quotes, found 5 (an integer)"]),
        (TO_LIBRARY + "where = 'a = 1'", [f'14: channel[0].where: expected {FILTERS}, found "a = 1"']),
        (TO_LIBRARY + "where = []", [f"14: channel[0].where: expected {FILTERS}, found an empty array"]),
        (TO_LIBRARY, [f"11: channel[0].where: missing; expected {FILTERS}"]),
        (
            "[[channel]]\nto = 'campus'\nwhere = ['TRUE']",
            ['11: channel[0].from: missing; expected a unit or broker such as "campus/library"'],
        ),
        (
            2 * OPEN.format("campus/library"),
            [
                "15: channel[1]: expected a pair of its own, found that of channel[0] on "
                "line 11: from campus/hall to campus/library; put all filters into one list"
            ],
        ),
    ],
)
def test_wrong_channels_are_refused(text: str, told: list[str]) -> None:
    assert complaints(JOINED + text) == [f"stentor.toml:{told[0]}", *told[1:]]


def test_a_flat_file_has_no_unit_but_the_network() -> None:
    (line,) = complaints(nodes("b1") + "[[unit]]\nname = 'x'")
    assert line == "stentor.toml:4: unit[0].name: unknown unit 'x'; the only one is \"\", the whole network"
    (line,) = complaints(nodes("b1") + "[[unit]]\nname = 'b1'")
    assert line.endswith("expected a unit, found the broker 'b1'; it is in \"\", the whole network")


def test_a_member_number_that_is_used_twice_is_refused() -> None:
    text = nodes("c/b1") + "number = 5\n" + nodes("c/b2") + "number = 5\n" + links("c/b1 c/b2")
    assert complaints(text) == [
        "stentor.toml:6: node[1].number: expected a number of its own in c, found that of node[0] on line 1: 5"
    ]
    text = nodes("c/b1", "d/b1") + links("c/b1 d/b1")
    claims = "[[unit]]\nname = 'd'\nnumber = 0\n[[unit]]\nname = 'c'\nnumber = 0\n"
    (line,) = complaints(text + claims)
    assert line.endswith(
        "unit[1].number: expected a number of its own in the network, found that of unit[0] on line 7: 0"
    )


def test_a_unit_has_at_most_64_members() -> None:
    mesh = "[[unit]]\nname = '{}'\nconnect = 'chain'\n"
    members = [f"b{place}" for place in range(65)]
    assert len(parse(nodes(*members[:64]) + mesh.format("")).nodes) == 64
    assert complaints(nodes(*members) + mesh.format("")) == [
        "stentor.toml:130: node[64].name: the network has 64 members already, and b64 is one more: "
        "put some of them into another unit"
    ]
    (line,) = complaints(nodes(*(f"campus/{member}" for member in members)) + mesh.format("campus"))
    assert "node[64].name: campus has 64 members already" in line


def test_brokers_whose_names_have_different_lengths_are_refused() -> None:
    assert complaints(nodes("b1", "campus/b1", "campus/b2", "a/b/c")) == [
        f"stentor.toml:{line}: node[{index}].name: expected as many names as in campus/b1, found {name}: "
        "all brokers of a fabric have names of the same length"
        for line, index, name in ((2, 0, "b1"), (8, 3, "a/b/c"))
    ]


HALL = nodes("campus/hall/b1", "campus/hall/b2", "campus/hall/b3")
HINT = 'cannot reach each other: add a [[link]] or connect = "mesh"'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HALL, [f"3: node[1]: campus/hall: b1, b2 and b3 {HINT}"]),
        (HALL + "[[unit]]\nname = 'campus/hall'", [f"7: unit[0]: campus/hall: b1, b2 and b3 {HINT}"]),
        (HALL + links("campus/hall/b1 campus/hall/b3"), [f"3: node[1]: campus/hall: (b1, b3) and b2 {HINT}"]),
        (nodes("a/b1", "b/b1"), [f"3: node[1]: the network: a and b {HINT}"]),
        (nodes("a/b1", "a/b2", "b/b1") + links("a/b1 b/b1", "a/b2 b/b1"), [f"3: node[1]: a: b1 and b2 {HINT}"]),
        (
            nodes("a/b1", "a/b2", "b/b1"),
            [f"3: node[1]: a: b1 and b2 {HINT}", f"5: node[2]: the network: a and b {HINT}"],
        ),
        (
            nodes(*(f"b{place}" for place in range(1, 20))),
            [f"3: node[1]: the network: b1, b2, b3, b4, b5, b6, b7, b8 and 11 more {HINT}"],
        ),
    ],
)
def test_a_network_in_parts_is_refused(text: str, told: list[str]) -> None:
    assert complaints(text) == [f"stentor.toml:{line}" for line in told]


@pytest.mark.parametrize(
    "wrong",
    [
        links("campus/hall/b1 campus/hall/b22"),
        "[[unit]]\nname = 'campus/hal'\nconnect = 'mesh'",
        "[[unit]]\nname = 'campus/hall'\nconnect = 'mash'",
        "[[unit]]\nname = 'campus/hall'\nconect = 'mesh'",
        "[[unit]]\nname = 'campus/hall'\n[[unit]]\nname = 'campus/hall'\nconnect = 'mesh'",
        "[[lnk]]\nbetween = ['campus/hall/b1', 'campus/hall/b2']",
        "[link]\nbetween = ['campus/hall/b1', 'campus/hall/b2']",
        nodes("campus/hall/b3"),
        nodes("campus/hall/b 4") + links("campus/hall/b4 campus/hall/b3"),
    ],
)
def test_what_follows_from_another_mistake_is_not_told(wrong: str) -> None:
    assert len(complaints(HALL + wrong)) == 1


def test_all_mistakes_are_told_at_once() -> None:
    text = CAMPUS + "[[link]]\nbetween = ['campus/library/b1', 'campus/library/b2']\ncost = 0\n"
    text += "[[unit]]\nname = 'campus/hall'\nnumber = -1\n[[unit]]\nname = 'x'\n"
    text += PASSAGE.format("y") + "where = []\n"
    assert [line.split(": ")[1] for line in complaints(text)] == [
        "link[0].cost",
        "unit[0].number",
        "unit[1].name",
        "channel[0].to",
        "channel[0].where",
    ]
