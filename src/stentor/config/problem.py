"""What is wrong with a file: every problem names its line, its key, what was expected and what was found."""

import json
import re
from collections.abc import Mapping

from stentor.config.lines import Key
from stentor.model.errors import ConfigError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_SHOWN = 60


class Problems:
    """Collected while a file is read, so that its author sees all of them at once."""

    def __init__(self, filename: str, lines: Mapping[Key, int]) -> None:
        self._filename = filename
        self._lines = lines
        self._found: list[tuple[int, str]] = []

    def add(self, key: Key, reason: str) -> None:
        line = self.line(key)
        where = f"{dotted(key)}: " if key else ""
        self._found.append((line, f"{self._filename}:{line}: {where}{reason}"))

    def line(self, key: Key) -> int:
        """The key's line; of a key that is missing, the line of what should hold it."""
        while key and key not in self._lines:
            key = key[:-1]
        return self._lines.get(key, 1)

    def raise_if_any(self) -> None:
        if self._found:
            raise ConfigError("\n".join(text for _, text in sorted(self._found, key=lambda problem: problem[0])))


def dotted(key: Key) -> str:
    """`node[0].listen`"""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _BARE.fullmatch(part) else json.dumps(part))
    return text


def describe(value: object) -> str:
    """A value as it is found in a file, with its kind where that is not plain."""
    match value:
        case bool():
            return f"{str(value).lower()} (a boolean)"
        case str():
            return json.dumps(_shorten(value), ensure_ascii=False)
        case int():
            return f"{value} (an integer)" if value.bit_length() <= 64 else "an integer of more than 64 bits"
        case float():
            return f"{value} (a decimal)"
        case dict():
            return "a table"
        case list():
            return "an array" if value else "an empty array"
        case _:
            return f"{value} (a {type(value).__name__})"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"
