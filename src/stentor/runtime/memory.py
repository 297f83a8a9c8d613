"""Memory that a process has freed and its C library still holds.

glibc keeps what was freed between two pieces that are still in use, for each of its arenas, and gives it back to the
system only when it is told to. A repository that opened thousands of ledgers once would hold their memory for good.
"""

import ctypes

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries do not have it, and need it less


def give_back() -> None:
    """Have the C library give back what is free. That takes milliseconds, in which other threads run Python."""
    if _trim is not None:
        _trim(0)
