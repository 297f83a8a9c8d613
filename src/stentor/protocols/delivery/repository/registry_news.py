"""What was registered since somebody looked: each part of a repository takes what it acts upon."""

from collections.abc import Iterable

from stentor.model.trust.access import ACCESS, TOPIC


class RegistryNews:
    """The news of one registry."""

    def __init__(self) -> None:
        self.is_changed = False
        self._unshared: set[str] = set()  # keys of what brokers are to know
        self._publishers: dict[int, None] = {}
        self._closings: dict[int, None] = {}  # publishers of which lives were closed
        self._subscribers: set[str] = set()
        self._concerns_all = False  # the topic itself was registered, which concerns every subscriber
        self._lives: set[tuple[str, str]] = set()  # roles and names with newer lives

    def note(self, key: str) -> None:
        """Take note of a fact by its key."""
        self.is_changed = True
        self._concerns_all = self._concerns_all or key == TOPIC
        if key.startswith(ACCESS):
            self._unshared.add(key)
        kind, _, name = key.partition("/")
        if kind in ("subscription", "grant"):
            self._subscribers.add(name.removeprefix("subscriber/") if kind == "grant" else name)
        elif kind == "life":
            role, _, name = name.partition("/")
            if role == "left":  # its subscription may have ended
                self._subscribers.add(name)
            self._lives.add(("subscriber" if role == "left" else role, name))

    def note_publisher(self, publisher: int, *, has_closed: bool) -> None:
        self._publishers[publisher] = None
        if has_closed:
            self._closings[publisher] = None

    def take_changed(self) -> bool:
        """Return whether something was registered since this was last asked."""
        is_changed, self.is_changed = self.is_changed, False
        return is_changed

    def take_unshared(self) -> set[str]:
        """Remove and return the keys of what brokers are to know and were not told."""
        unshared, self._unshared = self._unshared, set()
        return unshared

    def take_publishers(self) -> list[int]:
        """Remove and return the publishers of which something was registered."""
        publishers, self._publishers = list(self._publishers), {}
        return publishers

    def take_closings(self) -> dict[int, None]:
        """Remove and return the publishers of which lives were closed."""
        closings, self._closings = self._closings, {}
        return closings

    def take_subscribers(self, known: Iterable[str]) -> set[str]:
        """Remove and return the subscribers of which something was registered, all `known` ones if it concerns all."""
        subscribers = {*known, *self._subscribers} if self._concerns_all else self._subscribers
        self._subscribers, self._concerns_all = set(), False
        return subscribers

    def take_lives(self) -> list[tuple[str, str]]:
        """Remove and return the roles and names of which newer lives became known."""
        lives, self._lives = self._lives, set()
        return sorted(lives)
