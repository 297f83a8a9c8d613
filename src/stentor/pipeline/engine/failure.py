"""Errors of ours that came up through Spark, as what they were before Spark wrapped them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from stentor.model import errors
from stentor.model.errors import InvalidInput, StentorError, Unreachable

_OURS: Final = re.compile(r"\bstentor\.[\w.]+\.(\w+): (.+)")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what Spark raises as an error of ours: with the sentence that our code said, or else Spark's first line."""
    try:
        yield
    except StentorError:
        raise
    except Exception as error:
        from pyspark.errors import PySparkException  # here: whoever does without Spark gets its own errors

        if not isinstance(error, PySparkException):
            raise
        text = str(error)
        ours = _OURS.findall(text)
        if not ours:
            raise StentorError(text.split("\n", 1)[0]) from error
        raise _translated(*ours[-1]) from None


def _translated(name: str, reason: str) -> StentorError:
    kind = getattr(errors, name, StentorError)
    bases = (base for base in (InvalidInput, Unreachable) if issubclass(kind, base))  # the exit code depends on these
    return next(bases, StentorError)(reason)
