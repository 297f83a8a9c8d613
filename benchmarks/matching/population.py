"""Populations: the filters of a workload as arrays, which give their texts, their owners and the truth about events."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from stentor.model.batch import Row

MEMBERS = 64
TAGS = 100  # values of the fourth tag
SYMBOLS, EXCHANGES = 5000, 20
SIDE = 0.1  # of a square of W3, of the whole

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Population(ABC):
    """Filters 0 to count - 1."""

    def __init__(self, count: int, random: np.random.Generator) -> None:
        self.count = count
        self.dense: Integers = random.integers(0, MEMBERS, count)  # owners drawn by lot: masks fill up with bits

    @property
    @abstractmethod
    def sparse(self) -> Integers:
        """Owners by what the filter is about, as if each member served one region: masks have a bit or two."""

    @abstractmethod
    def text(self, number: int) -> str:
        """One filter, as a client would send it."""

    @abstractmethod
    def truth(self, event: Row) -> Mask:
        """Which of the filters match, computed from the arrays and by none of the contestants' code."""

    def owners(self, masks: str) -> list[int]:
        owners: list[int] = (self.dense if masks == "dense" else self.sparse).tolist()
        return owners


def _zipf(count: int) -> Numbers:
    weights = 1 / np.arange(1, count + 1)
    return np.asarray(weights / weights.sum())


# ---- W1: equality


class Tags(Population):
    """Four of six tags have a fixed value, of which only the fourth differs between filters."""

    def __init__(self, count: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        self._tags: Integers = random.integers(0, TAGS, count)
        super().__init__(count, random)

    @property
    def sparse(self) -> Integers:
        return self._tags % MEMBERS

    def text(self, number: int) -> str:
        return f"t1 = 'v1' AND t2 = 'v2' AND t3 = 'v3' AND t4 = 'd{self._tags[number]}'"

    def truth(self, event: Row) -> Mask:
        return np.asarray(self._tags == int(str(event["t4"])[1:]))


def tagged_events(count: int, seed: int) -> list[Row]:
    tags = np.random.default_rng(seed).integers(0, TAGS, count).tolist()
    return [
        {"t1": "v1", "t2": "v2", "t3": "v3", "t4": f"d{tag}", "t5": f"e{number % 7}", "t6": number}
        for number, tag in enumerate(tags)
    ]


# ---- W2: equality and a range


class Orders(Population):
    """A symbol, seldom an exchange, with a range of prices and at times a least volume; popularity follows Zipf."""

    shares = (0.70, 0.20, 0.05, 0.05)  # symbol and price; and volume; exchange, price and volume; symbol alone
    widths = (2.0, 20.0)  # of a price range that has two ends

    def __init__(self, count: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        shape = random.choice(4, count, p=self.shares)
        self._symbol: Integers = random.choice(SYMBOLS, count, p=_zipf(SYMBOLS))
        self._exchange: Integers = random.choice(EXCHANGES, count, p=_zipf(EXCHANGES))
        self._symbol[shape == 2] = -1
        self._exchange[shape != 2] = -1
        width = random.uniform(*self.widths, count)
        low, high = np.full(count, -np.inf), np.full(count, np.inf)
        form = random.choice(3, count, p=(0.5, 0.25, 0.25))  # both ends, low end, high end
        start = random.uniform(0, 100 - width)
        both, above, below = ((shape == 0) & (form == each) for each in range(3))
        low[both], high[both] = start[both], (start + width)[both]
        low[above] = random.uniform(80, 100, count)[above]
        high[below] = random.uniform(0, 20, count)[below]
        low[shape == 1] = random.uniform(50, 100, count)[shape == 1]
        high[shape == 2] = random.uniform(0, 5, count)[shape == 2]
        self._low, self._high = np.round(low, 2), np.round(high, 2)
        self._volume: Integers = np.full(count, -1)
        self._volume[shape == 1] = random.integers(500, 1000, count)[shape == 1]
        self._volume[shape == 2] = random.integers(900, 1000, count)[shape == 2]
        super().__init__(count, random)

    @property
    def sparse(self) -> Integers:
        return np.where(self._symbol >= 0, self._symbol, self._exchange) % MEMBERS

    def text(self, number: int) -> str:
        symbol, exchange, volume = self._symbol[number], self._exchange[number], self._volume[number]
        low, high = self._low[number], self._high[number]
        parts = (
            f"symbol = 'SYM{symbol:05d}'" if symbol >= 0 else "",
            f"exchange = 'EX{exchange:02d}'" if exchange >= 0 else "",
            f"price >= {low:.2f}" if low > -np.inf else "",
            f"price <= {high:.2f}" if high < np.inf else "",
            f"volume >= {volume}" if volume >= 0 else "",
        )
        return " AND ".join(part for part in parts if part)

    def truth(self, event: Row) -> Mask:
        symbol, exchange = int(str(event["symbol"])[3:]), int(str(event["exchange"])[2:])
        named = ((self._symbol == symbol) | (self._symbol < 0)) & ((self._exchange == exchange) | (self._exchange < 0))
        price, volume = float(event["price"]), int(event["volume"])
        return np.asarray(named & (self._low <= price) & (self._high >= price) & (self._volume <= volume))


class NarrowOrders(Orders):
    """The same with narrow ranges, so that hardly any filter is covered by another."""

    widths = (0.01, 0.1)


def order_events(count: int, seed: int) -> list[Row]:
    random = np.random.default_rng(seed)
    symbols = random.choice(SYMBOLS, count, p=_zipf(SYMBOLS)).tolist()
    exchanges = random.choice(EXCHANGES, count, p=_zipf(EXCHANGES)).tolist()
    prices = np.round(random.uniform(0, 100, count), 2).tolist()
    volumes = random.integers(0, 1000, count).tolist()
    return [
        {
            "symbol": f"SYM{symbol:05d}",
            "exchange": f"EX{exchange:02d}",
            "price": price,
            "volume": volume,
            "sector": "tech",
            "flag": volume % 2 == 0,
        }
        for symbol, exchange, price, volume in zip(symbols, exchanges, prices, volumes, strict=True)
    ]


# ---- W3: two wide ranges


class Squares(Population):
    """Squares in the plane, a hundredth of it each, and no equality to find them by."""

    def __init__(self, count: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        self._left, self._bottom = (np.round(random.uniform(0, 1 - SIDE, count), 6) for _ in range(2))
        self._right, self._top = (np.round(side + SIDE, 6) for side in (self._left, self._bottom))
        super().__init__(count, random)

    @property
    def sparse(self) -> Integers:
        column, row = ((side / (1 - SIDE) * 7.999).astype(np.int64) for side in (self._left, self._bottom))
        return np.asarray(8 * column + row)

    def text(self, number: int) -> str:
        left, right = self._left[number], self._right[number]
        bottom, top = self._bottom[number], self._top[number]
        return f"x >= {left:.6f} AND x <= {right:.6f} AND y >= {bottom:.6f} AND y <= {top:.6f}"

    def truth(self, event: Row) -> Mask:
        x, y = float(event["x"]), float(event["y"])
        return np.asarray((self._left <= x) & (self._right >= x) & (self._bottom <= y) & (self._top >= y))


def points(count: int, seed: int) -> list[Row]:
    places = np.random.default_rng(seed).random((count, 2)).tolist()
    return [{"x": x, "y": y, "id": f"s{number % 100}"} for number, (x, y) in enumerate(places)]
