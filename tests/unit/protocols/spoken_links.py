"""What other brokers say of their links, for tests that stand in their place."""

from collections.abc import Iterable

from stentor.model.ids import link_number
from stentor.model.messages import Gateway

_ANY_LINK = 1  # both ends of a link that is not ours call it so


def spoken_links(own: str, neighbours: Iterable[str], unit: str, *others: str) -> tuple[Gateway, ...]:
    """Return what a unit says of its links to others; those to us have the numbers by which we call them."""
    ours = [link_number(own, each) for each in neighbours if f"{each}/".startswith(f"{unit}/")]
    return tuple(
        Gateway(other, number, 1000)
        for other in others
        for number in (_ANY_LINK, *(ours if f"{own}/".startswith(f"{other}/") else ()))
    )
