"""The links that this broker opens, and opens again whenever they are lost."""

from collections.abc import Container, Iterable

import msgspec

from stentor.machine import MILLISECOND, SECOND, Dial, StartTimer, Step, StopTimer, Timer
from stentor.model.ids import LinkId
from stentor.nodes.network.acquaintance import Acquaintance
from stentor.nodes.network.settings import GatewaySettings

_FIRST_PAUSE_NS = 50 * MILLISECOND  # a broker that was started again is there before anybody notices
_PAUSE_MAX_NS = 5 * SECOND  # as long as a client waits at most between two tries


class Redial(Timer, frozen=True, gc=False, tag="redial neighbour"):
    """The pause after a link that this broker had dialled is over."""

    address: str


class OutgoingLink:
    """A link that is opened from here."""

    __slots__ = ("link", "pause_ns", "settings")

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self.link: LinkId | None = None  # None while none is open, or being opened
        self.pause_ns = _FIRST_PAUSE_NS  # before it is dialled again


class OutgoingLinks:
    """All links that one broker opens, by address. `neighbours` are the brokers that have a link with it."""

    def __init__(
        self, settings: Iterable[GatewaySettings], heartbeat_ns: int, neighbours: Container[str], step: Step
    ) -> None:
        chosen = tuple(settings)
        self.links = {each.address: OutgoingLink(each) for each in chosen if not each.is_requested}
        self.requested = {each.name: each for each in chosen if each.is_requested}  # that plans shall bring, by broker
        self.acquaintance = Acquaintance(step)
        self.dialled = 0  # how often, to all addresses
        self._pause_max_ns = min(_PAUSE_MAX_NS, 2 * heartbeat_ns)
        self._neighbours = neighbours
        self._step = step
        self._has_begun = False

    def begin(self) -> None:
        self._has_begun = True
        self.acquaintance.begin(self.links)
        for outgoing in self.links.values():
            self._dial(outgoing)

    def open(self, settings: GatewaySettings) -> None:
        """Open one more link from here."""
        if settings.address in self.links:  # ordered twice before the first was written down
            return
        outgoing = self.links[settings.address] = OutgoingLink(settings)
        if self._has_begun:
            self._dial(outgoing)

    def open_for_tree(self, address: str) -> None:
        self._step.report("info", "adding a link to join the tree of a scope", to=address)
        self.open(GatewaySettings(address=address))

    def request(self, settings: GatewaySettings) -> None:
        """Have a plan bring one more link from here."""
        self.requested[settings.name] = settings

    def dials(self, name: str) -> bool:
        """Return whether links to a broker are opened from here."""
        return any(outgoing.settings.name == name for outgoing in self.links.values())

    def remove(self, address: str) -> None:
        """Open a link no more; one that is open stays."""
        if self.links.pop(address, None) is not None:
            self.acquaintance.on_answer(address)
            self._step.emit(StopTimer(Redial(address)))

    def _dial(self, outgoing: OutgoingLink) -> None:
        if outgoing.settings.name in self._neighbours:
            self._redial_after(outgoing, _PAUSE_MAX_NS)
            return
        self.dialled += 1
        outgoing.link = LinkId(-self.dialled)  # those that others dial have positive ones
        self._step.emit(Dial(outgoing.link, outgoing.settings.address))

    def _redial_after(self, outgoing: OutgoingLink, pause_ns: int) -> None:
        redial = Redial(outgoing.settings.address)
        self._step.emit(StartTimer(redial, self._step.now + pause_ns, pause_ns // 2))

    def on_redial(self, redial: Redial) -> None:
        outgoing = self.links.get(redial.address)
        if outgoing is not None and outgoing.link is None:
            self._dial(outgoing)

    def find(self, link: LinkId) -> OutgoingLink | None:
        """Return which of them a link is; None if somebody else opened it, or nobody wants it any more."""
        return next((each for each in self.links.values() if each.link == link), None)

    def on_welcome(self, outgoing: OutgoingLink, name: str) -> None:
        """The broker there has said who it is."""
        outgoing.pause_ns = _FIRST_PAUSE_NS
        outgoing.settings = msgspec.structs.replace(outgoing.settings, name=name)

    def on_compared(self, name: str) -> None:
        """A broker has told all that it knows of who may do what."""
        for outgoing in self.links.values():
            if outgoing.settings.name == name:
                self.acquaintance.on_answer(outgoing.settings.address)

    def on_loss(self, link: LinkId, reason: str) -> None:
        """A link that was dialled is not, or no longer, there."""
        outgoing = self.find(link)
        if outgoing is None:
            return
        outgoing.link = None
        self.acquaintance.on_answer(outgoing.settings.address)
        self._redial_after(outgoing, outgoing.pause_ns)
        self._step.report("debug", "gateway lost", address=outgoing.settings.address, reason=reason)
        outgoing.pause_ns = min(2 * outgoing.pause_ns, self._pause_max_ns)
