"""Shortcuts: links that brokers add by themselves where paths between the members of a unit are too long on average.

All brokers of a scope know the same members and links, so all find the same best shortcuts. The speaker of the first
end of one asks the root for a link to the second: a plan brings it, since it moves the ways of events. The speaker
waits the longer, the more pairs there are that would shorten paths more: so one link is made at a time, the next is
chosen when everybody knows of it, and one that cannot be made holds nobody up. Links are never taken away because paths
got short: whoever removes what it has added would add it again.
"""

from stentor.machine import Step
from stentor.model.messages import Presence
from stentor.nodes.network.outgoing_links import OutgoingLinks
from stentor.nodes.network.settings import GatewaySettings
from stentor.protocols.overlay.gateways import Gateways

MOST_LINKS = 8  # of a member to others of its scope: more would make one that everybody is linked to
_PATIENCE = 6  # beats: three heartbeats, until what happened to a link is known to all
_TURN = 4  # beats that a worse shortcut waits for a better one to be made and told


class Shortcuts:
    """What one broker does for shorter paths."""

    def __init__(self, gateways: Gateways, longest: float, outgoing: OutgoingLinks, step: Step) -> None:
        """`longest` is what the average of every scope may be; 0 is anything."""
        self._gateways = gateways
        self._longest = longest
        self._outgoing = outgoing
        self._step = step
        self._waits: dict[int, tuple[str, int]] = {}  # by level: to whom a link is due, and for how many beats
        self.made: dict[str, Presence] = {}  # by address, the members that links from here were asked for to

    @property
    def is_waiting(self) -> bool:
        """Whether a link is about to be made."""
        return bool(self._waits)

    def beat(self) -> None:
        if not self._longest:
            return
        graph = self._gateways.graph
        for address, member in list(self.made.items()):
            known = graph.find(member.unit)
            if known is None or known.left:
                del self.made[address]
                self._outgoing.remove(address)
                self._outgoing.withdraw(member.speaker)
        for level in range(graph.context.depth):
            self._look(level)

    def _look(self, level: int) -> None:
        due = self._find(level) if self._gateways.speaks(level) else None
        if due is None:
            self._waits.pop(level, None)
            return
        member, patience = due
        beats = self._waits[level][1] + 1 if self._waits.get(level, ("",))[0] == member.unit else 1
        self._waits[level] = member.unit, beats
        if beats >= patience:
            del self._waits[level]
            self.made[member.address] = member
            self._outgoing.request(GatewaySettings(name=member.speaker, address=member.address, is_requested=True))
            self._step.report("info", "asking for a link to shorten paths", to=member.speaker)

    def _find(self, level: int) -> tuple[Presence, int] | None:
        """Return to whom a link from our unit of a level would help, and how long to wait for others."""
        graph = self._gateways.graph
        paths, own = graph.paths(level), graph.context.units[level]
        if paths.average <= self._longest:
            return None
        for rank, (one, other) in enumerate(paths.shortcuts(MOST_LINKS)):
            presence = graph.find(other)
            if one == own and presence is not None and presence.address and presence.address not in self.made:
                return presence, _PATIENCE + _TURN * rank
        return None
