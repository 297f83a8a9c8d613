"""LIKE: `%` stands for any characters, `_` for one, a backslash before either for itself; matched in linear time."""

from collections.abc import Callable

_ANY = "%"  # any characters, none included
_ONE = "_"  # exactly one character


def tokens(pattern: str) -> list[tuple[str, bool]]:
    """The characters of a pattern, each with whether it is a wildcard; adjacent `%` are one."""
    found: list[tuple[str, bool]] = []
    escaped = False
    for index, character in enumerate(pattern):
        if escaped:
            found.append((character, False))
            escaped = False
        elif character == "\\" and pattern[index + 1 : index + 2] in (_ANY, _ONE):
            escaped = True
        elif character == _ANY:
            if not found or found[-1] != (_ANY, True):
                found.append((_ANY, True))
        else:
            found.append((character, character == _ONE))
    return found


def beginning(pattern: str) -> tuple[str, str]:
    """What a text must begin with, and the rest of the pattern from its first wildcard, escapes resolved."""
    parts = tokens(pattern)
    length = next((index for index, (_, wild) in enumerate(parts) if wild), len(parts))
    characters = [character for character, _ in parts]
    return "".join(characters[:length]), "".join(characters[length:])


def matcher(pattern: str) -> Callable[[str], bool]:
    """A predicate for a pattern; the common shapes are single calls of `str`."""
    parts = tokens(pattern)
    if (_ONE, True) in parts:
        return _automaton(parts)
    pieces = [""]
    for character, wild in parts:
        if wild:
            pieces.append("")
        else:
            pieces[-1] += character
    if len(pieces) == 1:
        return pieces[0].__eq__
    if len(pieces) == 2:
        return _ends(pieces[0], pieces[1])
    return _pieces(pieces[0], pieces[1:-1], pieces[-1])


def _ends(first: str, last: str) -> Callable[[str], bool]:
    if not last:
        return lambda text: text.startswith(first)
    if not first:
        return lambda text: text.endswith(last)
    least = len(first) + len(last)
    return lambda text: len(text) >= least and text.startswith(first) and text.endswith(last)


def _pieces(first: str, between: list[str], last: str) -> Callable[[str], bool]:
    """`first%between%…%last`: taking each piece where it comes first leaves the most for the others."""

    def matches(text: str) -> bool:
        start, end = len(first), len(text) - len(last)
        if start > end or not text.startswith(first) or not text.endswith(last):
            return False
        for piece in between:
            start = text.find(piece, start, end)
            if start < 0:
                return False
            start += len(piece)
        return True

    return matches


def _automaton(parts: list[tuple[str, bool]]) -> Callable[[str], bool]:
    """All ways to match at once, as the bits of an integer: bit i is set if the first i characters are matched."""
    loops, size = 0, 0  # bits that stay set whatever comes: before them is a `%`
    one, same = 0, dict[str, int]()  # bits that any character moves on, and those that a certain one does
    for character, wild in parts:
        if (character, wild) == (_ANY, True):
            loops |= 1 << size
            continue
        if wild:
            one |= 1 << size
        else:
            same[character] = same.get(character, 0) | 1 << size
        size += 1
    moves = {character: bits | one for character, bits in same.items()}
    accepted = 1 << size

    def matches(text: str) -> bool:
        state = 1
        for character in text:
            state = (state & moves.get(character, one)) << 1 | state & loops
            if not state:
                return False
        return bool(state & accepted)

    return matches
