"""The links that this broker opens, and opens again whenever they are lost."""

from collections.abc import Container, Iterable

import msgspec

from stentor.machine import MILLISECOND, SECOND, Dial, StartTimer, Step, StopTimer, Timer
from stentor.model.ids import LinkId
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.network.acquaintance import Acquaintance
from stentor.nodes.network.settings import GatewaySettings

_FIRST_PAUSE_NS = 50 * MILLISECOND  # a broker that was started again is there before anybody notices
_PAUSE_MAX_NS = 5 * SECOND  # as long as a client waits at most between two tries
_DIALLING_MAX_NS = 10 * SECOND  # then a dialler gives up
_AHEAD_NS = MILLISECOND  # by which numbers may be ahead of the clock they come from: what is more is damage


class Redial(Timer, frozen=True, gc=False, tag="redial neighbour"):
    """The pause after a link that this broker had dialled is over."""

    address: str


class OutgoingLink:
    """A link that is opened from here."""

    __slots__ = ("due_at", "link", "pause_ns", "settings")

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self.link: LinkId | None = None  # None while none is open, or being opened
        self.due_at = 0  # by when it is open, lost or dialled again
        self.pause_ns = _FIRST_PAUSE_NS  # before it is dialled again


class OutgoingLinks:
    """All links that one broker opens, by address. `neighbours` are the brokers that have a link with it."""

    def __init__(
        self, settings: Iterable[GatewaySettings], heartbeat_ns: int, neighbours: Container[str], step: Step
    ) -> None:
        chosen = tuple(settings)
        # The configuration, as orders and plans have changed it since: which links are opened, by address, and which
        # ones plans shall bring, by broker. All else follows from that.
        self._wanted = {each.address: each for each in chosen if not each.is_requested}
        self.requested = {each.name: each for each in chosen if each.is_requested}
        self.links = {address: OutgoingLink(each) for address, each in self._wanted.items()}
        self.acquaintance = Acquaintance(step)
        self.last_number = 0  # of those that links have got
        self._pause_max_ns = max(_FIRST_PAUSE_NS, min(_PAUSE_MAX_NS, 2 * heartbeat_ns))
        self._late_ns = 2 * heartbeat_ns  # for which a node may stand still before it notices that it has slept
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
        self._wanted[settings.address] = settings
        outgoing = self.links[settings.address] = OutgoingLink(settings)
        if self._has_begun:
            self._dial(outgoing)

    def open_for_tree(self, address: str) -> None:
        self._step.report("info", "adding a link to join the tree of a scope", to=address)
        self.open(GatewaySettings(address=address))

    def request(self, settings: GatewaySettings) -> None:
        """Have a plan bring one more link from here."""
        self.requested[settings.name] = settings

    def withdraw(self, name: str) -> None:
        """No plan shall bring a link to this broker any more."""
        self.requested.pop(name, None)

    def dials(self, name: str) -> bool:
        """Return whether links to a broker are opened from here."""
        return any(outgoing.settings.name == name for outgoing in self.links.values())

    def remove(self, address: str) -> None:
        """Open a link no more; one that is open stays."""
        self._wanted.pop(address, None)
        if self.links.pop(address, None) is not None:
            self.acquaintance.on_answer(address)
            self._step.emit(StopTimer(Redial(address)))

    def _dial(self, outgoing: OutgoingLink) -> None:
        if outgoing.settings.name in self._neighbours:
            self._redial_after(outgoing, _PAUSE_MAX_NS)
            return
        # from the clock, so that whatever is remembered of former numbers, none is given again
        ahead = self.last_number - self._step.now
        self.last_number = self.last_number + 1 if 0 <= ahead < _AHEAD_NS else self._step.now
        outgoing.due_at = self._latest
        outgoing.link = LinkId(-self.last_number)  # those that others dial have positive ones
        self._step.emit(Dial(outgoing.link, outgoing.settings.address))

    @property
    def _latest(self) -> int:
        """By when a link that is dialled now is open or lost, even if this node stands still for a while."""
        return self._step.now + _DIALLING_MAX_NS + self._late_ns

    def _redial_after(self, outgoing: OutgoingLink, pause_ns: int) -> None:
        redial = Redial(outgoing.settings.address)
        outgoing.due_at = self._step.now + 2 * pause_ns + self._late_ns
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
        self.change(outgoing, msgspec.structs.replace(outgoing.settings, name=name))

    def change(self, outgoing: OutgoingLink, settings: GatewaySettings) -> None:
        """Something else than before is known of a link that is opened from here."""
        outgoing.settings = self._wanted[settings.address] = settings

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
        self._clamp(outgoing)
        self._redial_after(outgoing, outgoing.pause_ns)
        self._step.report("debug", "gateway lost", address=outgoing.settings.address, reason=reason)
        outgoing.pause_ns = min(2 * outgoing.pause_ns, self._pause_max_ns)

    # ---- damage

    def audit(self, sessions: Iterable[LinkSession], *, has_slept: bool) -> int:
        """Hold the links against the configuration, and their numbers against the sessions that were opened from here;
        return how often something was wrong.
        """
        dialled = {each.connection.address: each.connection.link for each in sessions if each.greeting is not None}
        strange = [at for at, each in self.links.items() if at not in self._wanted or each.settings.address != at]
        for address in strange:
            del self.links[address]
        for address in sorted(self._wanted.keys() - self.links.keys()):
            self.links[address] = OutgoingLink(self._wanted[address])
        if has_slept:  # whatever was due meanwhile comes now
            for outgoing in self.links.values():
                outgoing.due_at = self._latest
        return len(strange) + sum(self._mend(each, dialled.get(address)) for address, each in self.links.items())

    def _mend(self, outgoing: OutgoingLink, opened: LinkId | None) -> bool:
        """Give a link the number under which it was opened; dial again what is neither open nor being opened. Return
        whether anything was wrong.
        """
        is_wrong = self._clamp(outgoing)
        if opened is not None:
            is_wrong |= outgoing.link != opened
            outgoing.link = opened
            return is_wrong
        if self._step.now <= outgoing.due_at:
            return is_wrong
        if outgoing.link is None:
            self._dial(outgoing)
        else:
            self.on_loss(outgoing.link, "nobody opens it")
        return True

    def _clamp(self, outgoing: OutgoingLink) -> bool:
        """Let what is due at a time that cannot be, be due now; return whether there was such a time."""
        is_due_wrong = outgoing.due_at > self._latest
        is_pause_wrong = not _FIRST_PAUSE_NS <= outgoing.pause_ns <= self._pause_max_ns
        if is_due_wrong:
            outgoing.due_at = self._step.now
        if is_pause_wrong:
            outgoing.pause_ns = _FIRST_PAUSE_NS
        return is_due_wrong or is_pause_wrong
