"""What a terminal is shown of texts that others chose."""

import json

import pytest
from rich.console import Console

from stentor.cli.terminal.printable import cell, printable, printable_json, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2 apples, Zürich, 東京", "2 apples, Zürich, 東京"),
        ("\x1b]0;mine\x07\x1b[2J", "\\x1b]0;mine\\x07\\x1b[2J"),
        ("over\rwritten\b\x7f", "over\\rwritten\\x08\\x7f"),
        ("two\nlines\tand a tab", "two\\nlines\\tand a tab"),
        ("\x9b31mred\x85", "\\x9b31mred\\x85"),  # the C1 controls: ESC [ in one character, and a new line
        ("txt.\u202egpj", "txt.\\u202egpj"),
        ("\u2066isolated\u2069\u200f\u061c", "\\u2066isolated\\u2069\\u200f\\u061c"),
        ("line\u2028paragraph\u2029", "line\\u2028paragraph\\u2029"),
        ("half \ud800", "half \\ud800"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("👩\u200d🚀 می\u200cخواهم", "👩\u200d🚀 می\u200cخواهم"),  # a joined emoji and a Persian word stay whole
        ("no\u00a0break", "no\u00a0break"),
        ("", ""),
    ],
)
def test_characters_that_a_terminal_acts_upon_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_json_says_the_same_without_controls() -> None:
    value = {"body": 'a\x1b\x9b\x7f\u202e\u2028 Zürich \U000e0041 "quoted" \\'}
    text = printable_json(value).decode()
    assert text.isprintable()
    assert "Zürich" in text
    assert json.loads(text) == value


def test_an_error_keeps_its_own_lines() -> None:
    assert printable_lines("wrong here\n  a\x1b\n  ^") == "wrong here\n  a\\x1b\n  ^"


def test_a_cell_shows_neither_controls_nor_markup(capsys: pytest.CaptureFixture[str]) -> None:
    Console(width=80, highlight=False).print(cell("[red]a\x1b[2J\x07\r[/]"))
    assert capsys.readouterr().out == "[red]a\\x1b[2J\\x07\\r[/]\n"
