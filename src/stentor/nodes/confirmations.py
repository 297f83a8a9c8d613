"""Confirmations: how a client finds out that its broker has taken in what it published.

A marker is sent after the events that it is about, and comes back as an echo. Whoever asked for a *flush* counts on its
answer: if events may be lost with a link, it is told so, now or when it asks next. Whoever asked for a *check* only
wants to know whether events on a topic were refused, and is let go if the link breaks.
"""

from stentor.model.messages import Ping
from stentor.protocols.connection.outbox import Outbox

DEPARTURE = 0  # the token of a marker for which nobody but the client itself waits


class Confirmations:
    """What one client was asked to confirm, on one link after the other."""

    def __init__(self) -> None:
        self._requested: list[int] = []  # tokens that wait for what was offered before them to leave
        self._markers: dict[int, int] = {}  # tokens that were sent, with the events that went before them
        self._checks: set[int] = set()  # Those among the tokens that nobody counts on. Invariant: ⊆ both of the above.
        self._confirmed = 0  # events on this link that the broker has taken in
        self._doubt = ""  # why something that was sent since the last flush may be lost

    def request_flush(self, token: int) -> str:
        """Take a flush in, or return why something that was sent before may be lost."""
        doubt, self._doubt = self._doubt, ""
        if not doubt:
            self._requested.append(token)
        return doubt

    def request_check(self, token: int) -> None:
        self._checks.add(token)
        self._requested.append(token)

    @property
    def are_requested(self) -> bool:
        return bool(self._requested)

    def mark(self, outbox: Outbox) -> None:
        """Everything offered so far has left: send markers after it."""
        for token in self._requested:
            outbox.post(Ping(token))
            self._markers[token] = outbox.events
        self._requested = []

    def mark_departure(self, outbox: Outbox) -> None:
        """Nothing more will be sent on this link: have confirmed what was."""
        self._checks.add(DEPARTURE)
        self._markers[DEPARTURE] = outbox.events
        outbox.post(Ping(DEPARTURE))

    def on_echo(self, token: int) -> bool:
        """Return whether somebody waits for this marker."""
        events = self._markers.pop(token, None)
        if events is None:
            return False
        self._confirmed = events
        self._checks.discard(token)
        return True

    def on_link_up(self) -> None:
        self._confirmed = 0

    def on_link_lost(self, outbox: Outbox | None, reason: str, questions: list[int]) -> list[int]:
        """Return the tokens that are not answered any more, with those of other questions that were asked."""
        unknown = [*self._markers, *questions]
        if outbox is not None and outbox.events > self._confirmed:
            if self._checks.issuperset((*unknown, *self._requested)):
                self._doubt = reason  # the next flush must not claim what may be lost with this link
            unknown += self._requested
            self._requested.clear()
        self._checks.difference_update(unknown)
        self._markers.clear()
        return [token for token in unknown if token != DEPARTURE]
