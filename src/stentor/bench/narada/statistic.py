"""Statistics as the paper gives them: mean, standard deviation and standard error; and the median."""

import math
import statistics
from collections.abc import Sequence

import msgspec


class Statistic(msgspec.Struct, frozen=True):
    """Of some values of one kind, in their unit."""

    count: int
    mean: float
    deviation: float
    error: float
    median: float

    def scaled(self, factor: float) -> "Statistic":
        return Statistic(
            self.count, self.mean * factor, self.deviation * factor, self.error * factor, self.median * factor
        )


def describe(values: Sequence[float]) -> Statistic:
    """The deviation is that of a sample; of a single value it is not known, and taken for none."""
    if not values:
        raise ValueError("nothing was measured")
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return Statistic(
        len(values), statistics.fmean(values), deviation, deviation / math.sqrt(len(values)), statistics.median(values)
    )
