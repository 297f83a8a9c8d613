"""A stream between two hosts: two pipes, and two sides that may disagree about whether it still exists."""

from typing import TYPE_CHECKING

from stentor.machine import LinkLost, LinkOpened, Received
from stentor.model.ids import LinkId
from stentor.simulation.links.pipe import Pipe

if TYPE_CHECKING:
    from stentor.simulation.links.network import NetworkHost, SimNetwork


class StreamEnd:
    """One end of a stream. Until it is `closed` its machine believes in the link."""

    __slots__ = ("_doomed", "_network", "closed", "host", "id", "link", "out")

    def __init__(self, network: "SimNetwork", host: "NetworkHost", link: LinkId) -> None:
        self._network = network
        self.host = host
        self.id = link
        self.link: StreamLink | None = None
        self.out: Pipe | None = None
        self.closed = False
        self._doomed = False

    def send(self, data: bytes) -> None:
        if self.out is None or self.closed:
            return
        assert self.link is not None
        if self.link.severed:
            self._provoke_reset()
        self.out.send(data)
        self._network.most_in_flight = max(self._network.most_in_flight, self.out.in_flight)

    def close(self) -> None:
        unread = self.link is not None and self.link.unread(self)
        self._leave()
        if self.out is None:
            return
        assert self.link is not None
        if unread and self._network.random.random() < 0.3:
            # As TCP does: closing with unread bytes resets the link, and the last words may be lost.
            self.out.cut()
            self._reset_peer(self.link)
        else:
            self.out.finish("the peer closed the link")

    def abandon(self, silent: bool) -> None:
        self._leave()
        if self.link is None or self.link.severed:
            return
        if not silent and self._network.random.random() < 0.5:
            assert self.out is not None
            self.out.finish("the peer closed the link")
            return
        self.link.sever()
        if silent:
            self._network.notify_late(self.link.peer(self), "no route to host")
        else:
            self._reset_peer(self.link)

    def lose(self, reason: str) -> None:
        """The operating system learns that the link is gone, and tells the machine."""
        self.host.soon(lambda: self._lose(reason))

    def receive(self, data: bytes) -> None:
        self.host.soon(lambda: self._receive(data))

    def opened(self, happened: LinkOpened) -> None:
        self.host.soon(lambda: self._opened(happened))

    def _opened(self, happened: LinkOpened) -> None:
        if not self.closed:
            self.host.handle(happened)

    def _receive(self, data: bytes) -> None:
        if not self.closed:
            self.host.handle(Received(self.id, data))

    def _lose(self, reason: str) -> None:
        if self.closed:
            return
        self._leave()
        if self.out is not None:
            self.out.cut()
        self.host.handle(LinkLost(self.id, reason))

    def _leave(self) -> None:
        """This side is done with the link."""
        self.closed = True
        self.host.links.pop(self.id, None)
        if self.link is not None:
            self.link.leave(self)

    def _reset_peer(self, link: "StreamLink") -> None:
        peer = link.peer(self)
        if self._network.blocked(self.host.name, peer.host.name):
            self._network.notify_late(peer, "timed out")
        else:
            self._network.notify_soon(peer, "connection reset by peer")

    def _provoke_reset(self) -> None:
        """Bytes for a link that the other side has forgotten are answered with a reset, unless something eats them."""
        assert self.link is not None
        peer = self.link.peer(self).host
        if peer.up and not self.link.mute and not self._doomed and not self._network.blocked(self.host.name, peer.name):
            self._doomed = True
            self._network.notify_soon(self, "connection reset by peer")


class StreamLink:
    """A stream; the first of its ends dialled it."""

    __slots__ = ("_network", "ends", "mute", "severed")

    def __init__(self, network: "SimNetwork", near: StreamEnd, far: StreamEnd) -> None:
        self._network = network
        self.ends = (near, far)
        self.severed = False
        self.mute = network.random.random() < 0.5  # once severed, it swallows whatever is sent on it

    def open(self) -> None:
        """The far side knows of it now, the near side when the answer has arrived."""
        near, far = self.ends
        schedule, faults = self._network.schedule, self._network.sky
        answered = schedule.now + faults.delay()
        near.link = far.link = self
        near.out = Pipe(schedule, faults, far.receive, far.lose)
        far.out = Pipe(schedule, faults, near.receive, near.lose, not_before=answered)
        far.host.links[far.id] = far
        schedule.at(answered, self._answer)
        far.opened(LinkOpened(far.id, address=near.host.name))

    def sever(self) -> None:
        """Nothing gets through any more, and what is under way is lost."""
        self.severed = True
        for end in self.ends:
            assert end.out is not None
            end.out.cut()

    @property
    def is_sound(self) -> bool:
        """Whether both sides believe in it, and what either of them sends gets through."""
        one, other = (end.host.name for end in self.ends)
        is_blocked = self._network.blocked(one, other) or self._network.blocked(other, one)
        return not (self.severed or is_blocked or any(end.closed for end in self.ends))

    def peer(self, end: StreamEnd) -> StreamEnd:
        return self.ends[self.ends[0] is end]

    def unread(self, end: StreamEnd) -> bool:
        """Whether bytes are under way to this side."""
        pipe = self.peer(end).out
        return pipe is not None and pipe.in_flight > 0

    def leave(self, end: StreamEnd) -> None:
        """One side does not listen any more; when both are gone, so is the link."""
        peer = self.peer(end)
        assert peer.out is not None
        peer.out.cut()
        if peer.closed:
            self._network.forget(self)

    def _answer(self) -> None:
        near, far = self.ends
        near.opened(LinkOpened(near.id, dialled=True, address=far.host.name))
