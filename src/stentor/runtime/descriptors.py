"""File descriptors: how many files and sockets this process may have open, and for how many ledgers and links that is.

A process that runs out of them can open no ledger and accept no link. So nodes take no more of either than fit, and say
so to whoever wants more.
"""

import resource

DESCRIPTORS_PER_LEDGER = 4  # SQLite's database, log and index, and a directory that is synced; segments take fewer
_RESERVED = 64  # for standard streams, listeners, timers, the HTTP server, logs and a lake
_ENOUGH = 1 << 20  # if the system sets no limit at all


def raise_descriptor_limit() -> None:
    """Let this process open as many files as the system allows it to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def ledgers_that_fit(*, shared: bool) -> int:
    """Return how many ledgers a repository can have open; with a broker in its process it takes a quarter of all."""
    return max(1, _available() // (4 if shared else 1) // DESCRIPTORS_PER_LEDGER)


def links_that_fit(*, shared: bool) -> int:
    """Return how many links a broker can have; with a repository in its process it takes three quarters of all."""
    return max(1, _available() * 3 // 4 if shared else _available())


def _available() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (_ENOUGH if soft == resource.RLIM_INFINITY else soft) - _RESERVED
