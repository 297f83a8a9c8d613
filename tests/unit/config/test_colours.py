"""The colours of a file's scopes: defaults that follow from the file, and every way in which keys can be wrong."""

import msgspec
import pytest

from stentor.cli.running.process import Assignment, _network
from stentor.cli.running.up import assign_all
from stentor.config import colours_around, default, parse
from stentor.model.colours.wave_timing import ColourSettings, timing_of
from stentor.model.errors import ConfigError

# fourteen lines; a cluster of three brokers and one of two
CAMPUS = """\
[[node]]
name = "campus/library/b1"
[[node]]
name = "campus/library/b2"
[[node]]
name = "campus/library/b3"
[[node]]
name = "campus/hall/b1"
[[node]]
name = "campus/hall/b2"
[[link]]
between = ["campus/library/b1", "campus/hall/b1"]
[[link]]
between = ["campus/hall/b1", "campus/hall/b2"]
"""
LIBRARY = "[[unit]]\nname = 'campus/library'\nconnect = 'mesh'\n"
JOINED = CAMPUS + LIBRARY  # seventeen lines
NETWORK = "[[unit]]\nname = ''\n"


def around(text: str, place: int = 0) -> dict[str, ColourSettings]:
    config = parse(text)
    return colours_around(config, config.nodes[place])


def complaints(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return str(caught.value).splitlines()


def star(*names: str) -> str:
    """A file of one broker with links to all others."""
    nodes = "".join(f"[[node]]\nname = '{name}'\n" for name in names)
    return nodes + "".join(f"[[link]]\nbetween = ['{names[0]}', '{name}']\n" for name in names[1:])


def brokers(count: int, unit: str = "") -> list[str]:
    return [f"{unit}b{place}" for place in range(count)]


# ---- what follows from the file


def test_a_scope_has_room_for_the_brokers_of_the_file() -> None:
    library, campus = (ColourSettings(brokers_max=size, degree=8, height=size) for size in (3, 5))
    assert around(JOINED) == {"": campus, "campus": campus, "campus/library": library}
    hall = ColourSettings(brokers_max=2, degree=8, height=2)
    assert around(JOINED, 4) == {"": campus, "campus": campus, "campus/hall": hall}


def test_times_follow_from_the_size_of_a_scope() -> None:
    times = {scope: timing_of(settings) for scope, settings in around(JOINED).items()}
    assert {scope: timing.delay_max for scope, timing in times.items()} == dict.fromkeys(times, 0.1)
    assert times[""].period == pytest.approx(1.5)
    assert times["campus/library"].period == pytest.approx(1.1)


def test_a_scope_has_room_for_the_brokers_that_load_may_start() -> None:
    found = around(JOINED + "[elasticity]\nmost_brokers = 4\n")
    assert {scope: settings.brokers_max for scope, settings in found.items()} == {
        "": 8,
        "campus": 8,
        "campus/library": 4,
    }
    found = around(JOINED + "[elasticity]\nmost_brokers = 2\n")  # fewer than the library has
    assert [settings.brokers_max for settings in found.values()] == [5, 5, 3]


def test_no_link_of_the_file_is_too_many_for_the_tree() -> None:
    assert around(star(*brokers(8)))[""].degree == 8
    assert around(star(*brokers(21)))[""].degree == 20


def test_links_that_leave_a_scope_do_not_count_in_it() -> None:
    found = around(star(*brokers(10, "x/"), "y/b0"))
    assert {scope: settings.degree for scope, settings in found.items()} == {"": 10, "x": 9}


def test_links_of_brokers_that_load_may_start_are_not_too_many() -> None:
    """Each of them links to the first brokers of the cluster, which have nine links more then."""
    found = around(JOINED + "[elasticity]\nmost_brokers = 12\n")
    assert {scope: settings.degree for scope, settings in found.items()} == {
        "": 12,  # hall/b1 has two in the file, and ten brokers may come
        "campus": 12,
        "campus/library": 11,
    }


def test_a_broker_without_a_file_is_told_its_colours() -> None:
    config = default()
    assert colours_around(config, config.nodes[0]) == {"": ColourSettings(brokers_max=2, degree=8, height=2)}


# ---- what the file sets


def test_keys_for_all_scopes() -> None:
    found = around(
        JOINED + "[colours]\nxi = 4\neta = 10\ndelta_max = '50 ms'\ndegree = 3\nheight = 6\naudit = '1 min'\n"
    )
    every = ColourSettings(period=4, brokers_max=10, delay_max=0.05, degree=3, height=6, audit=60)
    assert found == {"": every, "campus": every, "campus/library": every}


def test_keys_for_one_scope() -> None:
    text = JOINED + "xi = '3 s'\neta = 7\ndelta_max = 0.2\ndegree = 2\nheight = 5\naudit = 20\n"
    text += "roots = ['campus/library/b3', 'campus/library/b1']\n[colours]\nxi = 2.5\neta = 9\n"
    shared = ColourSettings(period=2.5, brokers_max=9, degree=8, height=9)
    library = ColourSettings(
        period=3,
        brokers_max=7,
        delay_max=0.2,
        degree=2,
        height=5,
        audit=20,
        roots=("campus/library/b3", "campus/library/b1"),
    )
    assert around(text) == {"": shared, "campus": shared, "campus/library": library}


def test_roots_of_the_whole_network() -> None:
    found = around(JOINED + NETWORK + "roots = ['campus/hall/b2']\n")
    assert {scope: settings.roots for scope, settings in found.items()} == {
        "": ("campus/hall/b2",),
        "campus": (),
        "campus/library": (),
    }


def test_a_shared_height_is_no_more_than_a_scope_has_brokers() -> None:
    found = around(JOINED + "[colours]\nheight = 4\n")
    assert [settings.height for settings in found.values()] == [4, 4, 3]


def test_the_smallest_xi_that_works_is_taken() -> None:
    assert around(JOINED + "[colours]\nxi = 1.5\n")[""].period == 1.5


def test_the_process_of_a_broker_is_told_its_colours() -> None:
    config = parse(JOINED + "roots = ['campus/library/b2']\n")
    told, *_ = assign_all(config, None, json_log=False, supervised=True, embedded=False)
    read = msgspec.json.decode(msgspec.json.encode(told), type=Assignment)
    assert _network(read).colours == colours_around(config, config.nodes[0])
    assert read.colours["campus/library"].roots == ("campus/library/b2",)


# ---- what is wrong

TOO_SHORT = (
    "xi = {} is too short for waves that take up to {} s (height {}, delta_max {}): the smallest that works is {}"
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[colours]\nxi = 1.4", f"19: colours.xi: the network: {TOO_SHORT.format(1.4, 0.5, 5, 0.1, 1.5)}"),
        (
            "[colours]\nxi = 1.4\n[[unit]]\nname = ''\nxi = 2",
            f"19: colours.xi: campus: {TOO_SHORT.format(1.4, 0.5, 5, 0.1, 1.5)}",
        ),
        (
            "xi = '1050 ms'",
            f"18: unit[0].xi: campus/library: {TOO_SHORT.format(1.05, 0.3, 3, 0.1, 1.1)}",
        ),
        (
            "xi = 10\ndelta_max = 2",
            f"18: unit[0].xi: campus/library: {TOO_SHORT.format(10, 6, 3, 2, 12.5)}",
        ),
        (
            "[colours]\nxi = 2\neta = 20\nheight = 8",
            f"19: colours.xi: the network: {TOO_SHORT.format(2, 0.8, 8, 0.1, 2.1)}",
        ),
        (
            "[colours]\nxi = 0",
            "19: colours.xi: expected a duration of more than 0 s and at most 3600 s, found 0 (an integer)",
        ),
        (
            "[colours]\ndelta_max = '1 m'",
            '19: colours.delta_max: expected a duration such as 1.5 or "500 ms", found "1 m": unknown unit; '
            "did you mean 'ms'?",
        ),
        (
            "[colours]\neta = 1",
            "19: colours.eta: expected an integer of at least 2 and at most 1000000, found 1 (an integer)",
        ),
        (
            "[colours]\neta = 4",
            "19: colours.eta: expected at least 5, found 4 (an integer): the network has 5 brokers",
        ),
        (
            "eta = 2",
            "18: unit[0].eta: expected at least 3, found 2 (an integer): campus/library has 3 brokers",
        ),
        (
            "eta = 3\n[elasticity]\nmost_brokers = 5",
            "18: unit[0].eta: expected at least 5, found 3 (an integer): campus/library has 3 brokers, "
            "and [elasticity] may start 2 more",
        ),
        (
            "[colours]\ndegree = 0",
            "19: colours.degree: expected an integer of at least 1 and at most 1000000, found 0 (an integer)",
        ),
        (
            "[colours]\nheight = 5000",
            "19: colours.height: expected an integer of at least 1 and at most 4096, found 5000 (an integer)",
        ),
        (
            "height = 4",
            "18: unit[0].height: expected at most 3, the eta of campus/library, found 4 (an integer)",
        ),
        (
            "[colours]\nheight = 1\ndegree = 3",
            "19: colours.height: expected at least 2, found 1 (an integer): "
            "the network may have 5 brokers, and each at most 3 right below it",
        ),
        ("[colours]\nxii = 3", "19: colours.xii: unknown key; did you mean 'xi'?"),
        (
            "[colours]\nroots = ['campus/hall/b1']",
            "19: colours.roots: unknown key; known are xi, eta, delta_max, degree, height, drain_within, audit",
        ),
        ("[[colours]]\nxi = 3", "18: colours: expected a table, found an array"),
        ("[colour]\nxi = 0.1", "18: colour: unknown key; did you mean 'colours'?"),
        (
            "roots = ['campus/library/b1', 'campus/library/b4']",
            "18: unit[0].roots[1]: unknown broker 'campus/library/b4'; did you mean 'campus/library/b3'?",
        ),
        (
            "roots = ['campus/hall']",
            "18: unit[0].roots[0]: expected a broker, found the unit 'campus/hall'; its first broker is "
            "'campus/hall/b1'",
        ),
        (
            "roots = ['campus/hall/b1']",
            "18: unit[0].roots[0]: expected a broker in campus/library, found campus/hall/b1; it is in 'campus/hall'",
        ),
        (
            "roots = ['campus/library/b2', 'campus/library/b1', 'campus/library/b2']",
            "18: unit[0].roots[2]: expected another broker, found that of unit[0].roots[0]: campus/library/b2",
        ),
        ("roots = [3]", "18: unit[0].roots[0]: expected a scope path in quotes, found 3 (an integer)"),
        (
            "roots = 'campus/library/b1'",
            '18: unit[0].roots: expected a list of brokers, such as ["campus/library/b1", "campus/library/b2"], '
            'found "campus/library/b1"',
        ),
        (
            "roots = []",
            '18: unit[0].roots: expected a list of brokers, such as ["campus/library/b1", "campus/library/b2"], '
            "found an empty array",
        ),
    ],
)
def test_a_wrong_key_gets_one_complaint(text: str, complaint: str) -> None:
    assert complaints(JOINED + text) == [f"stentor.toml:{complaint}"]


@pytest.mark.parametrize(
    "text",
    [
        "delta_max = 0\nxi = 0.1",
        "[colours]\nheight = 0\nxi = 1",
        "eta = 3\n[elasticity]\nmost_brokers = 0",
        "[[unit]]\nname = 'campus/libary'\nroots = ['campus/hall/b1']",
        "[[link]]\nbetween = ['campus/library/b1', 'campus/hall/b3']\n[colours]\nxi = 1",
    ],
)
def test_what_follows_from_another_mistake_is_not_told(text: str) -> None:
    assert len(complaints(JOINED + text)) == 1


def test_wrong_keys_of_several_scopes_are_told_at_once() -> None:
    text = JOINED + "xi = 0.6\n" + NETWORK + "eta = 4\n[colours]\nheight = 1\ndegree = 2\n"
    assert [line.partition(": expected")[0] for line in complaints(text)] == [
        f"stentor.toml:18: unit[0].xi: campus/library: {TOO_SHORT.format(0.6, 0.1, 1, 0.1, 0.7)}",
        "stentor.toml:21: unit[1].eta",
        "stentor.toml:23: colours.height",
    ]
