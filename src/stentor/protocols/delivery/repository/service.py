"""The life of a repository in one topic, from opening its ledger to leaving. Whatever changes it is in this file."""

import enum


class ServiceState(enum.Enum):
    OPENING = "opening"  # reads its ledger; answers nobody
    CATCHING_UP = "catching up"  # stores and fetches; steers nobody
    SERVING = "serving"  # steers clients
    LEAVING = "leaving"  # has sent its clients away; stays until the others hold everything that it has
    GONE = "gone"  # its ledger may be deleted


class ServiceChange(enum.Enum):
    LEDGER_READ = "ledger read"  # it knows what its ledger held
    CAUGHT_UP = "caught up"  # it has all that any living member has
    FELL_BEHIND = "fell behind"  # something that was acknowledged is neither here nor at any living member
    REMOVED = "removed"  # the registry lists it no longer
    ADDED_AGAIN = "added again"  # the registry lists it again, before it was gone
    NOT_NEEDED = "not needed"  # the topic was deleted, never created, or handed over to the other members


TRANSITIONS = {
    (ServiceState.OPENING, ServiceChange.LEDGER_READ): ServiceState.CATCHING_UP,
    (ServiceState.CATCHING_UP, ServiceChange.CAUGHT_UP): ServiceState.SERVING,
    (ServiceState.CATCHING_UP, ServiceChange.REMOVED): ServiceState.LEAVING,
    (ServiceState.CATCHING_UP, ServiceChange.NOT_NEEDED): ServiceState.GONE,
    (ServiceState.SERVING, ServiceChange.REMOVED): ServiceState.LEAVING,
    (ServiceState.SERVING, ServiceChange.FELL_BEHIND): ServiceState.CATCHING_UP,
    (ServiceState.SERVING, ServiceChange.NOT_NEEDED): ServiceState.GONE,
    (ServiceState.LEAVING, ServiceChange.ADDED_AGAIN): ServiceState.CATCHING_UP,  # others may have gone on without it
    (ServiceState.LEAVING, ServiceChange.NOT_NEEDED): ServiceState.GONE,
}


class Service:
    """The service of one repository for one topic."""

    def __init__(self) -> None:
        self._enter(ServiceState.OPENING)

    def change(self, change: ServiceChange) -> None:
        """Raises KeyError if that cannot happen now."""
        self._enter(TRANSITIONS[self.state, change])

    def _enter(self, state: ServiceState) -> None:
        self.state = state
        # Every step of a topic asks some of these ten times: as attributes they cost nothing.
        self.is_open = state is not ServiceState.OPENING  # it knows what its ledger held
        self.is_serving = state is ServiceState.SERVING
        self.is_leaving = state is ServiceState.LEAVING
        self.is_gone = state is ServiceState.GONE
