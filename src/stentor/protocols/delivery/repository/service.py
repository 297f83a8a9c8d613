"""Service: whether a repository steers the clients of a topic. Whatever changes that is in this file."""

import enum


class State(enum.Enum):
    CATCHING_UP = "catching up"  # stores and fetches; steers nobody
    SERVING = "serving"  # steers clients
    LEAVING = "leaving"  # has sent its clients away; stays until the others hold everything that it has


class Change(enum.Enum):
    CAUGHT_UP = "caught up"  # it has all that any living member has
    FELL_BEHIND = "fell behind"  # something that was acknowledged is neither here nor at any living member
    REMOVED = "removed"  # the registry lists it no longer
    ADDED_AGAIN = "added again"  # … and lists it again, before it was gone


TRANSITIONS = {
    (State.CATCHING_UP, Change.CAUGHT_UP): State.SERVING,
    (State.CATCHING_UP, Change.REMOVED): State.LEAVING,
    (State.SERVING, Change.REMOVED): State.LEAVING,
    (State.SERVING, Change.FELL_BEHIND): State.CATCHING_UP,
    (State.LEAVING, Change.ADDED_AGAIN): State.CATCHING_UP,  # others may have gone on without it
}


class Service:
    """The service of one repository for one topic."""

    def __init__(self) -> None:
        self.state = State.CATCHING_UP

    def change(self, change: Change) -> None:
        """Raises KeyError if that cannot happen now."""
        self.state = TRANSITIONS[self.state, change]
