"""Checks across the nodes of a file."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from stentor.config.address import Address, check_exposure
from stentor.config.lines import Key
from stentor.config.problem import Problems, dotted
from stentor.config.settings import CERTIFICATE_FILES, Node
from stentor.model.errors import ConfigError


def check_names(nodes: Sequence[Node], problems: Problems) -> bool:
    """Whether the names make a tree: all there, each its own, all of one depth."""
    first: dict[tuple[str, ...], int] = {}
    sound = bool(nodes)
    for index, node in enumerate(nodes):
        parts = node.name.parts
        if parts and parts in first:
            where = f"{dotted(('node', first[parts]))} on line {problems.line(('node', first[parts], 'name'))}"
            problems.add(("node", index, "name"), f"expected a name of its own, found that of {where}: {node.name}")
        sound = sound and bool(parts) and parts not in first
        first.setdefault(parts, index)
    depths = Counter(len(parts) for parts in first if parts)
    usual, _ = depths.most_common(1)[0] if depths else (0, 0)
    model = next((nodes[index].name for parts, index in first.items() if len(parts) == usual), None)
    for parts, index in first.items():
        if parts and len(parts) != usual:
            reason = f"expected as many names as in {model}, found {nodes[index].name}"
            problems.add(("node", index, "name"), f"{reason}: all brokers of a fabric have names of the same length")
    return sound and len(depths) == 1


class Addresses:
    """The addresses that nodes of a file bind: no two may be the same, and none may let strangers in."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._bound: dict[Address, Key] = {}

    def check(self, key: Key, address: Address, *, secured: bool) -> None:
        try:
            check_exposure(address, secured=secured)
        except ConfigError as error:
            self._problems.add(key, str(error))
        other = self._bound.setdefault(address.canonical, key)
        if other is not key and address.port != 0:
            where = f"{dotted(other)} on line {self._problems.line(other)}"
            self._problems.add(key, f"expected an address of its own, found that of {where}: {address}")


def check_places(nodes: Sequence[Node], addresses: Addresses, problems: Problems) -> None:
    """Whether no two nodes use one address or one directory, and none lets strangers in."""
    for index, node in enumerate(nodes):
        for name, address in (("listen", node.listen), ("http", node.http)):
            if address is not None:
                addresses.check(("node", index, name), address, secured=node.tls is not None)
    _check_storage(nodes, problems)


def check_certificates(directories: Mapping[Key, Path], problems: Problems) -> None:
    """Whether the files are there; what they hold is checked by whoever uses them."""
    for key, directory in directories.items():
        missing = _missing(directory)
        if not missing:
            continue
        if not _missing(directory / "node"):
            hint = f"did you mean '{directory / 'node'}'?"
        else:
            hint = "`stentor certs init DIR` makes DIR/node"
        problems.add(
            key,
            f"expected a directory with {', '.join(CERTIFICATE_FILES)}, found no {', '.join(missing)} in "
            f"'{directory}'; {hint}",
        )


def _missing(directory: Path) -> list[str]:
    try:
        return [name for name in CERTIFICATE_FILES if not (directory / name).is_file()]
    except OSError:  # a directory that we may not enter, or a path that cannot be
        return list(CERTIFICATE_FILES)


def _check_storage(nodes: Sequence[Node], problems: Problems) -> None:
    first: dict[Path, int] = {}
    names = set()
    for index, node in enumerate(nodes):
        if not node.name.parts or node.name in names:
            continue  # reported already
        names.add(node.name)
        if node.storage in first:
            where = dotted(("node", first[node.storage]))
            reason = f"expected a place of its own, found that of {where}: {node.storage}"
            problems.add(("node", index, "storage"), reason)
        first.setdefault(node.storage, index)
