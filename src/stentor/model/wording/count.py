"""How many of a thing, in words: the one place that knows plurals."""


def counted(number: int, thing: str) -> str:
    """Return a number with its noun: 1 event, 2,000 events, 0 copies."""
    return f"{number:,} {noun(number, thing)}"


def noun(number: int, thing: str) -> str:
    """Return the noun for so many of a thing."""
    if number == 1:
        return thing
    return f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s"
