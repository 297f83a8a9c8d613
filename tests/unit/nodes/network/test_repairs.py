"""Every field of a running broker is in the table of what repairs it, and the table speaks of nothing else."""

import ast
import enum
import types
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

import stentor
from stentor.machine import MILLISECOND
from stentor.nodes.broker.broker import Broker
from stentor.nodes.network.repairs import _ENTRIES, REPAIRS, repair_of
from stentor.simulation.scenarios.plans import LoadedNetwork

SOURCES = Path(stentor.__file__).parent
CONTAINERS = (dict, list, set, deque)
PLAIN = str | bytes | int | float | type | enum.Enum | types.FunctionType | types.MethodType | None
SEEDS = (1, 3)  # with filters, several levels and plans that take a while

Fields = dict[type, dict[str, bool]]  # of each class: whether a field holds something that can be changed in place


class Observed(LoadedNetwork):
    """The scenario `plans`, whose brokers are looked at while a plan is under way, and at the end."""

    def __init__(self, seed: int, found: Fields) -> None:
        super().__init__(seed, keep_trace=False)
        self._found = found
        self._run = self.world.run
        self.world.run = self._observe  # type: ignore[method-assign]

    def _observe(self, until: int) -> None:
        while self.world.now < until:
            self._run(min(until, self.world.now + 20 * MILLISECOND))
            for broker in self.brokers().values():
                if any(colours.planning.is_busy for colours in broker.network.colouring.scopes):
                    walk(broker, self._found)
        for broker in self.brokers().values() if self.is_over else ():
            walk(broker, self._found)


@pytest.fixture(scope="module")
def fields() -> Fields:
    """All fields of the parts of brokers with clients, neighbours and plans."""
    found: Fields = defaultdict(dict)
    for seed in SEEDS:
        Observed(seed, found).run()
    return found


def walk(broker: Broker, found: Fields) -> None:
    seen: dict[int, object] = {}
    todo: list[object] = [broker]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, PLAIN):
            continue
        seen[id(each)] = each
        if isinstance(each, dict):
            todo += [*each, *each.values()]
        elif isinstance(each, list | tuple | set | frozenset | deque):
            todo += each
        kind = owner(each)
        if kind is not None:
            for name, value in attributes(each):
                found[kind][name] = found[kind].get(name, False) or isinstance(value, CONTAINERS)
                todo.append(value)


def owner(each: object) -> type | None:
    """The class of a broker's part; None for what is no part, or never changes."""
    if isinstance(each, tuple) or (isinstance(each, msgspec.Struct) and each.__struct_config__.frozen):
        return None
    ours = [kind for kind in type(each).__mro__ if kind.__module__.startswith("stentor.")]
    return next((kind for kind in ours if not kind.__module__.startswith("stentor.simulation")), None)


def attributes(each: object) -> Iterator[tuple[str, object]]:
    names = [*getattr(each, "__dict__", ()), *getattr(each, "__struct_fields__", ())]
    for kind in type(each).__mro__:
        names += getattr(kind, "__slots__", ())
    for name in dict.fromkeys(names):
        if hasattr(each, name):
            yield name, getattr(each, name)


@cache
def assigned() -> dict[str, set[str]]:
    """By class the fields that its methods set after it was made; by "" those that others set."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in SOURCES.rglob("*.py"):
        tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for kind in [each for each in tree if isinstance(each, ast.ClassDef)]:
            for method in kind.body:
                for target in ast.walk(method):
                    if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store):
                        is_own = isinstance(target.value, ast.Name) and target.value.id == "self"
                        if not is_own:
                            found[""].add(target.attr)
                        elif not isinstance(method, ast.FunctionDef) or method.name != "__init__":
                            found[kind.name].add(target.attr)
    return found


def is_mutable(kind: type, field: str, holds_container: bool) -> bool:
    names = ("", *(each.__name__ for each in kind.__mro__))
    return holds_container or any(field in assigned()[name] for name in names)


@pytest.mark.req("CO-10")
def test_every_field_that_can_change_has_something_that_repairs_it(fields: Fields) -> None:
    missing = [
        f"{kind.__module__}: {kind.__name__}.{field}"
        for kind, held in fields.items()
        for field, holds_container in held.items()
        if is_mutable(kind, field, holds_container) and repair_of(kind, field) is None
    ]
    assert sorted(missing) == []


@pytest.mark.req("CO-10")
def test_the_table_speaks_of_classes_and_fields_that_there_are(fields: Fields) -> None:
    known = {"matching"}
    for kind, held in fields.items():
        for each in kind.__mro__:
            known |= {each.__name__, *(f"{each.__name__}.{field}" for field in held)}
    assert sorted(REPAIRS.keys() - known) == []


def test_a_field_is_in_the_table_once() -> None:
    names = Counter(name for names in _ENTRIES.values() for name in names.split())
    assert [name for name, count in names.items() if count > 1] == []


def test_a_field_that_nobody_has_thought_of_is_found() -> None:
    made = type("Unheard", (), {"__module__": "stentor.nodes.broker.unheard"})
    assert repair_of(made, "anything") is None
    assert repair_of(type("OfMatching", (), {"__module__": "stentor.matching.unheard"}), "anything") is not None
