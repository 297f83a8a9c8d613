"""Returning links: links between brokers that were lost, and are there again.

A way that changes outside a wave lets events overtake each other. So a link that comes back is hidden at first:
control goes over it, events do not, and whoever hides it asks for a plan that brings it. Both ends must hide it,
since units are seen from outside as one: a link of which one end speaks counts if another link joins the same units.
A broker that was started again does not know that the link was lost, so the other end says so. A link without which
somebody could not be reached is used at once, and so is one for which no plan came in time.
"""

from collections.abc import Callable

from stentor.machine import Step
from stentor.model.messages import LinkReturned
from stentor.protocols.neighbours import Neighbours
from stentor.protocols.overlay.gateways import Gateways


class ReturningLinks:
    """The links of one broker that come back after a fault. Invariants: just those neighbours are hidden whose times
    are in `_hidden_at`; none of these is in `_brought`.
    """

    def __init__(self, gateways: Gateways, neighbours: Neighbours, wait_ns: Callable[[int], int], step: Step) -> None:
        """`wait_ns` tells how long plans of the scope of a level may take to bring a link."""
        self._gateways = gateways
        self._neighbours = neighbours
        self._wait_ns = wait_ns
        self._step = step
        self._lost: set[str] = set()  # neighbours whose links were lost in this life
        self._hidden_at: dict[str, int] = {}
        self._brought: dict[str, int] = {}  # links that are used now, and since when each had been hidden

    def on_loss(self, name: str) -> None:
        """The link to a neighbour is gone."""
        self._hidden_at.pop(name, None)
        self._brought.pop(name, None)
        self._lost.add(name)

    def forget(self, name: str) -> None:
        """The link to a neighbour is gone for good: if there is one again, somebody has ordered it."""
        self._lost.discard(name)

    def is_return(self, name: str, unit: str) -> bool:
        """Return whether a link that comes up was lost before, and nobody needs it at once."""
        return name in self._lost and self._gateways.graph.reaches(unit)

    def hide(self, name: str) -> None:
        """Let no event use a link until a plan brings it."""
        self._hidden_at.setdefault(name, self._step.now)
        self._gateways.hide(name, hidden=True)
        self._neighbours.say(name, LinkReturned())

    def hide_again(self, name: str) -> None:
        """The plan that brought a link is undone. A link that has waited for plans long enough stays in use."""
        since = self._brought.get(name)
        if since is not None and name in self._neighbours and not self._is_late(name, since):
            self._hidden_at[name] = self._brought.pop(name)
            self.hide(name)

    def on_returned(self, name: str) -> None:
        """The other end of a link hides it."""
        gateways = self._gateways
        is_needed = not gateways.graph.reaches(self._neighbours[name].unit) or gateways.is_bridge(name)
        if name not in self._hidden_at and name not in self._brought and not is_needed:
            self.hide(name)

    def reveal(self, name: str) -> None:
        """Let events use a link from now on; nothing if they do."""
        since = self._hidden_at.pop(name, None)
        if since is not None and name in self._neighbours:
            self._brought[name] = since
            self._gateways.hide(name, hidden=False)

    @property
    def names(self) -> list[str]:
        """The neighbours to whom no event goes yet."""
        return sorted(self._hidden_at)

    def look(self) -> None:
        """Use links at once without which somebody cannot be reached, or for which no plan came."""
        now = self._step.now
        for name in self.names:
            neighbour = self._neighbours[name]
            hidden_at = self._hidden_at[name] = min(self._hidden_at[name], now)  # a time that lies ahead is damage
            is_late = self._is_late(name, hidden_at)
            if is_late or not self._gateways.graph.reaches(neighbour.unit):
                self.reveal(name)
                if not is_late:  # once there is another way, the other end's word may hide it again
                    del self._brought[name]
                self._step.report("info", "link used again", peer=name, reason="no plan came" if is_late else "needed")

    def _is_late(self, name: str, since: int) -> bool:
        """Return whether a link has waited for plans long enough."""
        return self._step.now - since > self._wait_ns(self._neighbours[name].level)

    def beat(self) -> None:
        """Forget those who are gone for good."""
        self._lost = {name for name in self._lost if self._gateways.knows(name)}
        self._brought = {name: since for name, since in self._brought.items() if name in self._neighbours}
        for name, neighbour in self._neighbours.items():
            if neighbour.hidden is not (name in self._hidden_at):  # damage
                self._gateways.hide(name, hidden=name in self._hidden_at)
        self.look()
        for name in self._hidden_at:
            self._neighbours.say(name, LinkReturned())
