"""The repositories of a file: who stores reliable topics, in what, and which broker they are linked to."""

from pathlib import Path
from urllib.parse import urlsplit

from stentor.config import value as values
from stentor.config.check import Addresses
from stentor.config.lines import Key
from stentor.config.network import NetworkReader
from stentor.config.problem import describe
from stentor.config.settings import ANY_HTTP, Repository, storage_in
from stentor.config.table import Table, Tables
from stentor.config.topology import ROOT
from stentor.model.errors import InvalidInput
from stentor.model.limits import Count, DiskSize
from stentor.model.scope import ScopePath
from stentor.model.wording.suggestion import nearest

STORAGE = "^(sqlite:|segments:|postgres(ql)?://.)"
_FILES = ("sqlite", "segments")
_EXPECTED = 'expected "sqlite:DIRECTORY", "segments:DIRECTORY" or "postgresql://USER@HOST/DATABASE"'


class Repositories:
    """Reads [[repository]] over a network that is known already."""

    def __init__(self, tables: Tables, network: NetworkReader, addresses: Addresses, data: Path, base: Path) -> None:
        self._tables = tables
        self._problems = tables.problems
        self._network = network
        self._addresses = addresses
        self._data, self._base = data, base
        self.found: list[Repository] = []

    def read(self, top: Table) -> None:
        names: dict[str, Key] = {
            str(node.name): ("node", index) for index, node in enumerate(self._network.nodes) if node.name.parts
        }
        for key, value in self._tables.array(top, "repository"):
            repository = self._repository(value, key)
            if repository is None:
                continue
            if (other := names.setdefault(repository.name, key)) is not key:
                where = self._network.where(other)
                self._problems.add(
                    (*key, "name"), f"expected a name of its own, found that of {where}: {repository.name}"
                )
            self.found.append(repository)

    def _repository(self, value: object, key: Key) -> Repository | None:
        take = self._tables.take
        table = self._tables.table(value, key, Repository)
        self._tables.require(table, (*key, "name"), 'a name such as "r1"')
        name = take(table, (*key, "name"), _name, "")
        usual = storage_in(self._data)
        storage = take(
            table, (*key, "storage"), lambda found: storage_line(found, usual, self._base), f"sqlite:{usual}"
        )
        unit = take(table, (*key, "unit"), lambda found: self._network.unit_name(found) or ROOT, ROOT)
        broker = take(table, (*key, "broker"), self._network.broker_name, self._first(unit))
        lake = take(table, (*key, "lake"), lambda found: values.path(found, self._base), None)
        http = take(table, (*key, "http"), values.address_or_off, ANY_HTTP)
        accepts = self._tables.words(table, (*key, "accepts"), values.topic_pattern)
        most_topics = take(table, (*key, "most_topics"), values.bounded(Count), None)
        most_bytes = take(table, (*key, "most_bytes"), values.bounded(DiskSize), None)
        if not name or broker is None:
            return None
        if http is not None:
            guard = next(node.tls for node in self._network.nodes if node.name == broker)
            self._addresses.check((*key, "http"), http, secured=guard is not None)
        if broker.parts[: len(unit.parts)] != unit.parts:
            self._problems.add(
                (*key, "broker"), f"expected a broker in {unit}, the unit that it serves, found {broker}"
            )
        return Repository(
            name=name,
            broker=broker,
            unit=unit,
            storage=storage,
            lake=lake,
            http=http,
            accepts=accepts,
            most_topics=most_topics,
            most_bytes=most_bytes,
        )

    def _first(self, unit: ScopePath) -> ScopePath | None:
        return self._network.tree.first[unit] if self._network.tree.brokers else None


def check_repository_name(name: str) -> str:
    """The name itself, if a repository can have it."""
    if len(ScopePath.parse(name).parts) > 1:
        raise InvalidInput(f"{name!r} is not a repository's name: letters, digits, '-', '_' and '.', such as r1")
    return name


def _name(value: object) -> str:
    return check_repository_name(values.text(value, "a name such as r1"))


def storage_line(value: object, usual: Path, base: Path = Path()) -> str:
    """Where ledgers are, in one line; a directory is relative to `base`, and the `usual` one if none is named."""
    text = values.text(value, "where it stores events")
    kind, colon, place = text.partition(":")
    if colon and kind in _FILES:
        if "\0" in place:
            raise InvalidInput(f"{_EXPECTED}, found {describe(text)}")
        return f"{kind}:{base / Path(place).expanduser() if place else usual}"
    if kind in ("postgresql", "postgres") and place.startswith("//"):
        try:
            parts = urlsplit(text)
            whole = bool(parts.path.strip("/")) and parts.port != 0
        except ValueError:
            whole = False
        if not whole:
            raise InvalidInput(f"{_EXPECTED}, found {describe(text)}: it names no database")
        return text
    meant = nearest(kind, (*_FILES, "postgresql"))
    raise InvalidInput(f"{_EXPECTED}, found {describe(text)}{f'; did you mean {meant!r}?' if meant else ''}")


def without_password(line: str) -> str:
    """Where ledgers are, for people to see."""
    if line.partition(":")[0] in _FILES:
        return line
    parts = urlsplit(line)
    user, at, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}").geturl()
