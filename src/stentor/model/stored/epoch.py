"""Epochs: a repository and one of its sequence numbers, such as r1:107.

Another repository gave the same event another number, so a number alone says nothing where there are several.
"""

import re
from typing import NamedTuple

from stentor.model.scope import LONGEST_NODE_NAME

PATTERN = rf"([A-Za-z0-9_.-]{{1,{LONGEST_NODE_NAME}}}:)?[0-9]{{1,19}}"
_EPOCH = re.compile(PATTERN)


class Epoch(NamedTuple):
    """The place of an event in the order of a repository."""

    repository: str  # "" is the only one that there is
    number: int

    @classmethod
    def parse(cls, text: str) -> "Epoch | None":
        """Return the epoch that a text names; None if it is none."""
        if _EPOCH.fullmatch(text) is None:
            return None
        repository, _, number = text.rpartition(":")
        return cls(repository, int(number))

    def __str__(self) -> str:
        return f"{self.repository}:{self.number}" if self.repository else str(self.number)
