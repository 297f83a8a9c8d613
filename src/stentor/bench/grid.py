"""The grid: which publish rates, event sizes and match rates are tried, and how many events each trial takes."""

import math
from collections.abc import Iterator, Sequence

import msgspec

from stentor.model.attribute import Value
from stentor.model.errors import InvalidInput

STORED_MATCHES = (100, 50, 10)  # those of figure 7; figure 8 has 50 % alone
RATES, SIZES, MATCHES = (1.0, 20.0, 100.0, 400.0, 952.0), (50, 250, 450), (100, 50, 33, 25, 20, 10, 5)
SMALLEST, LARGEST = 16, 65_536  # bytes of a body: it begins with the time at which it was published
FASTEST = 100_000.0  # events/s
FEWEST = 5  # wanted events without which a mean says nothing
LONGEST = 6.5  # seconds; a trial that would take longer is left out
TOPIC = "ges/test"

# the paper's scheme: six pairs, the first three the same in all events and filters, the fourth decides
_SAME: dict[str, Value] = {"service": "ges", "kind": "test", "version": 1}
_REST: dict[str, Value] = {"origin": "node 22", "weight": 0.5}
WHERE = "service = 'ges' AND kind = 'test' AND version = 1 AND footprint = 0"


class Trial(msgspec.Struct, frozen=True):
    """One point of the grid."""

    rate: float  # events/s
    size: int  # bytes of a body
    match: int  # percent of the events that every client wants
    events: int

    @property
    def seconds(self) -> float:
        return self.events / self.rate

    def wants(self, number: int) -> bool:
        """Whether the event of this number is one of those that are wanted; they are spread evenly."""
        return (number + 1) * self.match // 100 > number * self.match // 100

    @property
    def wanted(self) -> int:
        return self.events * self.match // 100

    def attributes(self, number: int) -> dict[str, Value]:
        return {**_SAME, "footprint": 0 if self.wants(number) else 1 + number % 97, **_REST}


class TrialGrid(msgspec.Struct, frozen=True, kw_only=True):
    """The rates, sizes and match rates to try."""

    rates: tuple[float, ...] = RATES
    sizes: tuple[int, ...] = SIZES
    matches: tuple[int, ...] = MATCHES
    replications: tuple[int, ...] = (0, 1, 2)  # how often events are stored
    stored_matches: tuple[int, ...] = STORED_MATCHES  # which of the match rates are tried with events that are stored
    seconds: float = 2.5  # of a trial, if nobody says how many events
    events: int = 0

    def trials(self) -> Iterator[Trial]:
        """All that can be done in time, rate after rate."""
        for rate in self.rates:
            for size in self.sizes:
                for match in self.matches:
                    trial = self.trial(rate, size, match)
                    if trial is not None:
                        yield trial

    def stored(self) -> "TrialGrid":
        """What is tried with events that are stored: all, if nobody asked for one of the match rates meant for it."""
        chosen = tuple(match for match in self.matches if match in self.stored_matches)
        return msgspec.structs.replace(self, matches=chosen or self.matches)

    def trial(self, rate: float, size: int, match: int) -> Trial | None:
        """One point; None if too few wanted events would come in time."""
        count = self.events or math.ceil(rate * self.seconds)
        trial = Trial(rate, size, match, max(count, math.ceil(FEWEST * 100 / match)))
        return trial if self.events or trial.seconds <= max(LONGEST, self.seconds) else None

    def left_out(self) -> list[tuple[float, int]]:
        """The rates and match rates that are not tried, since that would take too long."""
        pairs = ((rate, match) for rate in self.rates for match in self.matches)
        return [pair for pair in pairs if self.trial(pair[0], self.sizes[0], pair[1]) is None]


QUICK = TrialGrid(rates=(20.0, 100.0, 952.0), sizes=(50, 450), matches=(100, 50, 10), stored_matches=(50,), seconds=1.0)


def numbers(text: str, option: str, least: float, most: float) -> tuple[float, ...]:
    """A comma-separated list of numbers, each once, in rising order."""
    found: set[float] = set()
    for word in text.split(","):
        try:
            number = float(word)
        except ValueError:
            raise InvalidInput(f"{option} {text!r}: expected numbers such as 20,100, found {word.strip()!r}") from None
        if not least <= number <= most:
            raise InvalidInput(f"{option} {text!r}: expected {least:g} to {most:g}, found {number:g}")
        found.add(number)
    return tuple(sorted(found))


def whole(values: Sequence[float], option: str) -> tuple[int, ...]:
    """The same as whole numbers."""
    for value in values:
        if value != int(value):
            raise InvalidInput(f"{option}: expected whole numbers, found {value:g}")
    return tuple(int(value) for value in values)
