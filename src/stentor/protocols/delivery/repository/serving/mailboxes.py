"""Mailboxes: for whom a repository keeps mail. Whoever mail is sent to is a subscriber from then on, come or not.

A name becomes a subscriber in the commit that makes the first mail for it durable, at every repository that stores this
mail. So wherever the name appears, and whichever repository is left by then, the mail is there.
"""

from collections.abc import Callable, Mapping

from stentor.model.mail import RECIPIENT, recipients_of
from stentor.protocols.delivery.repository.serving.dissemination_table import DisseminationTable
from stentor.wire.block import Block

MOST_NAMES = 10_000  # each is a fact that is written down, and looked at whenever something is forgotten


class Mailboxes:
    """The names to which mail was sent that is being stored."""

    def __init__(self, table: DisseminationTable, *, is_mail: bool) -> None:
        """Of any other topic than that of mail, `audience` is the table's own."""
        self.is_mail = is_mail
        self._table = table
        self._new: dict[str, None] = {}  # names of this step that are no subscribers yet
        self.audience: Callable[[Block], Mapping[int, bytes]] = self._audience if self.is_mail else table.audience

    def _audience(self, block: Block) -> Mapping[int, bytes]:
        """Return the destinations of new events, by slot; remember who is to become one."""
        self._new.update(self._unknown(block))
        return self._table.audience(block)

    def has_room(self, block: Block) -> bool:
        """Return whether all whom these events are for can become subscribers: else the events must not be taken."""
        return not self.is_mail or len(self._table.destinations) + len(self._new | self._unknown(block)) <= MOST_NAMES

    def _unknown(self, block: Block) -> dict[str, None]:
        column = block.column(RECIPIENT)
        names = recipients_of(() if column is None else column.to_list())
        return {name: None for name in names if name not in self._table.destinations}

    def take_addressees(self) -> list[str]:
        """Remove and return the names that become subscribers. What is stored for them already is matched with their
        filters when they read it.
        """
        names, self._new = self._new, {}
        return list(reversed(names))
