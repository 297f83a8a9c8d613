"""Filters in a file, to be tried on history."""

import re
from typing import Final

from stentor.model.errors import FilterError, InvalidInput
from stentor.model.filter import Filter

_NAMED: Final = re.compile(r"([\w.-]+)\s*:\s*(.*)")  # a colon is nothing that an expression could begin with


def parse_filters(text: str) -> dict[str, Filter]:
    """One a line, `name: expression` or just that, by name; what is empty or begins with # is passed over."""
    found: dict[str, Filter] = {}
    wrong = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        named = _NAMED.fullmatch(stripped)
        name, expression = (named[1], named[2]) if named else (stripped, stripped)
        try:
            where = Filter(expression)
        except FilterError as error:
            wrong.append(f"line {number}: {error}")
            continue
        if name in found:
            wrong.append(f"line {number}: {name!r} is there already")
        found[name] = where
    if wrong:
        raise InvalidInput("\n".join(wrong))
    if not found:
        raise InvalidInput("there is no filter in it")
    return found
