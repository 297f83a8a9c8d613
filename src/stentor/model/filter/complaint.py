"""Complaints: what is wrong with a filter's text, in the words of its author rather than of the grammar."""

from stentor.model.attribute import LARGEST_INTEGER, SMALLEST_INTEGER
from stentor.model.filter.functions import FUNCTIONS, arities

INTEGER_RANGE = f"integers go from {SMALLEST_INTEGER} to {LARGEST_INTEGER}"

_HINTS = {
    "==": "for equality, write =",
    "&&": "write AND",
    "||": "write OR",
    "!": "write NOT",
    "^": "write XOR",
    "[": "write ( for a list",
    "{": "write ( for a list",
    ".": "a name has letters, digits and _; a decimal number has digits before and after the point",
}
_WORDS = {
    "IS": "to ask whether an attribute is there, write EXISTS name",
    "BETWEEN": "write name >= … AND name <= …",
}


def unreadable(text: str, position: int, expected: set[str]) -> str:
    """A character that starts nothing."""
    character = text[position]
    if character in "'\"":
        return f"this string never ends: {character} is missing"
    for sign, hint in _HINTS.items():
        if text.startswith(sign, position):
            return f"{sign!r} means nothing here: {hint}"
    return f"{character!r} means nothing here: expected {_expectation(expected)}"


def unfinished(text: str, expected: set[str]) -> str:
    """A text that ends too early."""
    if not text.strip():
        return "the filter is empty: write a condition such as price > 90.0, or TRUE for every event"
    return f"the filter ends too early: expected {_expectation(expected)}"


def unexpected(text: str, found: str, position: int, expected: set[str]) -> str:
    """A word or sign in the wrong place."""
    before = text[:position].rstrip()
    if found == "=" and before.endswith("="):
        return f"'==' means nothing here: {_HINTS['==']}"
    if found.upper() in _WORDS:
        return f"{found!r} is not a word of filters: {_WORDS[found.upper()]}"
    if found[0] in "'\"" and text[position - 1 : position] == found[0]:
        return f"expected {_expectation(expected)}; to have {found[0]} in a string, write \\{found[0]}"
    shown = found if len(found) <= 40 else f"{found[:40]}…"
    return f"expected {_expectation(expected)}, not {shown}"


def no_function(name: str, arity: int) -> str:
    """A call that no function answers."""
    if name.upper() in FUNCTIONS:
        return f"{name.upper()} takes {arities(name.upper())}, not {arity}"
    return f"there is no function {name}: there are {', '.join(sorted(FUNCTIONS))}"


def _expectation(expected: set[str]) -> str:
    """What could come next: either a value begins, or one has ended."""
    if "INTEGER" in expected:
        choices = ["an attribute, a value or ("]
        if "CLOSE" in expected:
            choices.append(")")
    elif "NAME" in expected:
        choices = ["the name of an attribute"]
    elif "STRING" in expected:
        choices = ["a pattern in quotes, such as 'abc%'"]
    elif "COMPARE" in expected or "LOGIC" in expected:
        choices = ["an operator such as = or AND"]
        choices += [sign for terminal, sign in (("COMMA", "','"), ("CLOSE", ")")) if terminal in expected]
        choices += ["the end"] if "$END" in expected else []
    elif "LIKE" in expected:
        choices = ["LIKE", "IN"]
    else:
        choices = ["("]
    return " or ".join(choices)
