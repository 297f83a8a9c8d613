"""Reads a configuration file, and reports everything that is wrong with it at once."""

import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from stentor.config.address import Address
from stentor.config.check import check_certificates, check_nodes
from stentor.config.lines import Key, locate
from stentor.config.problem import Problems, describe, nearest, suggestion
from stentor.config.quantity import duration, show_duration, show_size, size
from stentor.config.settings import ANY_HTTP, DATA, LISTEN, Config, Fabric, LogLevel, Node, Role, Tls
from stentor.model.errors import ConfigError, InvalidInput
from stentor.model.limits import Limits, Seconds, Size
from stentor.model.scope import ScopePath

LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
ROLES: tuple[Role, ...] = get_args(Role)

T = TypeVar("T")
Table = dict[str, Any]

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_LONGEST_SHOWN = 200
_NEEDS_QUOTES = ("Invalid value", "Expected newline or end of document after a statement")
# What stands for a value that is wrong: it causes no second complaint.
_NO_NAME = ScopePath(())
_NO_ADDRESS = Address("127.0.0.1", 0)
_NO_TLS = Tls(directory=Path())


def load(path: Path | str, *, node: str | None = None) -> Config:
    """The configuration in a file; with `node`, only that node's certificates must be on this machine."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the configuration: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}:{line}: expected UTF-8 text, found byte 0x{error.object[error.start]:02x}; save the file as UTF-8"
        ) from error
    return parse(text, str(path), node=node)


def parse(text: str, filename: str = "stentor.toml", *, node: str | None = None) -> Config:
    """The configuration in a text; relative paths start at the directory of `filename`."""
    try:
        document = tomllib.loads(text)
        lines = locate(text)
    except RecursionError as error:
        raise ConfigError(f"{filename}: arrays or tables are nested too deeply") from error
    except ValueError as error:
        raise ConfigError(_syntax_error(text, filename, error)) from error
    return _Reader(filename, Problems(filename, lines), node).config(document)


class _Reader:
    def __init__(self, filename: str, problems: Problems, only: str | None) -> None:
        self.base = Path(filename).parent
        self.problems = problems
        self.only = only
        self.reported: set[Key] = set()  # keys that are absent because of a problem that is reported already

    def config(self, document: Table) -> Config:
        top = self.table(document, (), Config)
        fabric = self.fabric(top.get("fabric", {}))
        limits = self.limits(top.get("limits", {}), ("limits",), Limits())
        tls = self.tls(top, ("tls",), None)
        nodes = self.nodes(top, fabric, limits, tls)
        check_nodes(nodes, self.problems)
        check_certificates(self.certificate_directories(nodes, tls), self.problems)
        self.problems.raise_if_any()
        config = Config(fabric=fabric, limits=limits, tls=tls, nodes=tuple(nodes))
        if self.only is not None:
            try:
                config.node(self.only)
            except ConfigError as error:
                self.problems.add(("node",), str(error))
        self.problems.raise_if_any()
        return config

    def fabric(self, value: object) -> Fabric:
        table = self.table(value, ("fabric",), Fabric)
        return Fabric(
            data=self.take(table, ("fabric", "data"), self.path, self.base / DATA),
            log=self.take(table, ("fabric", "log"), lambda found: _choice(found, LOG_LEVELS), "info"),
        )

    def tls(self, parent: Table, key: Key, inherited: Tls | None) -> Tls | None:
        if "tls" not in parent:
            return _NO_TLS if key in self.reported else inherited
        table = self.table(parent["tls"], key, Tls)
        self.require(table, (*key, "directory"), 'the certificate directory, such as "certs/node"')
        return self.take(table, (*key, "directory"), lambda found: Tls(directory=self.path(found)), _NO_TLS)

    def limits(self, value: object, key: Key, inherited: Limits) -> Limits:
        table = self.table(value, key, Limits)
        return Limits(
            **{
                field.name: self.take(
                    table, (*key, field.name), _limit_reader(field.type), getattr(inherited, field.name)
                )
                for field in msgspec.structs.fields(Limits)
            }
        )

    def nodes(self, top: Table, fabric: Fabric, limits: Limits, tls: Tls | None) -> list[Node]:
        expected = "at least one [[node]], in double brackets"
        self.require(top, ("node",), expected)
        found = top.get("node", [])
        if not isinstance(found, list) or ("node" in top and not found):
            self.problems.add(("node",), f"expected {expected}, found {describe(found)}")
            return []
        return [self.node(value, ("node", index), fabric, limits, tls) for index, value in enumerate(found)]

    def node(self, value: object, key: Key, fabric: Fabric, limits: Limits, tls: Tls | None) -> Node:
        table = self.table(value, key, Node)
        self.require(table, (*key, "name"), 'a scope path such as "campus/library/b1"')
        name = self.take(table, (*key, "name"), _name, _NO_NAME)
        return Node(
            name=name,
            role=self.take(table, (*key, "role"), lambda found: _choice(found, ROLES), "broker"),
            listen=self.take(table, (*key, "listen"), _address, LISTEN, _NO_ADDRESS),
            http=self.take(table, (*key, "http"), _address_or_off, ANY_HTTP),
            storage=self.take(table, (*key, "storage"), self.path, fabric.data.joinpath(*name.parts)),
            tls=self.tls(table, (*key, "tls"), tls),
            limits=self.limits(table.get("limits", {}), (*key, "limits"), limits),
        )

    def certificate_directories(self, nodes: Sequence[Node], shared: Tls | None) -> dict[Key, Path]:
        """The certificate directories that nodes of this machine need, by the key that names them."""
        needed: dict[Key, Path] = {}
        for index, node in enumerate(nodes):
            if node.tls is not None and node.tls is not _NO_TLS and self.only in (None, str(node.name)):
                key: Key = ("tls",) if node.tls is shared else ("node", index, "tls")
                needed[*key, "directory"] = node.tls.directory
        return needed

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

    def take(self, table: Table, key: Key, read: Callable[[object], T], default: T, instead: T | None = None) -> T:
        """The value of a key, or its default; a value that is wrong is reported, and `instead` stands for it."""
        name = key[-1]
        if name in table:
            try:
                return read(table[name])
            except InvalidInput as error:
                self.problems.add(key, str(error))
        elif key not in self.reported:
            return default
        return default if instead is None else instead

    def require(self, table: Table, key: Key, expected: str) -> None:
        if key[-1] not in table and key not in self.reported:
            self.problems.add(key, f"missing; expected {expected}")

    def path(self, value: object) -> Path:
        text = _text(value, "a path")
        try:
            path = Path(text).expanduser()
        except RuntimeError as error:
            raise InvalidInput(f"expected a path, found {describe(text)}: {error}") from error
        if not text or "\0" in text:
            raise InvalidInput(f"expected a path, found {describe(text)}")
        return self.base / path


def _text(value: object, expected: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"expected {expected} in quotes, found {describe(value)}")
    return value


def _name(value: object) -> ScopePath:
    return ScopePath.parse(_text(value, "a scope path"))


def _address(value: object) -> Address:
    return Address.parse(_text(value, "host:port"))


def _address_or_off(value: object) -> Address | None:
    return None if value == "" else _address(value)


def _choice(value: object, choices: Sequence[T]) -> T:
    for choice in choices:
        if value == choice:
            return choice
    words = [str(choice) for choice in choices]
    hint = suggestion(value, words) if isinstance(value, str) and nearest(value, words) else ""
    raise InvalidInput(f"expected {' or '.join(words)}, found {describe(value)}{hint}")


def _limit_reader(limit: Any) -> Callable[[object], int | float]:
    """Reads a value of one of the types of a limit, within the bounds that the type states."""
    bounds = get_args(limit)[1]
    read: Callable[[object], int | float]
    show: Callable[[Any], str]
    if limit == Size:
        read, show, kind = size, show_size, "a size"
    elif limit == Seconds:
        read, show, kind = duration, show_duration, "a duration"
    else:
        read, show, kind = _integer, str, "an integer"

    def within(value: object) -> int | float:
        found = read(value)
        try:
            msgspec.convert(found, limit)
        except msgspec.ValidationError as error:
            lowest = f"more than {show(bounds.gt)}" if bounds.gt is not None else f"at least {show(bounds.ge)}"
            raise InvalidInput(
                f"expected {kind} of {lowest} and at most {show(bounds.le)}, found {describe(value)}"
            ) from error
        return found

    return within


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput(f"expected an integer, found {describe(value)}")
    return value


def _syntax_error(text: str, filename: str, error: ValueError) -> str:
    """tomllib's complaint, with the line it is about."""
    reason = str(error)
    rows = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    line, column = len(rows), len(rows[-1]) + 1
    if (position := _POSITION.search(reason)) is not None:
        reason = reason[: position.start()]
        if position[1] is not None:
            line, column = int(position[1]), int(position[2])
    if reason in _NEEDS_QUOTES:
        reason += "; text needs quotes"
    shown = rows[line - 1] if line <= len(rows) else ""
    pointer = f"\n  {shown}\n  {' ' * (column - 1)}^" if len(shown) <= _LONGEST_SHOWN else ""
    return f"{filename}:{line}:{column}: not TOML: {reason}{pointer}"
