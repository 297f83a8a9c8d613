"""Takes the tables of a document apart, and reports what in them is unknown, missing or wrong."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from stentor.config.lines import Key
from stentor.config.problem import Problems, describe
from stentor.config.value import several
from stentor.model.errors import InvalidInput
from stentor.model.wording.suggestion import nearest, suggestion

T = TypeVar("T")
Table = dict[str, Any]


class Tables:
    """Reads keys of tables; a problem that is reported causes no second complaint."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.reported: set[Key] = set()  # keys that are absent because of a problem that is reported already

    def table(self, value: object, key: Key, struct: type[msgspec.Struct]) -> Table:
        """The known keys of a table; whatever else it holds is reported."""
        known = [field.encode_name for field in msgspec.structs.fields(struct)]
        if not isinstance(value, dict):
            self.problems.add(key, f"expected a table, found {describe(value)}")
            self.reported.update((*key, name) for name in known)
            return {}
        absent = [name for name in known if name not in value]
        for name in [name for name in value if name not in known]:
            meant = nearest(name, absent)
            self.problems.add((*key, name), f"unknown key{suggestion(name, absent if meant else known)}")
            if meant:
                self.reported.add((*key, meant))
        return {name: value[name] for name in known if name in value}

    def array(self, top: Table, name: str) -> list[tuple[Key, object]]:
        """The tables in double brackets of this name, each with its key; there may be none."""
        found = top.get(name, [])
        if not isinstance(found, list):
            self.problems.add((name,), f"expected [[{name}]], in double brackets, found {describe(found)}")
            self.reported.add((name,))
            return []
        return [((name, index), value) for index, value in enumerate(found)]

    def take(self, table: Table, key: Key, read: Callable[[object], T], default: T, instead: T | None = None) -> T:
        """The value of a key, or its default; a value that is wrong is reported, and `instead` stands for it."""
        name = key[-1]
        if name in table:
            try:
                return read(table[name])
            except InvalidInput as error:
                self.problems.add(key, str(error))
                self.reported.add(key)
        elif key not in self.reported:
            return default
        return default if instead is None else instead

    def each(
        self, table: Table, key: Key, whole: Callable[[object], list[object]], read: Callable[[object], T]
    ) -> list[T | None]:
        """The elements of an array that `whole` accepts; None stands for one that is wrong."""
        nothing: list[object] = []
        found: list[T | None] = []
        for index, value in enumerate(self.take(table, key, whole, nothing)):
            try:
                found.append(read(value))
            except InvalidInput as error:
                self.problems.add((*key, index), str(error))
                found.append(None)
        return found

    def words(self, table: Table, key: Key, read: Callable[[object], str]) -> tuple[str, ...]:
        """The words of an array, which may be left out; one that is wrong is reported and left out."""
        if key[-1] not in table:
            return ()
        found = self.each(table, key, several("a list of words in quotes"), read)
        return tuple(word for word in found if word is not None)

    def require(self, table: Table, key: Key, expected: str) -> None:
        if key[-1] not in table and key not in self.reported:
            self.problems.add(key, f"missing; expected {expected}")
            self.reported.add(key)
