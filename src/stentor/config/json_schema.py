"""The JSON Schema of a configuration file, with which editors complete and check it."""

from pathlib import Path
from typing import Any

import msgspec

from stentor.config.quantity import DURATIONS, SIZES, pattern
from stentor.config.settings import DATA, LISTEN, Config
from stentor.model.limits import Limits, Seconds, Size

_ADDRESS = {"type": "string", "pattern": r"^(\[[0-9A-Fa-f:.%]+\]|[^:\[\]]+):[0-9]{1,5}$", "examples": [str(LISTEN)]}
_NAME = {"type": "string", "pattern": r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$", "examples": ["campus/library/b1"]}


def schema() -> dict[str, Any]:
    """msgspec's schema of what a file means, changed where a file is written differently or may leave something out."""
    generated = msgspec.json.schema(Config, schema_hook=_path)
    definitions = generated["$defs"]
    definitions["Address"], definitions["ScopePath"] = _ADDRESS, _NAME
    for table, required in {"Config": ["node"], "Fabric": [], "Tls": ["directory"], "Node": ["name"]}.items():
        definitions[table].update(required=required, additionalProperties=False)
    definitions["Config"]["properties"]["node"]["minItems"] = 1
    definitions["Fabric"]["properties"]["data"]["default"] = str(DATA)
    node = definitions["Node"]["properties"]
    node["listen"]["default"] = str(LISTEN)
    node["http"]["anyOf"] = [{"$ref": "#/$defs/Address"}, {"const": ""}]
    _only_reference(node, "tls", "Tls")
    _only_reference(node, "limits", "Limits")
    _only_reference(definitions["Config"]["properties"], "tls", "Tls")
    _only_reference(definitions["Config"]["properties"], "limits", "Limits")
    for field in msgspec.structs.fields(Limits):
        units = SIZES if field.type == Size else DURATIONS
        if field.type in (Size, Seconds):
            number = definitions["Limits"]["properties"][field.name]
            default = number.pop("default")
            text = {"type": "string", "pattern": pattern(units)}
            definitions["Limits"]["properties"][field.name] = {"anyOf": [number, text], "default": default}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Stentor configuration", **generated}


def _path(kind: type) -> dict[str, Any]:
    assert kind is Path, kind
    return {"type": "string", "minLength": 1}


def _only_reference(properties: dict[str, Any], name: str, definition: str) -> None:
    """A table that is left out is inherited: it has no default of its own, and is never null."""
    said = {word: text for word, text in properties[name].items() if word == "description"}
    properties[name] = {"$ref": f"#/$defs/{definition}", **said}
