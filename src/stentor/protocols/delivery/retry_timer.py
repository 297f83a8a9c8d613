"""Retry timer: when to ask again for what has not come, and how often it was asked for in vain."""

NEVER = 1 << 62  # a time that does not come


class RetryTimer:
    """One question, which is open or rests; the pause before it is asked again doubles.

    Invariant: it is open as long as `due` is a time.
    """

    __slots__ = ("_first", "_longest", "_pause", "due", "tries")

    def __init__(self, first: int, longest: int) -> None:
        self._first = first
        self._longest = longest
        self._pause = first
        self.due = NEVER
        self.tries = 0  # since something came of it

    @property
    def open(self) -> bool:
        return self.due != NEVER

    def ask(self, now: int) -> None:
        """Open the question: it is asked for the first time."""
        self.tries = 1
        self._pause = self._first
        self.due = now + self._pause

    def again(self, now: int) -> None:
        """Ask once more."""
        self.tries += 1
        self._pause = min(2 * self._pause, self._longest)
        self.due = now + self._pause

    def rest(self) -> None:
        """Close the question: there is nothing to ask."""
        self.due = NEVER
        self.tries = 0
