"""What becomes of a client's link, for Python's `logging`; the application decides whether and where it is shown.

A client tries for ever to reach its broker. A trouble is told when it begins, not each time that a retry meets it.
"""

import logging
from collections.abc import Sequence

from stentor.client.losses import LostEvents
from stentor.model.wording.count import counted
from stentor.nodes.client import MOVING


class LinkLog:
    """Tells what happens to one client, or to one named publisher or subscription."""

    def __init__(self, logger: str, who: str) -> None:
        self._logger = logging.getLogger(logger)
        self._who = who
        self._is_up = False
        self._troubles: set[str] = set()  # told since the last time that all was well
        self._missed: dict[str, int] = {}  # events of each subscription, so far
        self._missed_told: dict[str, int] = {}

    def up(self, node: str, url: str) -> None:
        self._is_up = True
        self._troubles.clear()
        self._logger.info("%s: connected to broker %s (%s)", self._who, node, url)

    def down(self, reason: str, url: str) -> None:
        was_up, self._is_up = self._is_up, False
        if reason == MOVING:
            return
        if was_up:
            self._troubles.add(reason)
            self._logger.warning("%s: lost its link to %s (%s); it reconnects", self._who, url, reason)
        else:
            self._trouble(reason, f"no connection to {url}")

    def moving(self, url: str) -> None:
        self._logger.info("%s: moves to %s", self._who, url)

    def steered(self, repository: str) -> None:
        self._troubles.clear()
        self._logger.info("%s: steered by repository %s", self._who, repository)

    def unsteered(self, reason: str) -> None:
        self._trouble(reason, "no repository steers it")

    def missed(self, pattern: str, events: int) -> None:
        """A slow application may miss events all the time: it is told again when their number has doubled."""
        total = self._missed[pattern] = self._missed.get(pattern, 0) + events
        if total >= 2 * self._missed_told.get(pattern, 0):
            self._missed_told[pattern] = total
            self._logger.warning("%s: missed %d events of %r so far: it reads too slowly", self._who, total, pattern)

    def lost(self, events: Sequence[LostEvents]) -> None:
        if events:
            count = counted(sum(each.last - each.first + 1 for each in events), "event")
            which = ", ".join(f"{each.first} … {each.last} of {each.name or each.publisher}" for each in events)
            self._logger.error("%s: lost %s, damaged and given up: %s", self._who, count, which)

    def refused(self, error: Exception) -> None:
        """The client is over."""
        self._logger.error("%s: %s: %s", self._who, type(error).__name__.lower(), error)

    def _trouble(self, reason: str, what: str) -> None:
        if reason not in self._troubles:
            self._troubles.add(reason)
            self._logger.warning("%s: %s (%s); it keeps trying", self._who, what, reason)
