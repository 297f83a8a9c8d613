"""Reading a configuration: what it means, and every way in which it can be wrong."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.config import CERTIFICATE_FILES, Address, Config, default, load, parse
from stentor.model.errors import ConfigError
from stentor.model.limits import Limits
from stentor.model.scope import ScopePath


def complaints(text: str, *, node: str | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text, "stentor.toml", node=node)
    return str(caught.value).splitlines()


def write_certificates(directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name in CERTIFICATE_FILES:
        (directory / name).touch()
    return directory


def test_everything_in_a_file(tmp_path: Path) -> None:
    write_certificates(tmp_path / "certs")
    other = write_certificates(tmp_path / "other")
    text = f"""
        [fabric]
        data = "data"
        log = "debug"
        [limits]
        queue = "1 MiB"
        heartbeat = "500 ms"
        [tls]
        directory = "certs"
        [[node]]
        name = "campus/library/b1"
        role = "broker"
        listen = "0.0.0.0:7420"
        http = ""
        [[node]]
        name = "campus/library/b2"
        listen = "[::1]:0"
        storage = "elsewhere"
        tls.directory = "{other}"
        limits = {{ links = 7, queue = 4096 }}
        [[link]]
        between = ["campus/library/b2", "campus/library/b1"]
    """
    config = parse(text, str(tmp_path / "stentor.toml"))
    first, second = config.nodes
    assert (config.fabric.data, config.fabric.log) == (tmp_path / "data", "debug")
    assert config.limits == Limits(queue=1 << 20, heartbeat=0.5)
    assert config.tls is not None
    assert config.tls.directory == tmp_path / "certs"
    assert first.name == ScopePath(("campus", "library", "b1"))
    assert (first.listen, first.http) == (Address("0.0.0.0", 7420), None)
    assert first.storage == tmp_path / "data/campus/library/b1"
    assert (first.tls, first.limits) == (config.tls, config.limits)
    assert (second.listen, second.storage) == (Address("::1", 0), tmp_path / "elsewhere")
    assert second.tls is not None
    assert second.tls.directory == other
    assert second.limits == Limits(queue=4096, heartbeat=0.5, links=7)
    assert config.node("campus/library/b2") is second


def test_the_smallest_file() -> None:
    config = parse('[[node]]\nname = "b1"')
    (node,) = config.nodes
    assert (node.role, node.listen, node.http) == ("broker", Address("127.0.0.1", 7420), Address("127.0.0.1", 0))
    assert (node.storage, node.tls, node.limits) == (Path(".stentor/b1"), None, Limits())


def test_no_file_is_one_local_broker() -> None:
    config = default()
    (node,) = config.nodes
    assert (str(node.name), str(node.listen), str(node.http)) == ("local", "127.0.0.1:7420", "127.0.0.1:7480")
    assert (config.fabric.data, node.storage) == (Path(".stentor"), Path(".stentor/local"))


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    text = """\
[fabric]
log = "inof"
[limits]
queue = "8 MiBi"
links = 0
[[node]]
name = "a/b1"
lisen = "127.0.0.1:7420"
[[node]]
role = "brokr"
listen = 7420
[[node]]
name = "a/b1"
listen = "10.0.0.1:7420"
"""
    assert complaints(text) == [
        "stentor.toml:2: fabric.log: expected debug or info or warning or error, found \"inof\"; did you mean 'info'?",
        'stentor.toml:4: limits.queue: expected a size such as 65536 or "64 KiB", found "8 MiBi": unknown unit; '
        "did you mean 'MiB'?",
        "stentor.toml:5: limits.links: expected an integer of at least 1 and at most 10000000, found 0 (an integer)",
        "stentor.toml:8: node[0].lisen: unknown key; did you mean 'listen'?",
        'stentor.toml:9: node[1].name: missing; expected a scope path such as "campus/library/b1"',
        "stentor.toml:10: node[1].role: expected broker, found \"brokr\"; did you mean 'broker'?",
        "stentor.toml:11: node[1].listen: expected host:port in quotes, found 7420 (an integer)",
        "stentor.toml:13: node[2].name: expected a name of its own, found that of node[0] on line 7: a/b1",
        "stentor.toml:14: node[2].listen: 10.0.0.1:7420 can be reached by other machines and has no TLS: make "
        "certificates with `stentor certs init certs --host NAME`, then set [tls] directory = "
        '"certs/node", or listen on 127.0.0.1',
    ]


NODE = '[[node]]\nname = "b1"\n'
JOINED = "[[unit]]\nname = ''\nconnect = 'chain'\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "1: node: missing; expected at least one [[node]], in double brackets"),
        ("node = []", "1: node: expected at least one [[node]], in double brackets, found an empty array"),
        ('\n[node]\nname = "a"', "2: node: expected at least one [[node]], in double brackets, found a table"),
        ("node = [3]", "1: node[0]: expected a table, found 3 (an integer)"),
        ('[[nodes]]\nname = "a"', "1: nodes: unknown key; did you mean 'node'?"),
        (
            NODE + 'colour = "red"',
            "3: node[0].colour: unknown key; known are name, role, number, listen, advertise, "
            "http, storage, tls, limits",
        ),
        (NODE + "limits = 3", "3: node[0].limits: expected a table, found 3 (an integer)"),
        (NODE + "[node.limits]\nlinks = true", "4: node[0].limits.links: expected an integer, found true (a boolean)"),
        (
            NODE + "[node.limits]\nheartbeat = nan",
            "4: node[0].limits.heartbeat: expected a duration of more "
            "than 0 s and at most 3600 s, found nan (a decimal)",
        ),
        (
            NODE + "[node.limits]\nqueue = 12",
            "4: node[0].limits.queue: expected a size of at least 1 KiB and at most 4 GiB, found 12 (an integer)",
        ),
        (
            NODE + "[node.limits]\nheartbeat = 0x" + "f" * 400,
            "4: node[0].limits.heartbeat: expected a "
            "duration of more than 0 s and at most 3600 s, found an integer of more than 64 bits",
        ),
        (NODE + "storage = ''", '3: node[0].storage: expected a path, found ""'),
        (NODE + 'storage = "a\\u0000b"', '3: node[0].storage: expected a path, found "a\\u0000b"'),
        (NODE + "storage = 1979-05-27", "3: node[0].storage: expected a path in quotes, found 1979-05-27 (a date)"),
        (
            NODE + "http = '127.0.0.1:7420'",
            "3: node[0].http: expected an address of its own, found that of node[0].listen on line 1: 127.0.0.1:7420",
        ),
        (
            NODE + "[node.tls]",
            '3: node[0].tls.directory: missing; expected the certificate directory, such as "certs/node"',
        ),
        (NODE + "[node.tls]\ndir = 'x'", "4: node[0].tls.dir: unknown key; did you mean 'directory'?"),
        (NODE + "tls = true", "3: node[0].tls: expected a table, found true (a boolean)"),
        (
            "[[node]]\nname = 'a//b'",
            "2: node[0].name: 'a//b' is not a scope path: names of letters, digits, '-', '_' and '.', joined by '/'",
        ),
        ("[[node]]\nname = 'a/../../b'", "2: node[0].name: 'a/../../b' is not a scope path: '.' and '..' are no names"),
        (
            NODE + "[[node]]\nname = 'b1/b2'",
            "4: node[1].name: expected as many names as in b1, found b1/b2: all "
            "brokers of a fabric have names of the same length",
        ),
        (
            NODE + "storage = 'x'\n[[node]]\nname = 'b2'\nstorage = 'x'\n" + JOINED,
            "6: node[1].storage: expected a place of its own, found that of node[0]: x",
        ),
        (
            NODE + "listen = '127.0.0.1:7421'\n[[node]]\nname = 'b2'\n" + JOINED,
            "4: node[1].listen: expected an address of its own, found that of node[0].listen on line 3: 127.0.0.1:7421",
        ),
        (
            NODE + "http = '0.0.0.0:80'",
            "3: node[0].http: 0.0.0.0:80 can be reached by other machines and has "
            "no TLS: make certificates with `stentor certs init certs --host NAME`, then set [tls] directory = "
            '"certs/node", or listen on 127.0.0.1',
        ),
        (
            NODE + "'a b'.\"c.d\" = 1",
            '3: node[0]."a b": unknown key; known are name, role, number, listen, '
            "advertise, http, storage, tls, limits",
        ),
        ("a = " + "[" * 5000, " arrays or tables are nested too deeply"),
    ],
)
def test_a_wrong_file_gets_one_complaint(text: str, complaint: str) -> None:
    assert complaints(text) == [f"stentor.toml:{complaint}"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '[[node]]\nname "b1"',
            ["stentor.toml:2:6: not TOML: Expected '=' after a key in a key/value pair", '  name "b1"', "       ^"],
        ),
        (
            "[[node]]\r\nlisten = 127.0.0.1:7420\r\n",
            [
                "stentor.toml:2:15: not TOML: Expected newline or end of document after a statement; text needs quotes",
                "  listen = 127.0.0.1:7420",
                "                ^",
            ],
        ),
        ('name = "b1\n\n', ["stentor.toml:1:11: not TOML: Illegal character '\\n'", '  name = "b1', "            ^"]),
        ("a = '''", ["stentor.toml:1:8: not TOML: Expected \"'''\"", "  a = '''", "         ^"]),
        (
            NODE + "listen = ''\nlisten = ''",
            ["stentor.toml:4:12: not TOML: Cannot overwrite a value", "  listen = ''", "             ^"],
        ),
    ],
)
def test_what_is_not_toml_is_shown(text: str, told: list[str]) -> None:
    assert complaints(text) == told


def test_certificates_must_be_there(tmp_path: Path) -> None:
    write_certificates(tmp_path / "made/node")
    (line,) = complaints(f'tls.directory = "{tmp_path}/none"\n' + NODE)
    assert line == (
        "stentor.toml:1: tls.directory: expected a directory with ca.pem, cert.pem, key.pem, found no ca.pem, "
        f"cert.pem, key.pem in '{tmp_path}/none'; `stentor certs init DIR` makes DIR/node"
    )
    (line,) = complaints(f'tls.directory = "{tmp_path}/made"\n' + NODE)
    assert line.endswith(f"did you mean '{tmp_path}/made/node'?")
    (line,) = complaints(NODE + f'tls.directory = "/{"x" * 300}"')
    assert line.startswith("stentor.toml:3: node[0].tls.directory: expected a directory")


def test_only_the_certificates_of_the_wanted_node_must_be_there(tmp_path: Path) -> None:
    mine = write_certificates(tmp_path / "mine")
    text = f"""
        [[node]]
        name = "a/b1"
        listen = "10.0.0.1:7420"
        tls.directory = "{mine}"
        [[node]]
        name = "a/b2"
        listen = "10.0.0.2:7420"
        tls.directory = "/on/another/machine"
        [[link]]
        between = ["a/b1", "a/b2"]
    """
    assert len(parse(text, node="a/b1").nodes) == 2
    assert "node[1].tls.directory" in complaints(text)[0]
    assert "node[1].tls.directory" in complaints(text, node="a/b2")[0]
    (line,) = complaints(text, node="a/b3")
    assert line == "stentor.toml:2: node: no node is called 'a/b3'; did you mean 'a/b2'?"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot read the configuration: No such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot read the configuration: Is a directory"):
        load(tmp_path)
    file = tmp_path / "latin.toml"
    file.write_bytes(b"[[node]]\nname = 'caf\xe9'\n")
    with pytest.raises(ConfigError, match=r"latin\.toml:2: expected UTF-8 text, found byte 0xe9"):
        load(file)


def test_relative_paths_start_at_the_file_and_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "stentor.toml"
    file.write_bytes(b"\xef\xbb\xbf[[node]]\r\nname = 'b1'\r\n")
    assert load(file).nodes[0].storage == tmp_path / ".stentor/b1"


TABLES = ["fabric", "limits", "tls", "node", "unit", "link", "channel", "elasticity"]
KEYS = ["name", "listen", "http", "queue", "links", "data", "number", "connect", "between", "from", "to", "where", "x"]
WORDS = st.sampled_from(TABLES + KEYS)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["b1", "127.0.0.1:0", "", "8 MiB", "é", "mesh"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


def as_toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {as_toml(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return f"'{value}'" if isinstance(value, str | None) else str(value).lower()


@settings(deadline=None)
@given(st.dictionaries(WORDS, VALUES, max_size=5))
def test_any_document_is_a_configuration_or_a_complaint_with_a_line(document: dict[str, object]) -> None:
    text = "\n".join(f"{name} = {as_toml(value)}" for name, value in document.items())
    try:
        assert isinstance(parse(text), Config)
    except ConfigError as error:
        lines = str(error).splitlines()
        assert all(line.startswith(("stentor.toml:", "  ")) for line in lines)  # a filter is shown below its complaint
        assert "not TOML" not in lines[0]


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_a_configuration_or_a_complaint(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^stentor\.toml:"):
        parse(text)
