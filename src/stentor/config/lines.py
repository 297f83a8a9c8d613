"""On which line each key of a TOML document is: tomllib reads values but forgets where they were."""

import tomllib

Key = tuple[str | int, ...]  # the path of a key or an array's element from the top: ("node", 0, "listen")

_BLANK = " \t"
_SPACE = " \t\n"
_AFTER_BARE_KEY = " \t=.]"
_AFTER_SCALAR = ",]}#\n"


def locate(text: str) -> dict[Key, int]:
    """The line, counted from 1, of the first mention of every key, table and element of a text that tomllib accepts."""
    return _Scanner(text.replace("\r\n", "\n")).document()


class _Scanner:
    """Walks over a valid document; it checks nothing, because tomllib has."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.line = 1
        self.counted = 0  # newlines before this position are in `line`
        self.lines: dict[Key, int] = {}
        self.lengths: dict[Key, int] = {}  # of arrays of tables

    def document(self) -> dict[Key, int]:
        table: Key = ()
        while self.skip_to_content():
            if self.text[self.position] == "[":
                table = self.header()
            else:
                self.pair(table)
        return self.lines

    def header(self) -> Key:
        array = self.text.startswith("[[", self.position)
        self.position += 2 if array else 1
        line = self.current_line()
        parts = self.parts("]")
        self.position += 2 if array else 1
        key: Key = ()
        for depth, part in enumerate(parts):
            key = (*key, part)
            self.lines.setdefault(key, line)
            if array and depth == len(parts) - 1:
                self.lengths[key] = self.lengths.get(key, 0) + 1
            if key in self.lengths:
                key = (*key, self.lengths[key] - 1)  # a header speaks of the newest element
                self.lines.setdefault(key, line)
        return key

    def pair(self, table: Key) -> None:
        line = self.current_line()
        key = table
        for part in self.parts("="):
            key = (*key, part)
            self.lines.setdefault(key, line)
        self.position += 1
        self.skip(_BLANK)
        self.value(key)

    def parts(self, end: str) -> list[str]:
        """A dotted key, up to its end."""
        found = []
        while True:
            self.skip(_BLANK)
            start = self.position
            if self.text[start] in "\"'":
                self.string()
                found.append(str(tomllib.loads(f"key = {self.text[start : self.position]}")["key"]))
            else:
                self.skip_until(_AFTER_BARE_KEY)
                found.append(self.text[start : self.position])
            self.skip(_BLANK)
            if self.text[self.position] == end:
                return found
            self.position += 1

    def value(self, key: Key) -> None:
        match self.text[self.position]:
            case '"' | "'":
                self.string()
            case "[":
                self.array(key)
            case "{":
                self.inline_table(key)
            case _:
                self.skip_until(_AFTER_SCALAR)

    def array(self, key: Key) -> None:
        self.position += 1
        index = 0
        while self.skip_to_content() and self.text[self.position] != "]":
            if self.text[self.position] == ",":
                self.position += 1
                continue
            element = (*key, index)
            self.lines[element] = self.current_line()
            self.value(element)
            index += 1
        self.position += 1

    def inline_table(self, key: Key) -> None:
        self.position += 1
        while self.skip_to_content() and self.text[self.position] != "}":
            if self.text[self.position] == ",":
                self.position += 1
            else:
                self.pair(key)
        self.position += 1

    def string(self) -> None:
        quote = self.text[self.position]
        long = self.text.startswith(quote * 3, self.position)
        end = quote * 3 if long else quote
        self.position += len(end)
        while not self.text.startswith(end, self.position):
            self.position += 2 if self.text[self.position] == "\\" and quote == '"' else 1
        self.position += len(end)
        if long:
            self.skip(quote)  # up to two quotes may stand before the closing three

    def skip_to_content(self) -> bool:
        """Past spaces, newlines and comments; whether anything is left."""
        while True:
            self.skip(_SPACE)
            if not self.text.startswith("#", self.position):
                return self.position < len(self.text)
            self.skip_until("\n")

    def skip(self, characters: str) -> None:
        while self.position < len(self.text) and self.text[self.position] in characters:
            self.position += 1

    def skip_until(self, characters: str) -> None:
        while self.position < len(self.text) and self.text[self.position] not in characters:
            self.position += 1

    def current_line(self) -> int:
        self.line += self.text.count("\n", self.counted, self.position)
        self.counted = self.position
        return self.line
