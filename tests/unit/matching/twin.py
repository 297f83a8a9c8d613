"""An index beside the filters that it holds, to be compared with them."""

import pickle
import random
from collections.abc import Iterable, Sequence

from stentor.matching.masks.mask_index import MaskIndex
from stentor.matching.pairs.pair_index import PairIndex
from stentor.model.batch import Batch, Row, Rows
from stentor.model.filter import Filter

EVERYTHING = Filter("TRUE")


class Twin:
    """Both indexes, and what they hold."""

    def __init__(self) -> None:
        self.masks, self.pairs = MaskIndex(), PairIndex()
        self.held: dict[int, tuple[Filter | None, int]] = {}  # by the number of a subscription, with its member
        self._next = 0

    def add(self, where: Filter | None, member: int = 0) -> bool:
        self._next += 1
        self.held[self._next] = where, member
        self.pairs.add(EVERYTHING if where is None else where, self._next)
        return self.masks.add(where, member)

    def remove(self, number: int) -> bool:
        where, member = self.held.pop(number)
        self.pairs.remove(number)
        return self.masks.remove(where, member)

    def wanted(self, event: Row) -> list[int]:
        return [number for number, (where, _) in self.held.items() if where is None or where.matches(event)]

    def mask(self, numbers: Iterable[int]) -> int:
        found = 0
        for number in numbers:
            found |= 1 << self.held[number][1]
        return found

    def check_one(self, event: Row) -> None:
        wanted = self.wanted(event)
        assert self.masks.match_one(event) == self.mask(wanted)
        assert sorted(self.pairs.match_one(event)) == wanted, "each once"

    def check(self, batch: Batch) -> None:
        wanted = [self.wanted(row) for row in batch.rows()]
        expected = [self.mask(numbers) for numbers in wanted]
        assert self.masks.match(batch).tolist() == expected
        assert self.masks.snapshot().match(batch).tolist() == expected
        found, numbers = self.pairs.match_pairs(batch)
        pairs = sorted(zip(found.tolist(), numbers.tolist(), strict=True))
        assert pairs == [(row, number) for row, several in enumerate(wanted) for number in several], "each once"

    def check_pickled(self, batch: Batch) -> None:
        snapshot = pickle.loads(pickle.dumps(self.masks.snapshot()))
        rows = batch.rows()
        expected = [self.mask(self.wanted(row)) for row in rows]
        assert snapshot.match(batch).tolist() == expected
        assert snapshot.match_one(rows[0]) == expected[0]

    def prove_empty(self) -> None:
        """Nothing is left inside."""
        for index, groups in ((self.masks, self.masks._groups), (self.pairs, self.pairs._filed.groups)):
            assert len(index) == 0
            assert len(groups) == 0
            assert groups._reduced == {}
        assert self.masks._counts == {}
        assert self.masks.predicates.total() == 0
        assert self.pairs._filters == {}
        assert self.pairs._filed.divided == 0


def drive(twin: Twin, made: Sequence[Filter], batch: Batch, most_members: int = 3) -> None:
    """All of them come, half of them go, they come back, all of them go; right at every stop."""
    chance = random.Random(len(made))
    for where in made:
        twin.add(where, chance.randrange(most_members))
    twin.check(batch)
    twin.check_pickled(batch)
    for row in batch.rows()[:20]:
        twin.check_one(row)
    numbers = list(twin.held)
    chance.shuffle(numbers)
    for number in numbers[: len(numbers) // 2]:
        again = twin.held[number]
        twin.remove(number)
        if chance.random() < 0.3:
            twin.add(*again)
    twin.check(batch)
    for number in list(twin.held):
        twin.remove(number)
        if len(twin.held) % 64 == 1:
            twin.check(batch)
    twin.prove_empty()


def points(names: str, count: int = 120) -> Rows:
    """Events on a raster, so that many lie just on a bound; some lack an attribute."""
    chance = random.Random(7)
    rows: list[Row] = [{name: chance.randrange(0, 40) / 2 for name in names} for _ in range(count)]
    for row in rows[::9]:
        del row[chance.choice(names)]
    return Rows(rows)
