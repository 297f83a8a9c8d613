"""Checks across the nodes of a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from stentor.config.address import Address, check_exposure
from stentor.config.lines import Key
from stentor.config.problem import Problems, dotted
from stentor.config.settings import CERTIFICATE_FILES, Node
from stentor.model.errors import ConfigError


def check_nodes(nodes: Sequence[Node], problems: Problems) -> None:
    _check_names(nodes, problems)
    _check_addresses(nodes, problems)
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


def _check_names(nodes: Sequence[Node], problems: Problems) -> None:
    first: dict[tuple[str, ...], int] = {}
    for index, node in enumerate(nodes):
        parts = node.name.parts
        if parts and parts in first:
            where = f"{dotted(('node', first[parts]))} on line {problems.line(('node', first[parts], 'name'))}"
            problems.add(("node", index, "name"), f"expected a name of its own, found that of {where}: {node.name}")
        first.setdefault(parts, index)
    inside = {parts[:length]: index for parts, index in first.items() for length in range(1, len(parts))}
    for parts, outer in first.items():
        if parts in inside:
            reason = f"expected a leaf of the tree, found the scope that holds {nodes[inside[parts]].name}"
            problems.add(("node", outer, "name"), f"{reason} ({dotted(('node', inside[parts]))})")


def _check_addresses(nodes: Sequence[Node], problems: Problems) -> None:
    bound: list[tuple[Key, Address]] = []
    for index, node in enumerate(nodes):
        for name, address in (("listen", node.listen), ("http", node.http)):
            if address is None:
                continue
            key: Key = ("node", index, name)
            try:
                check_exposure(address, secured=node.tls is not None)
            except ConfigError as error:
                problems.add(key, str(error))
            for other_key, other in bound:
                if address.collides(other):
                    where = f"{dotted(other_key)} on line {problems.line(other_key)}"
                    problems.add(key, f"expected an address of its own, found that of {where}: {address}")
                    break
            bound.append((key, address))


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
