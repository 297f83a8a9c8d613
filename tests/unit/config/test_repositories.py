"""The repositories of a file: what they mean, and every way in which they can be wrong."""

from pathlib import Path

import pytest

from stentor.cli.running.up import assign_all
from stentor.config import ANY_HTTP, Address, Repository, default, parse, storage_line, without_password
from stentor.model.errors import ConfigError, InvalidInput
from stentor.model.scope import ScopePath

NODES = """
[[node]]
name = "north/b1"
[[node]]
name = "north/b2"
listen = "127.0.0.1:9000"
advertise = "127.0.0.1:9001"
[[node]]
name = "south/b1"
[[unit]]
name = "north"
connect = "mesh"
[[link]]
between = ["north/b1", "south/b1"]
"""


def complaints(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(NODES + text)
    return [line.partition(" repository")[2] for line in str(caught.value).splitlines()]


def test_everything_that_a_repository_may_say() -> None:
    config = parse(
        NODES
        + """
        [[repository]]
        name = "r1"
        [[repository]]
        name = "r2"
        broker = "south/b1"
        storage = "segments:far/away"
        http = ""
        [[repository]]
        name = "r3"
        unit = "north"
        broker = "north/b2"
        storage = "postgresql://stentor:secret@db.example.org:5432/events"
        http = "127.0.0.1:7490"
        [[repository]]
        name = "r4"
        unit = "south"
        accepts = ["orders/#", "$mail"]
        most_topics = 5
        most_bytes = "10 GiB"
        """,
        "here/stentor.toml",
    )
    north, south, everywhere = ScopePath(("north",)), ScopePath(("south",)), ScopePath(())
    first, last = ScopePath(("north", "b1")), ScopePath(("south", "b1"))
    usual = "sqlite:here/.stentor/repositories"
    assert config.repositories == (
        Repository(name="r1", broker=first, unit=everywhere, storage=usual, http=ANY_HTTP),
        Repository(name="r2", broker=last, unit=everywhere, storage="segments:here/far/away"),
        Repository(
            name="r3",
            broker=ScopePath(("north", "b2")),
            unit=north,
            storage="postgresql://stentor:secret@db.example.org:5432/events",
            http=Address("127.0.0.1", 7490),
        ),
        Repository(
            name="r4",
            broker=last,
            unit=south,
            storage=usual,
            http=ANY_HTTP,
            accepts=("orders/#", "$mail"),
            most_topics=5,
            most_bytes=10 << 30,
        ),
    )
    assert config.node("r2") is config.repositories[1]


def test_a_repository_goes_to_its_broker_first_and_then_to_the_nearest() -> None:
    config = parse(NODES + "[[repository]]\nname='r1'\nbroker='north/b2'\n[[repository]]\nname='r2'\nunit='north'\n")
    told = assign_all(config, None, json_log=False, supervised=True, embedded=False)
    assert [each.name for each in told] == ["north/b1", "north/b2", "south/b1", "r1", "r2"]
    addresses = [getattr(each, "addresses", ()) for each in told[3:]]
    assert addresses == [("127.0.0.1:9001", "127.0.0.1:7420", "127.0.0.1:7422"), ("127.0.0.1:7420", "127.0.0.1:9001")]


@pytest.mark.req("RD-33")
def test_the_process_of_a_repository_is_told_what_it_is_willing_to_manage() -> None:
    text = "[[repository]]\nname='r1'\naccepts=['a/#']\nmost_topics=3\nmost_bytes=4096\n[[repository]]\nname='r2'\n"
    told = assign_all(parse(NODES + text), None, json_log=False, supervised=True, embedded=False)
    willing = [(each.accepts, each.most_topics, each.most_bytes) for each in told[3:]]  # type: ignore[union-attr]
    assert willing == [(("a/#",), 3, 4096), ((), 0, 0)]


def test_without_a_file_there_is_one_in_the_broker() -> None:
    (told,) = assign_all(default(Path("data")), None, json_log=False, supervised=True, embedded=True)
    inside = getattr(told, "repository", None)
    assert inside is not None
    assert (inside.name, inside.storage, inside.home) == (
        "main",
        "sqlite:data/repositories",
        "data/repositories/main",
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[repository]\nname = 'r1'", ": expected [[repository]], in double brackets, found a table"),
        ("[[repository]]", '[0].name: missing; expected a name such as "r1"'),
        ("[[repository]]\nnam = 'r1'", "[0].nam: unknown key; did you mean 'name'?"),
        ("[[repository]]\nname = 1", "[0].name: expected a name such as r1 in quotes, found 1 (an integer)"),
        ("[[repository]]\nname = 'a/b'", "[0].name: 'a/b' is not a repository's name: letters, digits, '-', '_' and"),
        ("[[repository]]\nname = 'r:1'", "[0].name: 'r:1' is not a scope path"),
        ("[[repository]]\nname = 'r1'\nbroker = 'north/b3'", "[0].broker: unknown broker 'north/b3'; did you mean"),
        ("[[repository]]\nname = 'r1'\nbroker = 'north'", "[0].broker: expected a broker, found the unit 'north'"),
        ("[[repository]]\nname = 'r1'\nunit = 'east'", "[0].unit: unknown unit 'east'"),
        ("[[repository]]\nname = 'r1'\naccepts = 'x'", '[0].accepts: expected a list of words in quotes, found "x"'),
        (
            "[[repository]]\nname = 'r1'\naccepts = []",
            "[0].accepts: expected a list of words in quotes, found",
        ),
        ("[[repository]]\nname = 'r1'\naccepts = ['a/#/b']", "[0].accepts[0]: "),
        (
            "[[repository]]\nname = 'r1'\nmost_topics = 0",
            "[0].most_topics: expected an integer of at least 1 and at most",
        ),
        ("[[repository]]\nname = 'r1'\nmost_bytes = '1 B'", "[0].most_bytes: expected a size of at least 1 KiB and at"),
        (
            "[[repository]]\nname = 'r1'\nunit = 'north'\nbroker = 'south/b1'",
            "[0].broker: expected a broker in north, the unit that it serves, found south/b1",
        ),
        ("[[repository]]\nname = 'r1'\nstorage = 'sqlit:x'", "found \"sqlit:x\"; did you mean 'sqlite'?"),
        (
            "[[repository]]\nname = 'r1'\nstorage = 'x'",
            '[0].storage: expected "sqlite:DIRECTORY", "segments:DIRECTORY"',
        ),
        ("[[repository]]\nname = 'r1'\nstorage = 'postgresql://db'", '"postgresql://db": it names no database'),
        ("[[repository]]\nname = 'r1'\nstorage = 'postgresql://db:x/y'", "it names no database"),
        ("[[repository]]\nname = 'r1'\nhttp = 7490", "[0].http: expected host:port in quotes, found 7490"),
        ("[[repository]]\nname = 'r1'\nhttp = '0.0.0.0:0'", "[0].http: 0.0.0.0:0 can be reached by other machines"),
        (
            "[[repository]]\nname = 'r1'\nhttp = '127.0.0.1:9000'",
            "[0].http: expected an address of its own, found that of node[1].listen on line 6: 127.0.0.1:9000",
        ),
    ],
)
def test_a_wrong_repository_is_refused_with_the_reason(text: str, told: str) -> None:
    (complaint,) = complaints(text)
    assert told in complaint


def test_two_repositories_of_one_name_are_refused() -> None:
    twice = "[[repository]]\nname = 'r1'\n"
    assert complaints(twice + twice) == [
        "[1].name: expected a name of its own, found that of repository[0] on line 15: r1"
    ]


def test_a_repository_with_the_name_of_a_broker() -> None:
    with pytest.raises(ConfigError, match=r"expected a name of its own, found that of node\[0\] on line 1: local"):
        parse("[[node]]\nname = 'local'\n[[repository]]\nname = 'local'\n")


def test_nobody_complains_twice() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("[[node]]\n[[repository]]\nname = 'r1'\nbroker = 'x'\n")
    assert len(str(caught.value).splitlines()) == 1


def test_a_repository_keeps_its_ledgers_where_the_file_says() -> None:
    usual = Path("usual")
    assert storage_line("sqlite:", usual) == "sqlite:usual"
    assert storage_line("segments:/var/lib", usual, Path("base")) == "segments:/var/lib"
    assert storage_line("postgres://db/events", usual) == "postgres://db/events"
    with pytest.raises(InvalidInput):
        storage_line("sqlite:a\0b", usual)
    assert without_password("postgresql://me:secret@db/events") == "postgresql://me@db/events"
    assert without_password("sqlite:a@b") == "sqlite:a@b"
