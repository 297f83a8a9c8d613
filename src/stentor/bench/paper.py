"""What Fox & Pallickara measured: table 2, and the delay of a hop (section 5.3)."""

from typing import NamedTuple


class LatencyRange(NamedTuple):
    """A row of table 2: the lowest and the highest mean latency at a match rate, in ms and ms²."""

    low: float
    low_at: tuple[int, int]  # events/s and bytes
    high: float
    high_at: tuple[int, int]
    low_variance: float
    high_variance: float


TABLE_2 = {
    100: LatencyRange(15.54, (1, 50), 391.85, (952, 450), 2.3684, 69_713.93),
    50: LatencyRange(13.02, (20, 50), 178.66, (952, 350), 56.8196, 14_634),
    33: LatencyRange(15.18, (20, 50), 95.969, (952, 425), 26.57, 1_263),
    25: LatencyRange(14.40, (20, 50), 66.6, (961, 400), 0.24, 587.04),
    20: LatencyRange(15.35, (20, 50), 62.35, (952, 400), 12.02, 312),
    10: LatencyRange(14.40, (20, 50), 52.0, (952, 400), 0.44, 103),
    5: LatencyRange(14.0, (20, 50), 47.6, (961, 425), 0.44, 87.44),
}
HOP = (1.0, 2.0)  # ms
MACHINES = "22 machines of 333 MHz for brokers, one of 360 MHz for 100 clients, Java 1.2"
