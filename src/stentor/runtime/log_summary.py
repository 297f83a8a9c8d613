"""Log lines about what peers do: the first few of a kind are written as they are, the rest are summed up.

Machines report whatever they refuse, and anybody who can reach a node can make it refuse something thousands of times a
second. So a log has a few lines of a kind in a while, and then one that says how many more there were.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping

from stentor.runtime.log import Logger

EXAMPLES = 5  # lines of a kind that are written as they are, in a while
_WHILE = 10.0  # seconds
_MOST_KINDS = 256  # there are some dozens of words for what happens, and of codes
_PEERS = frozenset({"peer refused", "link refused"})  # also told without being a warning

Kind = tuple[str, str, str]  # level, what happened, and the code that was given for it
Details = Mapping[str, str | int | float]


class LogSummary:
    """Writes to a log on behalf of one machine."""

    def __init__(self, log: Logger, loop: asyncio.AbstractEventLoop) -> None:
        self._log, self._loop = log, loop
        self._counts: Counter[Kind] = Counter()  # in this while; at most _MOST_KINDS
        self._timer: asyncio.TimerHandle | None = None

    def report(self, level: str, what: str, details: Details) -> None:
        if level != "warning" and what not in _PEERS:
            self._log.log(level, what, details)
            return
        kind = level, what, str(details.get("code", ""))
        if kind not in self._counts and len(self._counts) >= _MOST_KINDS:
            kind = level, "other reports", ""
        self._counts[kind] += 1
        if self._counts[kind] <= EXAMPLES:
            self._log.log(level, what, details)
        if self._timer is None:
            self._timer = self._loop.call_later(_WHILE, self._sum_up)

    def _sum_up(self) -> None:
        self._timer = None
        counts, self._counts = self._counts, Counter()
        for (level, what, code), count in counts.items():
            if count > EXAMPLES:
                rest: dict[str, str | int | float] = {"more": count - EXAMPLES, "code": code, "seconds": _WHILE}
                self._log.log(level, what, {key: value for key, value in rest.items() if value != ""})

    def close(self) -> None:
        """Write what has not been written yet."""
        if self._timer is not None:
            self._timer.cancel()
        self._sum_up()
