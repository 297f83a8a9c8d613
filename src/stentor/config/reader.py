"""Reads a configuration file, and reports everything that is wrong with it at once."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar, get_args

import msgspec

from stentor.config import value as values
from stentor.config.access import read_access
from stentor.config.address import Address
from stentor.config.check import Addresses, check_certificates, check_names, check_places
from stentor.config.colours import FileColours, check_colours, read_colour_keys
from stentor.config.lines import Key, locate
from stentor.config.network import FORWARDING, NetworkReader
from stentor.config.problem import Problems, describe
from stentor.config.repositories import Repositories
from stentor.config.settings import (
    ANY_HTTP,
    COSTS,
    DATA,
    AccessDefault,
    ColourKeys,
    Config,
    Cost,
    Elasticity,
    FabricTable,
    LogLevel,
    Node,
    Number,
    Role,
    Tls,
    Traces,
    default_listen,
)
from stentor.config.table import Table, Tables
from stentor.model.errors import ConfigError, InvalidInput
from stentor.model.limits import Limits
from stentor.model.scope import ScopePath

LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
ROLES: tuple[Role, ...] = get_args(Role)
ACCESS: tuple[AccessDefault, ...] = get_args(AccessDefault)
TRACES: tuple[Traces, ...] = get_args(Traces)

S = TypeVar("S", bound=msgspec.Struct)

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_LONGEST_SHOWN = 200
_NEEDS_QUOTES = ("Invalid value", "Expected newline or end of document after a statement")
_OF_COLOURS = ("colours", "elasticity", "unit", "link")  # a mistake in one of these tables would cause others
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


class _Reader(Tables):
    def __init__(self, filename: str, problems: Problems, only: str | None) -> None:
        super().__init__(problems)
        self.base = Path(filename).parent
        self.only = only
        self.claims: dict[Key, int] = {}  # the numbers that nodes ask for

    def config(self, document: Table) -> Config:
        top = self.table(document, (), Config)
        fabric = self.fabric(top.get("fabric", {}))
        limits = self.bounded(top.get("limits", {}), ("limits",), Limits())
        elasticity = self.bounded(top["elasticity"], ("elasticity",), Elasticity()) if "elasticity" in top else None
        tls = self.tls(top, ("tls",), None)
        nodes = self.nodes(top, fabric, limits, tls)
        sound = check_names(nodes, self.problems)
        addresses = Addresses(self.problems)
        check_places(nodes, addresses, self.problems)
        check_certificates(self.certificate_directories(nodes, tls), self.problems)
        network = NetworkReader(self, nodes, self.claims, sound=sound)
        network.read(top)
        colours = self.colours(top, network, elasticity)
        repositories = Repositories(self, network, addresses, fabric.data, self.base)
        repositories.read(top)
        self.problems.raise_if_any()
        config = Config(
            fabric=fabric,
            limits=limits,
            tls=tls,
            nodes=network.numbered(),
            units=network.units(),
            links=tuple(network.links),
            channels=tuple(network.channels),
            repositories=tuple(repositories.found),
            elasticity=elasticity,
            colours=colours,
            access=read_access(self, top),
        )
        if self.only is not None:
            try:
                config.node(self.only)
            except ConfigError as error:
                self.problems.add(("node",), str(error))
        self.problems.raise_if_any()
        return config

    def fabric(self, value: object) -> FabricTable:
        table = self.table(value, ("fabric",), FabricTable)
        return FabricTable(
            data=self.take(table, ("fabric", "data"), self.path, self.base / DATA),
            log=self.take(table, ("fabric", "log"), lambda found: values.choice(found, LOG_LEVELS), "info"),
            forwarding=self.take(
                table, ("fabric", "forwarding"), lambda found: values.choice(found, FORWARDING), "content"
            ),
            costs=self.costs(table),
            traces=self.take(table, ("fabric", "traces"), _traces, "summed"),
            access=self.take(table, ("fabric", "access"), lambda found: values.choice(found, ACCESS), None),
            token=self.take(table, ("fabric", "token"), self.token, None),
        )

    def colours(self, top: Table, network: NetworkReader, elasticity: Elasticity | None) -> ColourKeys:
        table = self.table(top.get("colours", {}), ("colours",), ColourKeys)
        shared = ColourKeys(**read_colour_keys(self, table, ("colours",)))
        told = {name: unit for name, (_, unit) in network.told.items()}
        links = [link.between for link in network.links]
        if network.sound and network.whole and not any(key[0] in _OF_COLOURS for key in self.reported):
            found = FileColours(shared, told, network.tree.brokers, links, elasticity)
            check_colours(
                found, network.tree.members, {name: key for name, (key, _) in network.told.items()}, self.problems
            )
        return shared

    def costs(self, table: Table) -> tuple[float, ...]:
        expected = values.several("a list of costs such as [1, 2, 3, 4]")
        found = self.each(table, ("fabric", "costs"), expected, values.bounded(Cost)) if "costs" in table else COSTS
        return tuple(cost for cost in found if cost is not None)

    def tls(self, parent: Table, key: Key, inherited: Tls | None) -> Tls | None:
        if "tls" not in parent:
            return _NO_TLS if key in self.reported else inherited
        table = self.table(parent["tls"], key, Tls)
        self.require(table, (*key, "directory"), 'the certificate directory, such as "certs/node"')
        return self.take(table, (*key, "directory"), lambda found: Tls(directory=self.path(found)), _NO_TLS)

    def bounded(self, value: object, key: Key, inherited: S) -> S:
        """A table of values whose types state their bounds; what it does not set is inherited."""
        table = self.table(value, key, type(inherited))
        return type(inherited)(
            **{
                field.name: self.take(
                    table, (*key, field.name), values.bounded(field.type), getattr(inherited, field.name)
                )
                for field in msgspec.structs.fields(inherited)
            }
        )

    def nodes(self, top: Table, fabric: FabricTable, limits: Limits, tls: Tls | None) -> list[Node]:
        expected = "at least one [[node]], in double brackets"
        self.require(top, ("node",), expected)
        found = top.get("node", [])
        if not isinstance(found, list) or ("node" in top and not found):
            self.problems.add(("node",), f"expected {expected}, found {describe(found)}")
            return []
        return [self.node(value, ("node", index), fabric, limits, tls) for index, value in enumerate(found)]

    def node(self, value: object, key: Key, fabric: FabricTable, limits: Limits, tls: Tls | None) -> Node:
        table = self.table(value, key, Node)
        self.require(table, (*key, "name"), 'a scope path such as "campus/library/b1"')
        name = self.take(table, (*key, "name"), values.name, _NO_NAME)
        number = self.take(table, (*key, "number"), values.bounded(Number), None)
        if number is not None:
            self.claims[key] = number
        return Node(
            name=name,
            role=self.take(table, (*key, "role"), lambda found: values.choice(found, ROLES), "broker"),
            listen=self.listen(table, key),
            advertise=self.take(table, (*key, "advertise"), values.address, None),
            http=self.take(table, (*key, "http"), values.address_or_off, ANY_HTTP),
            storage=self.take(table, (*key, "storage"), self.path, fabric.data.joinpath(*name.parts)),
            tls=self.tls(table, (*key, "tls"), tls),
            limits=self.bounded(table.get("limits", {}), (*key, "limits"), limits),
        )

    def listen(self, table: Table, key: Key) -> Address:
        default = _NO_ADDRESS
        if "listen" not in table:
            try:
                default = default_listen(int(key[-1]))
            except InvalidInput as error:
                self.problems.add((*key, "listen"), str(error))
        return self.take(table, (*key, "listen"), values.address, default, _NO_ADDRESS)

    def certificate_directories(self, nodes: Sequence[Node], shared: Tls | None) -> dict[Key, Path]:
        """The certificate directories that nodes of this machine need, by the key that names them."""
        needed: dict[Key, Path] = {}
        for index, node in enumerate(nodes):
            if node.tls is not None and node.tls is not _NO_TLS and self.only in (None, str(node.name)):
                key: Key = ("tls",) if node.tls is shared else ("node", index, "tls")
                needed[*key, "directory"] = node.tls.directory
        return needed

    def token(self, value: object) -> Path:
        """The file of a token that was given; who gives none gets one that is made."""
        found = self.path(value)
        if not found.is_file():
            raise InvalidInput(
                f"expected the file of a fabric's token, found none at '{found}'; `stentor up` makes one"
            )
        return found

    def path(self, value: object) -> Path:
        return values.path(value, self.base)


def _traces(value: object) -> Traces:
    """Which traces are told; files that are older than sums say whether any are."""
    return ("summed" if value else "none") if isinstance(value, bool) else values.choice(value, TRACES)


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
