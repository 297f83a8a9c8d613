"""A driver carries out what an operator orders to be damaged, if its broker was started for that."""

import asyncio
from pathlib import Path

from stentor.machine import Effect, Input, Scramble
from stentor.model.colours.memory_part import MemoryPart
from stentor.model.limits import Limits
from stentor.model.scope import ScopePath
from stentor.nodes.broker.broker import Broker
from stentor.protocols.colours.scope_tree import ScopeTree
from stentor.runtime.chaos import Chaos
from stentor.runtime.disk import NodeStorage
from stentor.runtime.driver import Driver


class Ordered(Broker):
    """A broker whose operator orders damage in its first step."""

    def step(self, now: int, happened: Input) -> list[Effect]:
        return [*super().step(now, happened), Scramble((MemoryPart.POINTERS,), 7)]


def damaged(home: Path, name: str, *, chaos: bool) -> list[ScopeTree]:
    """The trees of a broker after its first step."""

    async def run() -> list[ScopeTree]:
        broker = Ordered(ScopePath.parse(name), Limits())
        storage = NodeStorage(home)
        driver = Driver(broker, application=Chaos(broker).perform if chaos else None, storage=storage)
        driver.start()
        await driver.close()
        storage.close()
        return [colours.tree for colours in broker.network.colouring.scopes]

    return asyncio.run(run())


def test_the_parts_that_are_named_are_damaged(tmp_path: Path) -> None:
    trees = damaged(tmp_path, "campus/b1", chaos=True)
    assert any(each.children or each.parent for tree in trees for each in tree.pointers)


def test_a_seed_does_the_same_damage_again_and_another_one_elsewhere(tmp_path: Path) -> None:
    first, again, elsewhere = (damaged(tmp_path, name, chaos=True) for name in ("campus/b1", "campus/b1", "campus/b2"))
    assert [tree.view() for tree in first] == [tree.view() for tree in again]
    assert [tree.view() for tree in first] != [tree.view() for tree in elsewhere]


def test_without_chaos_nothing_is_damaged(tmp_path: Path) -> None:
    for tree in damaged(tmp_path, "campus/b1", chaos=False):
        tree.validate()
        assert not any(each.children or each.parent for each in tree.pointers)
