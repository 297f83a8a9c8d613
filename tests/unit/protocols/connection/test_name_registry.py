"""Names: one holder each; a newer incarnation fences the older off, never the other way round."""

import pytest

from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import Incarnation, LinkId
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.name_registry import NameRegistry


def holder(link: int, incarnation: int, name: str = "n", principal: str = "p") -> Connection:
    made = Connection(LinkId(link), 0, 1000, 1000, 5.0)
    made.name, made.principal, made.incarnation = name, principal, Incarnation(incarnation)
    return made


def test_a_free_name_is_given() -> None:
    names = NameRegistry()
    assert names.claim(holder(1, 5)) is None
    assert len(names) == 1


@pytest.mark.parametrize("incarnation", [5, 6])
def test_a_newer_incarnation_or_the_same_one_on_a_new_link_fences_the_holder(incarnation: int) -> None:
    names = NameRegistry()
    old, new = holder(1, 5), holder(2, incarnation)
    names.claim(old)
    assert names.claim(new) is old
    assert len(names) == 1


def test_an_older_incarnation_is_refused_and_changes_nothing() -> None:
    names = NameRegistry()
    new, old = holder(1, 6), holder(2, 5)
    names.claim(new)
    with pytest.raises(FrameError, match="a newer client holds the name 'n'") as caught:
        names.claim(old)
    assert caught.value.code is Refusal.FENCED
    names.release(old)
    assert names.claim(holder(3, 7)) is new


def test_one_name_of_two_principals_is_two() -> None:
    names = NameRegistry()
    assert names.claim(holder(1, 5, principal="a")) is None
    assert names.claim(holder(2, 1, principal="b")) is None
    assert names.claim(holder(3, 1, name="m", principal="a")) is None
    assert len(names) == 3


def test_one_that_was_fenced_releases_nothing_when_it_goes() -> None:
    names = NameRegistry()
    old, new = holder(1, 5), holder(2, 6)
    names.claim(old)
    names.claim(new)
    names.release(old)
    assert len(names) == 1
    names.release(new)
    names.release(new)
    assert len(names) == 0
    assert names.claim(holder(3, 1)) is None
