"""Places: what nodes and operators may be in a fabric, and what proves it.

A node's certificate names its places as URIs among its subject alternative names: `stentor:scope/campus/library` is
every broker of that unit, or the broker of that name, `stentor:repository/r1` one repository; a kind without a name is
all of its kind. Without TLS the fabric's token proves every place.
"""

from collections.abc import Iterable

SCHEME = "stentor:"
SCOPE = "scope/"
REPOSITORY = "repository/"
EVERYWHERE = (SCOPE, REPOSITORY)

REPOSITORY_NAME = "repository:"  # what a repository's name begins with on its link
OPERATOR_NAME = "operator:"  # what the name of an operator begins with, who may drain repositories and change topics

UNPROVED = "only operators can do that, who prove the fabric's token: --token FILE, or STENTOR_TOKEN"


def is_node_name(name: str) -> bool:
    """Return whether only nodes and operators may be called so."""
    return name.startswith((REPOSITORY_NAME, OPERATOR_NAME))


def is_operator_name(name: str) -> bool:
    return name.startswith(OPERATOR_NAME)


def may_join(places: Iterable[str], broker: str) -> bool:
    """Return whether these places include that of a broker."""
    return any(
        scope == "" or broker == scope or broker.startswith(scope + "/")
        for scope in (place.removeprefix(SCOPE) for place in places if place.startswith(SCOPE))
    )


def may_store(places: Iterable[str], repository: str) -> bool:
    """Return whether these places include that of a repository."""
    return any(place in (REPOSITORY, REPOSITORY + repository) for place in places)


def may_operate(places: Iterable[str]) -> bool:
    """Return whether these places are the whole network."""
    return SCOPE in places


def described(places: Iterable[str]) -> str:
    """Return the places as people are told of them."""
    return ", ".join(SCHEME + place for place in places)
