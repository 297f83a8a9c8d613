"""The public Python API: the blocking one offers all that the asynchronous one does, and the manual names all of it."""

import inspect
import re
from pathlib import Path

import pytest

import stentor
from stentor import blocking

_API = (Path(__file__).resolve().parents[3] / "docs" / "api.md").read_text(encoding="utf-8")
_FABRIC = stentor.connect("stentor://127.0.0.1:1")  # none of these is ever opened
TWINS = {
    "Fabric": (_FABRIC, blocking.BlockingFabric),
    "Events": (_FABRIC.subscribe("t"), blocking.BlockingEvents),
    "Publisher": (_FABRIC.publisher("t", name="n"), blocking.BlockingPublisher),
    "Subscription": (_FABRIC.subscribe("t", name="n"), blocking.BlockingSubscription),
}


def public(thing: object) -> set[str]:
    """The names that people may use, attributes of instances among them."""
    return {name for name in dir(thing) if not name.startswith("_")}


def parameters(function: object) -> dict[str, object]:
    assert callable(function)
    return {each.name: each.default for each in inspect.signature(function).parameters.values() if each.name != "self"}


def test_a_reliable_subscription_is_one() -> None:
    assert {"topic", "name", "repository", "epoch", "sync", "next_batch", "move"} <= public(TWINS["Subscription"][0])


@pytest.mark.req("UX-02")
@pytest.mark.parametrize("name", TWINS)
def test_the_blocking_api_has_every_public_name(name: str) -> None:
    twin, facade = TWINS[name]
    assert public(twin) - public(facade) == set()


@pytest.mark.parametrize("name", TWINS)
def test_the_blocking_api_takes_the_same_parameters(name: str) -> None:
    twin, facade = TWINS[name]
    for each in public(twin):
        method = getattr(twin, each)
        if callable(method):
            asked, offered = parameters(method), parameters(getattr(facade, each))
            assert asked.items() <= offered.items(), f"{name}.{each}: {asked} and {offered}"
            assert all("timeout" in more for more in offered.keys() - asked.keys()), "what it adds are timeouts"


def test_both_connect_in_the_same_way() -> None:
    assert parameters(stentor.connect) == parameters(blocking.connect)


def test_every_public_name_is_loaded_when_it_is_used() -> None:
    for name in stentor.__all__:
        assert getattr(stentor, name) is not None, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        stentor.nothing  # noqa: B018


def test_the_manual_names_everything() -> None:
    code = " ".join(re.findall(r"```.*?```|`[^`]+`", _API, re.DOTALL)) + " ".join(
        re.findall(r"^## .*$", _API, re.MULTILINE)
    )
    words = set(re.findall(r"\w+", code))
    names = set(stentor.__all__) - {"__version__"} | set(parameters(stentor.connect)) | {"blocking", "next"}
    for twin, facade in TWINS.values():
        names |= public(twin) | public(facade)
        for each in public(twin):
            if callable(method := getattr(twin, each)):
                names |= set(parameters(method))
    assert sorted(names - words) == []
