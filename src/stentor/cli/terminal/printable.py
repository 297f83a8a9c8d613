"""Text that others chose, made safe for a terminal: topics, names, filters, attributes and bodies.

A peer could otherwise move the cursor, change the title, or make one line look like another. Programs use `--json`,
where the same characters are escaped as JSON does it, so that nothing is lost.
"""

import sys
import unicodedata

import msgspec
from rich.text import Text

# Controls, formats such as the bidirectional overrides, half a surrogate pair, and separators of lines and paragraphs
_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")  # Persian and emoji need them, and they move nothing
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """Return the text on one line, with every character escaped that a terminal would act upon."""
    return text if text.isprintable() else "".join(map(_escape, text))


def printable_lines(text: str) -> str:
    """Return the same for a text of several lines, such as an error that points into a filter."""
    return "\n".join(map(printable, text.split("\n")))


def cell(text: str, style: str = "") -> Text:
    """Return a cell of a table, or a label, that shows such a text."""
    return Text(printable(text), style)


def printable_json(value: object) -> bytes:
    """Return a value as JSON on one line; only what a terminal would act upon is escaped beside what JSON demands."""
    text = msgspec.json.encode(value).decode()
    return (text if text.isprintable() else "".join(map(_escape_json, text))).encode()


def print_json(value: object) -> None:
    """Print a value as JSON, indented for people."""
    sys.stdout.write(msgspec.json.format(printable_json(value)).decode() + "\n")


def _is_safe(character: str) -> bool:
    return unicodedata.category(character) not in _ESCAPED or character in _JOINERS


def _escape_json(character: str) -> str:
    if _is_safe(character):
        return character
    code = ord(character)
    halves = (code,) if code < 0x10000 else (0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF))
    return "".join(f"\\u{half:04x}" for half in halves)


def _escape(character: str) -> str:
    if _is_safe(character):
        return character
    code = ord(character)
    long = f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else long)
