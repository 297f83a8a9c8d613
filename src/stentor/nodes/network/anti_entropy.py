"""Anti-entropy: neighbours find out that they do not know the same, and tell each other what the other lacks.

With each heartbeat they compare digests of every scope that they share. Where these differ, and on every new link, they
send inventories: who is in the scope and how new what they know of each member is.
"""

from stentor.model.errors import FrameError, Refusal
from stentor.model.messages import Inventory, Stamp
from stentor.protocols.dissemination.profiles import Profiles
from stentor.protocols.neighbours import Neighbours
from stentor.protocols.overlay.gateways import Gateways


class AntiEntropy:
    """Compares what one broker knows with what its neighbours know."""

    def __init__(self, neighbours: Neighbours, gateways: Gateways, profiles: Profiles) -> None:
        self._neighbours = neighbours
        self._gateways = gateways
        self._profiles = profiles
        self._scopes = gateways.context.scopes
        # Neighbours, and levels, that were asked for what they know better since the last beat: one whose word
        # contradicts its owner's is not believed, and would be asked for ever.
        self._asked: set[tuple[str, int]] = set()

    def digests(self) -> dict[str, int]:
        """Return the digests of all scopes around this broker, the innermost first, once a beat."""
        self._asked.clear()
        return {scope: self._digest(level) for level, scope in enumerate(self._scopes)}

    def send_inventories(self, name: str) -> None:
        """Tell a neighbour how new what we know is, of all scopes that we share."""
        for level in range(self._neighbours[name].level, len(self._scopes)):
            self._neighbours.say(name, self._inventory(level))

    def ask_all(self, level: int) -> None:
        """Tell all neighbours in a scope how new what we know of it is: whoever knows something newer sends it."""
        inventory = self._inventory(level)
        for neighbour in self._neighbours.sharing(level):
            neighbour.port.post(inventory)

    def on_digests(self, name: str, digests: dict[str, int]) -> None:
        for scope, digest in digests.items():
            level = self._shared_level(name, scope)
            if digest != self._digest(level):
                self._neighbours.say(name, self._inventory(level))

    def on_inventory(self, name: str, theirs: Inventory) -> None:
        level = self._shared_level(name, theirs.scope)
        self._gateways.compare(name, level, theirs.presences)
        self._profiles.compare(name, level, theirs.profiles)
        if (name, level) in self._asked:
            return
        ours = self._inventory(level)
        if _is_behind(ours.presences, theirs.presences) or _is_behind(ours.profiles, theirs.profiles):
            self._asked.add((name, level))
            self._neighbours.say(name, ours)

    def _inventory(self, level: int) -> Inventory:
        return Inventory(self._scopes[level], self._gateways.inventory(level), self._profiles.inventory(level))

    def _digest(self, level: int) -> int:
        return self._gateways.digest(level) ^ self._profiles.digest(level)

    def _shared_level(self, name: str, scope: str) -> int:
        """Return the level of a scope that we share with a neighbour."""
        level = self._scopes.index(scope) if scope in self._scopes else -1
        if level < self._neighbours[name].level:
            raise FrameError(Refusal.PROTOCOL, f"{scope!r} is no scope that we share")
        return level


def _is_behind(ours: dict[str, Stamp], theirs: dict[str, Stamp]) -> bool:
    return any(stamp > ours.get(unit, (0, "")) for unit, stamp in theirs.items())
