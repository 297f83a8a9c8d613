"""The JSON Schema of a configuration file, with which editors complete and check it."""

from pathlib import Path
from typing import Any

import msgspec

from stentor.config.colours import COLOUR_KINDS
from stentor.config.quantity import DURATIONS, SIZES, pattern
from stentor.config.repositories import STORAGE
from stentor.config.settings import COSTS, DATA, LISTEN, Config, Elasticity
from stentor.model.limits import Limits, Seconds, Size

_ADDRESS = {"type": "string", "pattern": r"^(\[[0-9A-Fa-f:.%]+\]|[^:\[\]]+):[0-9]{1,5}$", "examples": [str(LISTEN)]}
_PART = "[A-Za-z0-9_.-]+"
_NAME = {"type": "string", "pattern": rf"^{_PART}(/{_PART})*$", "examples": ["campus/library/b1"]}
_REQUIRED = {
    "Config": ["node"],
    "FabricTable": [],
    "Tls": ["directory"],
    "Node": ["name"],
    "Unit": ["name"],
    "LinkTable": ["between"],
    "ChannelTable": ["from", "to", "where"],
    "Repository": ["name"],
    "AccessRule": ["principals"],
    "ColourKeys": [],
}


def schema() -> dict[str, Any]:
    """msgspec's schema of what a file means, changed where a file is written differently or may leave something out."""
    generated = msgspec.json.schema(Config, schema_hook=_path)
    definitions = generated["$defs"]
    definitions["Address"], definitions["ScopePath"] = _ADDRESS, _NAME
    for table, required in _REQUIRED.items():
        definitions[table].update(required=required, additionalProperties=False)
    top, node = definitions["Config"]["properties"], definitions["Node"]["properties"]
    top["node"]["minItems"] = 1
    definitions["FabricTable"]["properties"]["data"]["default"] = str(DATA)
    definitions["FabricTable"]["properties"]["costs"].update(minItems=1, default=list(COSTS))
    for properties in (node, definitions["Repository"]["properties"]):
        properties["http"].update(anyOf=[{"$ref": "#/$defs/Address"}, {"const": ""}])
        properties["http"].pop("default", None)  # any free port
    for properties, table in ((node, "Tls"), (node, "Limits"), (top, "Tls"), (top, "Limits"), (top, "Elasticity")):
        _only_reference(properties, table.lower(), table)
    _only_reference(top, "colours", "ColourKeys")
    _network(definitions)
    _colours(definitions)
    for struct in (Limits, Elasticity):
        definitions[struct.__name__]["additionalProperties"] = False
        _quantities(definitions[struct.__name__]["properties"], struct)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Stentor configuration", **generated}


def _network(definitions: dict[str, Any]) -> None:
    """Units, links, channels and repositories."""
    for name in ("unit", "link", "channel", "repository", "access"):
        del definitions["Config"]["properties"][name]["default"]
    unit, scope = definitions["Unit"]["properties"], {"$ref": "#/$defs/ScopePath"}
    repository = definitions["Repository"]["properties"]
    for properties, name in ((unit, "name"), (repository, "unit")):
        said = properties[name]["description"]
        properties[name] = {"anyOf": [scope, {"const": ""}], "description": said}
    repository["name"]["pattern"] = f"^{_PART}$"
    repository["storage"]["pattern"] = STORAGE
    del repository["accepts"]["default"]
    repository["accepts"]["minItems"] = 1
    for properties in (unit, definitions["Node"]["properties"]):
        del properties["number"]["default"]  # it depends on who else is in the unit
    fabric, link, rule = (definitions[name]["properties"] for name in ("FabricTable", "LinkTable", "AccessRule"))
    for name in ("topics", "names"):
        del rule[name]["default"]
    for name in ("principals", "topics", "names"):
        rule[name]["minItems"] = 1
    optional = ((unit, "forwarding"), (unit, "connect"), (link, "cost"), (fabric, "access"))
    for properties, name in (*optional, (repository, "most_topics"), (repository, "most_bytes")):
        _left_out(properties, name)
    number = {word: repository["most_bytes"].pop(word) for word in ("type", "minimum", "maximum")}
    repository["most_bytes"]["anyOf"] = [number, {"type": "string", "pattern": pattern(SIZES)}]
    between = definitions["LinkTable"]["properties"]["between"]
    del between["prefixItems"]
    between.update(items=scope, uniqueItems=True)
    definitions["ChannelTable"]["properties"]["where"]["minItems"] = 1


def _colours(definitions: dict[str, Any]) -> None:
    """What [colours] and [[unit]] set of waves; whatever is left out follows from the file, and is never null."""
    unit = definitions["Unit"]["properties"]
    for properties in (unit, definitions["ColourKeys"]["properties"]):
        for name in COLOUR_KINDS:
            _left_out(properties, name)
        for name in ("xi", "delta_max", "drain_within", "audit"):
            number = {word: properties[name].pop(word) for word in ("type", "exclusiveMinimum", "maximum")}
            properties[name]["anyOf"] = [number, {"type": "string", "pattern": pattern(DURATIONS)}]
    del unit["roots"]["default"]
    unit["roots"].update(minItems=1, uniqueItems=True)


def _quantities(properties: dict[str, Any], struct: type[msgspec.Struct]) -> None:
    """Sizes and durations may be written with a unit."""
    for field in msgspec.structs.fields(struct):
        if field.type in (Size, Seconds):
            number = properties[field.name]
            default = number.pop("default")
            text = {"type": "string", "pattern": pattern(SIZES if field.type == Size else DURATIONS)}
            properties[field.name] = {"anyOf": [number, text], "default": default}


def _path(kind: type) -> dict[str, Any]:
    assert kind is Path, kind
    return {"type": "string", "minLength": 1}


def _left_out(properties: dict[str, Any], name: str) -> None:
    """A key that may be left out is never null."""
    (kind,) = [kind for kind in properties[name]["anyOf"] if kind != {"type": "null"}]
    properties[name] = {"description": properties[name]["description"], **kind}


def _only_reference(properties: dict[str, Any], name: str, definition: str) -> None:
    """A table that is left out is inherited: it has no default of its own, and is never null."""
    said = {word: text for word, text in properties[name].items() if word == "description"}
    properties[name] = {"$ref": f"#/$defs/{definition}", **said}
