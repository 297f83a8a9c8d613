"""All charters of a broker: digests, inventories, and no end of topics that are gone."""

import msgspec
import pytest

from stentor.model.errors import FrameError
from stentor.model.trust.access import Grant, Membership, SharedFact, TopicTerms
from stentor.protocols.dissemination.access import charters as module
from stentor.protocols.dissemination.access.charters import Charters


def live(version: int = 1, owner: str = "olga") -> SharedFact:
    return "topic", version, "r1", msgspec.msgpack.encode(TopicTerms(owner))


def gone(version: int) -> SharedFact:
    return "topic", version, "r1", b""


def awaited(name: str, version: int, *, has_heard: bool = False) -> SharedFact:
    return f"awaited/{name}", version, "", b"" if has_heard else msgspec.msgpack.encode(Membership())


def charters(*topics: str) -> Charters:
    made = Charters(lambda _: None)
    for topic in topics:
        made.learn(topic, [live()])
    return made


def test_who_knows_the_same_has_the_same_digest_and_who_knows_nothing_has_none() -> None:
    one, other = charters("a", "b"), charters("b", "a")
    assert charters().digest == 0
    assert one.digest == other.digest != 0
    one.learn("a", [("grant/publisher/p", 1, "r1", msgspec.msgpack.encode(Grant()))])
    assert one.digest != other.digest
    assert one.facts == 3


def test_whoever_listens_hears_which_topic_changed_when_it_has() -> None:
    changed: list[tuple[str, bool]] = []
    made = Charters(lambda topic: changed.append((topic, made.of(topic) is not None)))
    made.learn("a", [live()])
    made.learn("a", [live()])
    made.learn("a", [gone(2)])
    assert changed == [("a", True), ("a", False)]


def test_what_cannot_be_changes_nothing() -> None:
    made = charters("a")
    before = made.digest
    with pytest.raises(FrameError):
        made.learn("a", [live(5, "mallory"), ("member/x", 1, "r1", b"\xc1")])
    assert made.digest == before
    assert (charter := made.of("a")) is not None
    assert charter.owner == "olga"


def test_inventories_are_bounded_and_leave_no_gap() -> None:
    one, other = charters(*(f"t/{number:04}" for number in range(0, 1300, 2))), Charters(lambda _: None)
    other.learn("t/0001", [live()])
    other.learn("t/0002", [live(9)])
    other.learn("t/0998", [live()])
    other.learn("zzz", [live()])
    parts = list(one.inventories())
    assert len(parts) == 2
    assert (parts[0].first, parts[-1].last) == ("", "")
    assert parts[0].last == parts[1].first
    assert [topic for part in parts for topic in other.differing(part)] == ["t/0001", "t/0002", "zzz"]
    assert len([topic for part in other.inventories() for topic in one.differing(part)]) == 649
    assert sum(len(part.digests) for part in parts) == 650


def test_long_names_make_more_inventories() -> None:
    made = charters(*(f"{number:03}" + 1000 * "x" for number in range(200)))
    assert all(len(msgspec.msgpack.encode(part)) < 128 << 10 for part in made.inventories())


def test_the_oldest_tombstones_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_TOMBSTONES", 3)
    made, other = charters("a"), charters()
    for number in range(10, 15):
        assert made.learn(f"t{number}", [gone(number)])
    assert made.learn("old", [gone(2)]) == []
    assert sorted(made) == ["a", "t12", "t13", "t14"]
    for topic in made:
        other.learn(topic, made.facts_of(topic))
    assert made.digest == other.digest
    assert (made.facts, len(made)) == (4, 1)


@pytest.mark.req("RD-01")
def test_a_tombstone_stays_until_every_repository_has_heard_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_TOMBSTONES", 2)
    monkeypatch.setattr(module, "_MOST_AWAITING", 2)
    made = charters()
    made.learn("kept", [gone(5), awaited("r1", 7, has_heard=True), awaited("r2", 6)])
    for number in range(10, 15):
        made.learn(f"t{number}", [gone(number)])
    assert sorted(made) == ["kept", "t13", "t14"]
    made.learn("kept", [awaited("r2", 7, has_heard=True)])
    assert sorted(made) == ["t13", "t14"]
    for number in range(20, 25):
        made.learn(f"w{number}", [gone(number), awaited("r2", number + 1)])
    assert sorted(made) == ["t13", "t14", "w23", "w24"], "a repository that never comes must not fill our memory"
