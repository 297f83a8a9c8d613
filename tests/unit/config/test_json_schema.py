"""The schema for editors says what the reader does."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stentor.config import schema
from stentor.model.limits import Limits

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.toml"))


def accepts(rule: dict[str, Any], value: object) -> bool:
    """As much of JSON Schema as ours uses."""
    if "$ref" in rule:
        rule = schema()["$defs"][rule["$ref"].removeprefix("#/$defs/")]
    if "anyOf" in rule:
        return any(accepts(choice, value) for choice in rule["anyOf"])
    if "enum" in rule or "const" in rule:
        return value in rule.get("enum", [rule.get("const")])
    match rule["type"]:
        case "object":
            return (
                isinstance(value, dict)
                and set(rule["required"]) <= value.keys() <= rule["properties"].keys()
                and all(accepts(rule["properties"][name], inner) for name, inner in value.items())
            )
        case "array":
            return (
                isinstance(value, list)
                and rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value))
                and (not rule.get("uniqueItems") or len(set(value)) == len(value))
                and all(accepts(rule["items"], inner) for inner in value)
            )
        case "string":
            return isinstance(value, str) and re.search(rule.get("pattern", ""), value) is not None
        case "boolean":
            return isinstance(value, bool)
        case "integer" | "number":
            return (
                isinstance(value, int if rule["type"] == "integer" else int | float)
                and not isinstance(value, bool)
                and rule.get("minimum", value) <= value <= rule.get("maximum", value)
                and value > rule.get("exclusiveMinimum", value - 1)
            )
    raise AssertionError(rule)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_fit_the_schema(example: Path) -> None:
    assert accepts(schema(), tomllib.loads(example.read_text()))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "node = []",
        "[[node]]\nrole = 'broker'",
        "[[node]]\nname = 'b1'\nlisen = '127.0.0.1:1'",
        "[[node]]\nname = 'b1'\nlisten = '127.0.0.1'",
        "[[node]]\nname = 'b1'\nrole = 'brokr'",
        "[[node]]\nname = 'b1'\n[limits]\nqueue = '8 apples'",
        "[[node]]\nname = 'b1'\n[tls]",
        "[[node]]\nname = 'b1'\nnumber = 64",
        "[[node]]\nname = 'b1'\n[fabric]\ncosts = []",
        "[[node]]\nname = 'b1'\n[fabric]\ncosts = [0]",
        "[[node]]\nname = 'b1'\n[fabric]\nforwarding = 'flood'",
        "[[node]]\nname = 'b1'\n[[unit]]\nconnect = 'mesh'",
        "[[node]]\nname = 'b1'\n[[unit]]\nname = ''\nconnect = 'star'",
        "[[node]]\nname = 'b1'\n[[link]]\ncost = 1",
        "[[node]]\nname = 'b1'\n[[link]]\nbetween = ['a']",
        "[[node]]\nname = 'b1'\n[[link]]\nbetween = ['a', 'a']",
        "[[node]]\nname = 'b1'\n[[link]]\nbetween = ['a', 'b']\ncost = -1",
        "[[node]]\nname = 'b1'\n[[channel]]\nfrom = 'a'\nto = 'b'",
        "[[node]]\nname = 'b1'\n[[channel]]\nfrom = 'a'\nto = 'b'\nwhere = []",
        "[[node]]\nname = 'b1'\n[[repository]]\nbroker = 'b1'",
        "[[node]]\nname = 'b1'\n[[repository]]\nname = 'a/b'",
        "[[node]]\nname = 'b1'\n[[repository]]\nname = 'r1'\nstorage = 'disk'",
        "[[node]]\nname = 'b1'\n[elasticity]\nmost_brokers = 65",
        "[[node]]\nname = 'b1'\n[elasticity]\ncheck_every = '1 day'",
        "[[node]]\nname = 'b1'\n[colours]\nxi = 0",
        "[[node]]\nname = 'b1'\n[colours]\ndelta_max = '1 day'",
        "[[node]]\nname = 'b1'\n[colours]\nroots = ['b1']",
        "[[node]]\nname = 'b1'\n[[unit]]\nname = ''\neta = 1",
        "[[node]]\nname = 'b1'\n[[unit]]\nname = ''\nroots = []",
        "[[node]]\nname = 'b1'\n[[unit]]\nname = ''\nroots = ['b1', 'b1']",
    ],
)
def test_wrong_files_do_not_fit_the_schema(text: str) -> None:
    assert not accepts(schema(), tomllib.loads(text))


def test_repositories_fit_the_schema() -> None:
    text = "[[node]]\nname = 'b1'\n[[repository]]\nname = 'r1'\n[[repository]]\nname = 'r2'\n"
    text += "broker = 'b1'\nunit = ''\nstorage = 'postgresql://db/events'\n"
    assert accepts(schema(), tomllib.loads(text))


def test_colours_fit_the_schema() -> None:
    keys = "xi = 4\neta = 9\ndelta_max = '50 ms'\ndegree = 3\nheight = 4\naudit = '1 min'\n"
    text = f"[[node]]\nname = 'b1'\n[colours]\n{keys}[[unit]]\nname = ''\n{keys}roots = ['b1']\n"
    assert accepts(schema(), tomllib.loads(text))


def test_every_limit_is_described_and_all_of_it_is_json() -> None:
    assert set(schema()["$defs"]["Limits"]["properties"]) == {field.name for field in msgspec.structs.fields(Limits)}
    assert json.loads(json.dumps(schema())) == schema()
