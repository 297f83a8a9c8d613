"""Evidence: what a client process did and saw, in a file, as it happens; a process that is killed leaves it behind.

A publisher writes before it sends and after it was told that all up to a number is stored, a subscriber when it has an
event and after it was told that all acknowledgements are durable.
"""

import os
import time
from pathlib import Path

import msgspec


class Began(msgspec.Struct, frozen=True, tag="began", array_like=True):
    """A life of a client begins; a publisher is told what was stored of an earlier one."""

    life: int
    earlier: int = 0
    stored: int = 0  # the last number of that life


class Sent(msgspec.Struct, frozen=True, tag="sent", array_like=True):
    """About to be published, as the `number`-th event of a life: this row of the trace."""

    life: int
    number: int
    row: int


class Kept(msgspec.Struct, frozen=True, tag="kept", array_like=True):
    """All up to this number is stored, on so many repositories."""

    life: int
    number: int
    copies: int


class Got(msgspec.Struct, frozen=True, tag="got", array_like=True):
    """The application has an event: of which life of the publisher, its number and row, and whether it came as new."""

    life: int
    number: int
    row: int
    redelivered: bool
    intact: bool  # its attributes are those of the row


class Done(msgspec.Struct, frozen=True, tag="done", array_like=True):
    """The first `count` events of this life of a subscriber are acknowledged, durably."""

    count: int


class Ended(msgspec.Struct, frozen=True, tag="ended", array_like=True):
    """In good order."""


Fact = Began | Sent | Kept | Got | Done | Ended
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(tuple[float, list[Fact]])  # what was written at once, and when


class EvidenceWriter:
    """Appends facts; they are in the hands of the operating system when `write` returns."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, *facts: Fact) -> None:
        os.write(self._file, _ENCODER.encode((time.time(), facts)) + b"\n")


class EvidenceReader:
    """Reads what is there so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.facts: list[Fact] = []
        self.times: list[float] = []  # when each of them was written

    def read(self) -> list[Fact]:
        """All facts, those since the last call included."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return self.facts
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            at, facts = _DECODER.decode(line)
            self.facts += facts
            self.times += [at] * len(facts)
        return self.facts
