"""File descriptors: how many files and sockets this process may have open, and for how many ledgers and links that is.

A process that runs out of them can open no ledger and accept no link. So nodes take no more of either than fit, and say
so to whoever wants more.
"""

import resource

DESCRIPTORS_PER_LEDGER = 4  # SQLite's database, log and index, and a directory that is synced; segments take fewer
_RESERVED = 64  # for standard streams, listeners, timers, the HTTP server, logs and a lake
_USUAL_TOPICS = 1_000  # for which a repository inside a broker has files, even if it may take fewer new ones
_ENOUGH = 1 << 20  # if the system sets no limit at all


def raise_descriptor_limit() -> None:
    """Let this process open as many files as the system allows it to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def ledgers_that_fit(*, shared_for: int | None = None) -> int:
    """Return how many ledgers a repository can have open. One that shares its process with a broker has files for so
    many topics, and for half of what there is at most.
    """
    available = _available()
    if shared_for is not None:
        available = min(available // 2, (max(shared_for, _USUAL_TOPICS) + 1) * DESCRIPTORS_PER_LEDGER)
    return max(1, available // DESCRIPTORS_PER_LEDGER)


def links_that_fit(ledgers: int = 0) -> int:
    """Return how many links a broker can have beside so many ledgers in its process."""
    return max(1, _available() - ledgers * DESCRIPTORS_PER_LEDGER)


def _available() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (_ENOUGH if soft == resource.RLIM_INFINITY else soft) - _RESERVED
