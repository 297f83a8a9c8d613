"""Spark's Python workers, each of which runs one task after another."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from stentor.model.errors import StentorError


@cache
def settle() -> None:
    """Spark looks for garbage after each task, in all that was ever imported, for 60 ms: unless that is set apart."""
    gc.freeze()


@contextmanager
def plain() -> Iterator[None]:
    """Let Spark pass on an error of ours as its sentence alone, without the stack of the worker that it came up in.

    A worker ends after an error, so that the stacks of other people's errors are still shown.
    """
    try:
        yield
    except StentorError:
        if _is_worker():
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def _is_worker() -> bool:
    """Whether Spark started this process, and not somebody who will go on with it."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
