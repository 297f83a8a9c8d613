"""Name registry: a principal's name has one holder. A newer incarnation fences the older off, never the other way
round."""

from collections.abc import Iterable

from stentor.model.errors import FrameError, Refusal
from stentor.protocols.connection.connection import Connection


class NameRegistry:
    """Who holds which name at this node."""

    def __init__(self) -> None:
        self._holders: dict[tuple[str, str], Connection] = {}

    def claim(self, connection: Connection) -> Connection | None:
        """Give the name to this connection; return the holder that it fences off, if there is one."""
        key = (connection.principal, connection.name)
        holder = self._holders.get(key)
        if holder is not None and holder.incarnation == connection.incarnation and holder.attempt > connection.attempt:
            raise FrameError(Refusal.CLOSING, "this link is older than another of the same client")
        if holder is not None and holder.incarnation > connection.incarnation:
            raise FrameError(
                Refusal.FENCED, f"a newer client holds the name {connection.name!r}: stop, or take another"
            )
        self._holders[key] = connection
        return holder

    def holds(self, connection: Connection) -> bool:
        """Return whether a connection holds its name."""
        return self._holders.get((connection.principal, connection.name)) is connection

    def renew(self, connections: Iterable[Connection]) -> bool:
        """Let these be the holders of their names, the newest of each name; return whether any was another."""
        holders: dict[tuple[str, str], Connection] = {}
        for each in connections:
            key = (each.principal, each.name)
            known = holders.get(key)
            if known is None or (known.incarnation, known.attempt) <= (each.incarnation, each.attempt):
                holders[key] = each
        if holders == self._holders:
            return False
        self._holders = holders
        return True

    def release(self, connection: Connection) -> None:
        """The connection is gone; if it was fenced, the name is another's by now."""
        key = (connection.principal, connection.name)
        if self._holders.get(key) is connection:
            del self._holders[key]

    def __len__(self) -> int:
        return len(self._holders)
