"""Request topics: on which a repository is asked for what only some may ask for, by somebody whom the topic names.

A letter is published under an id of 64 bits, made of a principal and of the name under which that principal is
connected. Whoever may choose names finds two with one id by some 2^32 tries. So a letter whose authority is its
principal travels on `$by/NAME/REPOSITORY`, and brokers let only the holder of NAME write there: they compare texts.
"""

from urllib.parse import unquote

from stentor.model.communication import inbox_of

_BY = "$by/"
_TO = "$to/"


def request_topic(requester: str, repository: str) -> str:
    """Return the topic on which whoever is connected under this name asks a repository."""
    return f"{_BY}{inbox_of(requester).removeprefix(_TO)}/{repository}"


def requests_pattern(repository: str) -> str:
    """Return the pattern with which a repository hears everybody who asks it."""
    return f"{_BY}+/{repository}"


def requester_of(topic: str) -> str:
    """Return the name of the only one who writes on a request topic; "" if this is none."""
    if not topic.startswith(_BY):
        return ""
    name, _, repository = topic.removeprefix(_BY).partition("/")
    requester = unquote(name)
    return requester if repository and request_topic(requester, repository) == topic else ""
