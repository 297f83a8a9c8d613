"""What somebody probably meant who wrote a word that nobody knows: a key, a name, an option."""

from collections.abc import Iterable
from difflib import get_close_matches

_MOST_KNOWN = 20  # more names in one sentence than these are not read


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    spellings = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), spellings, n=1, cutoff=0.6)
    if not found and len(word) > 1:
        found = [name for name in spellings if name.startswith(word.lower())]
    return spellings[found[0]] if found else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of a sentence that says what to write instead."""
    choices = list(known)
    meant = nearest(word, choices)
    if meant:
        return f"; did you mean {meant!r}?"
    more = f" and {len(choices) - _MOST_KNOWN} more" if len(choices) > _MOST_KNOWN + 1 else ""
    return f"; known are {', '.join(choices[: _MOST_KNOWN if more else None])}{more}"
