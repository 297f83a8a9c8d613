"""The line finder agrees with tomllib about what is in a document, and with its author about where."""

import json
import string
import tomllib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stentor.config.lines import Key, locate

DOCUMENT = '''\
# [not] = a table
title = "a = 1" # b = 2
"quoted key" = 1
'lite.ral' . inner = 2

[fabric] # comment
text = """
[[node]]
name = \\"""not a key""""
after = [
  1, # one, two
  { x = 1, y.z = "}" },
  [ "]", '#' ],
]

[[node]]
name = 'a'
[node.tls]
directory = "d"
[[node]]
limits.queue = 1
limits.links = 2
[[node.inner]]
[[node.inner]]
when = 1979-05-27 07:32:00
"esc\\u0061ped" = { }
'''


def test_lines_of_a_document_with_everything() -> None:
    expected: dict[Key, int] = {
        ("title",): 2,
        ("quoted key",): 3,
        ("lite.ral",): 4,
        ("lite.ral", "inner"): 4,
        ("fabric",): 6,
        ("fabric", "text"): 7,
        ("fabric", "after"): 10,
        ("fabric", "after", 0): 11,
        ("fabric", "after", 1): 12,
        ("fabric", "after", 1, "x"): 12,
        ("fabric", "after", 1, "y"): 12,
        ("fabric", "after", 1, "y", "z"): 12,
        ("fabric", "after", 2): 13,
        ("fabric", "after", 2, 0): 13,
        ("fabric", "after", 2, 1): 13,
        ("node",): 16,
        ("node", 0): 16,
        ("node", 0, "name"): 17,
        ("node", 0, "tls"): 18,
        ("node", 0, "tls", "directory"): 19,
        ("node", 1): 20,
        ("node", 1, "limits"): 21,
        ("node", 1, "limits", "queue"): 21,
        ("node", 1, "limits", "links"): 22,
        ("node", 1, "inner"): 23,
        ("node", 1, "inner", 0): 23,
        ("node", 1, "inner", 1): 24,
        ("node", 1, "inner", 1, "when"): 25,
        ("node", 1, "inner", 1, "escaped"): 26,
    }
    assert locate(DOCUMENT) == expected
    assert locate(DOCUMENT.replace("\n", "\r\n")) == expected
    assert locate(DOCUMENT).keys() == keys_of(tomllib.loads(DOCUMENT))


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment", "a = 1", "[a]", "a = ''", "a = ''''''"])
def test_ends_of_a_document(text: str) -> None:
    assert locate(text).keys() == keys_of(tomllib.loads(text))


def keys_of(value: Any, key: Key = ()) -> set[Key]:
    found = {key} if key else set()
    if isinstance(value, dict):
        return found.union(*(keys_of(inner, (*key, name)) for name, inner in value.items()))
    if isinstance(value, list):
        return found.union(*(keys_of(inner, (*key, index)) for index, inner in enumerate(value)))
    return found


TRICKY = st.sampled_from(['"', "'", '"""', "'''", "#", "[[x]]", "a = 1", "\n", "\\", "{", "}", ",", "=", " "])
TEXTS = st.lists(TRICKY | st.text(string.ascii_letters, max_size=3), max_size=5).map("".join)
NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=2) | TEXTS
SCALARS = st.booleans() | st.integers(-9, 9) | st.sampled_from([1.5, float("inf")]) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
TABLES = st.dictionaries(NAMES, VALUES, max_size=3)


class Author:
    """Writes a document in one of the many ways TOML allows, and remembers on which line each key was written first."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[Key, int] = {}

    def note(self, key: Key) -> None:
        self.lines.setdefault(key, self.text.count("\n") + 1)

    def choose(self, *options: str) -> str:
        return self.draw(st.sampled_from(options))

    def gap(self) -> None:
        self.text += self.choose("", "\n", "# [x] = 'y'\n", "  \t\n\n", "#\n")

    def name(self, name: str) -> None:
        bare = name and all(letter in string.ascii_letters for letter in name)
        literal = "'" not in name and "\n" not in name
        self.text += self.choose(json.dumps(name), *([name] if bare else []), *([f"'{name}'"] if literal else []))

    def dotted(self, names: list[str]) -> None:
        for position, name in enumerate(names):
            self.text += self.choose(".", " . ") if position else self.choose("", " ")
            self.name(name)
        self.text += self.choose("", " ")

    def string(self, text: str) -> None:
        options = [json.dumps(text), f'"""{json.dumps(text)[1:-1]}"""']
        if "\\" not in text:
            options.append('"""\n' + text.replace('"', '\\"') + '"""')
        if "'''" not in text and not text.endswith("'"):
            options.append(f"'''\n{text}'''")
        self.text += self.choose(*options)

    def value(self, value: Any, key: Key) -> None:
        if isinstance(value, str):
            self.string(value)
        elif isinstance(value, list):
            self.array(value, key)
        elif isinstance(value, dict):
            self.inline_table(value, key)
        else:
            self.text += str(value).lower()

    def array(self, values: list[Any], key: Key) -> None:
        self.text += "["
        for index, value in enumerate(values):
            self.gap()
            self.note((*key, index))
            self.value(value, (*key, index))
            self.gap()
            self.text += "," if index < len(values) - 1 else self.choose("", ",")
        self.gap()
        self.text += "]"

    def inline_table(self, table: dict[str, Any], key: Key) -> None:
        self.text += "{"
        for position, (name, value) in enumerate(table.items()):
            self.text += ", " if position else ""
            self.note((*key, name))
            self.dotted([name])
            self.text += "= "
            self.value(value, (*key, name))
        self.text += self.choose("}", " }")

    def pairs(self, table: dict[str, Any], key: Key) -> None:
        for name, value in table.items():
            self.gap()
            if isinstance(value, dict) and value and self.draw(st.booleans()):
                for inner, content in value.items():
                    self.pair([name, inner], content, key)
            else:
                self.pair([name], value, key)

    def pair(self, names: list[str], value: Any, key: Key) -> None:
        for length in range(1, len(names) + 1):
            self.note((*key, *names[:length]))
        self.dotted(names)
        self.text += "= "
        self.value(value, (*key, *names))
        self.text += self.choose("\n", " # a, b = [\n")

    def header(self, names: list[str], key: Key, brackets: str) -> None:
        self.gap()
        for length in range(1, len(key) + 1):
            self.note(key[:length])
        self.text += brackets
        self.dotted(names)
        self.text += brackets.replace("[", "]") + self.choose("\n", " # ]\n")


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[Key, int]]:
    author = Author(draw)
    names = draw(st.lists(NAMES, min_size=3, max_size=3, unique=True))
    author.pairs({name: value for name, value in draw(TABLES).items() if name not in names}, ())
    plain, array, inner = names
    if draw(st.booleans()):
        author.header([plain, inner], (plain, inner), "[")
        author.pairs(draw(TABLES), (plain, inner))
    for index in range(draw(st.integers(0, 3))):
        author.header([array], (array, index), "[[")
        table = draw(TABLES)
        author.pairs({name: value for name, value in table.items() if name != inner}, (array, index))
        for second in range(draw(st.integers(0, 2))):
            author.header([array, inner], (array, index, inner, second), "[[")
            author.pairs(draw(TABLES), (array, index, inner, second))
    author.gap()
    return author.text, author.lines


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
def test_lines_are_where_the_author_wrote_them(document: tuple[str, dict[Key, int]]) -> None:
    text, lines = document
    assert keys_of(tomllib.loads(text)) == lines.keys(), "the author's own mistake"
    assert locate(text) == lines


@settings(deadline=None)
@given(st.text("a.='\"[]{},#\n \\1", max_size=24))
def test_whatever_tomllib_accepts_is_located(text: str) -> None:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert locate(text).keys() == keys_of(document)
