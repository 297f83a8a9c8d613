"""Spark's Python workers, each of which runs one task after another."""

import gc
from functools import cache


@cache
def settle() -> None:
    """Spark looks for garbage after each task, in all that was ever imported, for 60 ms: unless that is set apart."""
    gc.freeze()
